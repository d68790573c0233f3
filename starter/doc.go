// Package starter runs what runs for a job: prolog, PE start, the job itself,
// PE stop and epilog, in this order, each as the right user with the right
// arguments, environment and files; and it supervises the job while it runs:
// signals, notification, suspend, resume and terminate methods, checkpoints and
// the wall clock.
//
// Other projects should not import this package: it may change at any time.
//
// It is the body of the per-job supervisor (cmd/shepherd). Everything that it
// knows about the job it reads from the job directory, and everything that
// happens it records there before it goes on, so that whoever started it may
// die, and comes back to find the truth on disk.
//
//	         +--------+   ok   +----------+   ok   +-----+        +---------+        +--------+
//	start -->| prolog |------->| pe_start |------->| job |------->| pe_stop |------->| epilog |--> exit_status
//	         +--------+        +----------+        +-----+        +---------+        +--------+
//	          |      |               | failed         any end or failed start ^            ^
//	could not |      | failed, or    +-------------------------------->-------+            |
//	be started|      | job was killed meanwhile                                            |
//	          v      +----------------------------------------------------------->---------+
//	         end
//
// One goroutine does all of it, locked to its thread: it waits for a signal or
// for the next deadline (package sigwait) and costs nothing in between. It is not for use by a
// process that has other children: it reaps every child there is.
package starter
