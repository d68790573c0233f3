#include "textflag.h"

#define SYS_prlimit64 302
#define RLIMIT_NOFILE 7

// func prlimitOpenFiles(r *rlimit) int64
TEXT ·prlimitOpenFiles(SB), NOSPLIT, $0-16
	XORL	DI, DI
	MOVL	$RLIMIT_NOFILE, SI
	XORL	DX, DX
	MOVQ	r+0(FP), R10
	MOVL	$SYS_prlimit64, AX
	SYSCALL
	MOVQ	AX, ret+8(FP)
	RET
