// Package workload holds the jobs of a simulation: when and by which user each is submitted, its
// request, and its run time. It reads them from a file of qsub command lines, or creates them from
// a trace of a real machine (package swf).
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// # Files of jobs
//
// A line contains a qsub command line, preceded by words for the facts that only a real cluster
// would show:
//
//	# three of alice's jobs, and one of bob's a minute later
//	@0 run=600 user=alice:staff qsub -N a -l h_rt=900 -b y /bin/true
//	   run=300 user=alice:staff qsub -N b -pe mpi 4-8 -R y
//	   run=20  user=alice:staff qsub -N c -t 1-100 -hold_jid a
//	@+0:1:0    user=bob         qsub -q 'long.q,*@@big' -b y sleep 7200
//
// The words, in any order and each at most once:
//
//   - @TIME is the time of submission, after the start of the simulation. @+TIME
//     is relative to the submission of the job in the previous line. Without
//     either, the job is submitted together with the previous one, and the first
//     one at 0.
//   - run=TIME is the run time of the job, or of each task of an array job, unless
//     a limit ends it earlier; with INFINITY only a limit ends it. Without it, a
//     command sleep runs for the number of seconds in its first argument, and any
//     other command until a limit ends it.
//   - user=NAME or user=NAME:GROUP is the submitting user.
//
// Times are seconds or hours:minutes:seconds (time_specifier of sge_types(5)).
//
// After the words follows qsub with its options (sge_submit(1)). Without a script or command the
// job is named STDIN, as with qsub.
//
// Lines are split into words like in a shell. Single quotes protect all characters. Double quotes
// protect all characters except a backslash before " \ $ ` or the end of the line. A backslash
// protects the next character, and at the end of a line it continues the line. A # at the beginning
// of a word starts a comment. There is no expansion: a character that is special to a shell outside
// quotes, such as ; | & < > ( ) and `, is an error. Quotes must be closed before the end of the
// line, including its continuations.
//
// # Traces
//
// See Mapping.
//
// The package does no I/O: it reads scripts and other files that a line names through a function of
// the caller. All functions may be called from any goroutine.
package workload
