// Package script reads jobs.txt, the script of a recorded case: the commands with their users and
// answers, waiting times, changes of load values, and the captures of the state.
//
// Other projects should not import this package: it may change at any time.
//
//	alice: qsub -b y -N a1 /bin/sleep 900
//	   -> Your job 1 ("a1") has been submitted
//	# load value n1:np_load_avg changed to 0.9
//	# wait 5 s
//	root: qmod -e '*'   (all queues had been disabled with qmod -d '*' before submission)
//	# capture output/final
//
// Parentheses after a command, separated by three blanks, contain a remark. Other comments give
// times, which a recording lacks otherwise:
//
//	# T0 = 1795213167 (epoch seconds, UTC); deadline = T0+1000s
//	# deadline = T0+100s
//	# 2026-11-20 22:23:59 Fri (epoch 1795213439)
//	# reservation 1: starts 12 s after submission, 300 s
//	# every job below runs alone: submitted on the idle cluster, captured after one
//
// All other text after a # is for the reader. Lines in any other format are errors.
//
// The package does no I/O, and its functions may be called from any goroutine.
package script
