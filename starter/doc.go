// Package starter runs the steps of a job: prolog, PE start, the job itself, PE stop and epilog, in
// this order, each with its user, arguments, environment and files. It supervises the job while it
// runs: signals, notification, suspend, resume and terminate methods, checkpoints, limits and the
// wall clock.
//
// Other projects should not import this package: it may change at any time.
//
// Package starter is the body of the per-job supervisor (cmd/shepherd). It reads everything about
// the job from the job directory, and records there every step before it takes it. So the daemon
// that started the supervisor may stop at any time, and its successor finds the state of the job on
// disk.
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
// One goroutine, locked to its thread, does all of this. It waits for a signal or for the next
// deadline (package sigwait), and uses no CPU time in between. The package must not be used in a
// process that has other children: it reaps every child.
package starter
