#include "textflag.h"

#define SYS_prlimit64 261
#define RLIMIT_NOFILE 7

// func prlimitOpenFiles(r *rlimit) int64
TEXT ·prlimitOpenFiles(SB), NOSPLIT, $0-16
	MOVD	$0, R0
	MOVD	$RLIMIT_NOFILE, R1
	MOVD	$0, R2
	MOVD	r+0(FP), R3
	MOVD	$SYS_prlimit64, R8
	SVC
	MOVD	R0, ret+8(FP)
	RET
