#include "textflag.h"

#define SYS_write 1
#define SYS_rt_sigreturn 15

// The kernel calls handler with C's conventions, on the signal stack of some
// thread, with all signals blocked: DI is the number of the signal. Registers
// that C may clobber are all that it uses, and sigreturn restores these, too.
TEXT ·handler(SB), NOSPLIT|NOFRAME, $0
	LEAL	-1(DI), CX
	MOVL	$1, AX
	SHLL	CX, AX
	LOCK
	ORL	AX, ·arrived(SB)
	MOVL	·wakeFD(SB), DI
	LEAQ	·one(SB), SI
	MOVL	$8, DX
	MOVL	$SYS_write, AX
	SYSCALL
	RET

// Where handler returns to.
TEXT ·restorer(SB), NOSPLIT|NOFRAME, $0
	MOVL	$SYS_rt_sigreturn, AX
	SYSCALL
	INT	$3

DATA	·handlerAddr(SB)/8, $·handler(SB)
GLOBL	·handlerAddr(SB), RODATA|NOPTR, $8

DATA	·restorerAddr(SB)/8, $·restorer(SB)
GLOBL	·restorerAddr(SB), RODATA|NOPTR, $8
