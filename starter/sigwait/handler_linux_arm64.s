#include "textflag.h"

#define SYS_write 64
#define SYS_rt_sigreturn 139

// The kernel calls handler with C's conventions, on the signal stack of some
// thread, with all signals blocked: R0 is the number of the signal. Registers
// that C may clobber are all that it uses, and sigreturn restores these, too.
TEXT ·handler(SB), NOSPLIT|NOFRAME, $0
	SUB	$1, R0, R0
	MOVD	$1, R1
	LSL	R0, R1, R1
	MOVD	$·arrived(SB), R0
again:
	LDAXRW	(R0), R2
	ORR	R1, R2, R2
	STLXRW	R2, (R0), R3
	CBNZ	R3, again
	MOVW	·wakeFD(SB), R0
	MOVD	$·one(SB), R1
	MOVD	$8, R2
	MOVD	$SYS_write, R8
	SVC
	RET

// Where handler returns to.
TEXT ·restorer(SB), NOSPLIT|NOFRAME, $0
	MOVD	$SYS_rt_sigreturn, R8
	SVC
	BRK

DATA	·handlerAddr(SB)/8, $·handler(SB)
GLOBL	·handlerAddr(SB), RODATA|NOPTR, $8

DATA	·restorerAddr(SB)/8, $·restorer(SB)
GLOBL	·restorerAddr(SB), RODATA|NOPTR, $8
