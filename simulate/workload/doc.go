// Package workload holds what is submitted in a simulation: which jobs, when, by whom,
// and for how long they run. It is read from a file of qsub command lines, or made
// from a trace of a real machine (package swf).
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// # Files of jobs
//
// A line is a job as a person would submit it, with words in front that say what a
// cluster would find out:
//
//	# three of alice's jobs, and one of bob's a minute later
//	@0 run=600 user=alice:staff qsub -N a -l h_rt=900 -b y /bin/true
//	   run=300 user=alice:staff qsub -N b -pe mpi 4-8 -R y
//	   run=20  user=alice:staff qsub -N c -t 1-100 -hold_jid a
//	@+0:1:0    user=bob         qsub -q 'long.q,*@@big' -b y sleep 7200
//
// The words, in any order and each at most once:
//
//   - @TIME is when the job is submitted, after the start of the simulation. @+TIME is
//     after the submission of the job in the line before. Without either it is
//     submitted together with that one, the first one at 0.
//   - run=TIME is for how long the job runs, each of its tasks if it is an array job,
//     unless a limit ends it; INFINITY is until then. Without it a command sleep runs
//     for as many seconds as its first argument says, and any other until a limit
//     ends it.
//   - user=NAME or user=NAME:GROUP is who submits it.
//
// Times are seconds or hours:minutes:seconds (time_specifier of sge_types(5)).
//
// Then follows qsub with its options (sge_submit(1)). Where there is no script or
// command the job is named STDIN, as that of qsub would be.
//
// Lines are split into words as a shell does. Single quotes keep everything, double
// quotes all but a backslash in front of " \ $ ` or the end of the line, and a
// backslash the character behind it. A backslash at the end of a line goes on with
// the next. A # where a word would begin starts a comment. Nothing is expanded; what
// would have a meaning of its own to a shell outside of quotes, as ; | & < > ( ) and
// `, is an error. Quotes end on the line, or on those it goes on with.
//
// # Traces
//
// See Mapping.
//
// The package is pure: scripts and other files that a line names are read by a
// function that is passed in. All functions may be called from any goroutine.
package workload
