// Package group is what the supervisor of a job does with the control group of
// its job: it lets the job's child enter it, reads what the job has used, sees
// when memory ran out, and freezes or kills everything in it.
//
// Other projects should not import this package: it may change at any time.
//
// It makes and removes no groups and sets no limits: package limits/cgroup does,
// in the process that starts the supervisor, and hands over Paths, plain lines of
// text in a file of the job directory. So nothing of the library that limits/cgroup
// is built on gets into the process of which there is one per job, and nothing is
// guessed here: a file that the kernel lacks has no path, and what needs it is a
// *NotSupportedError.
//
// The kernel's side is described in Documentation/admin-guide/cgroup-v2.rst and
// Documentation/admin-guide/cgroup-v1/. A group of a job may be one directory (v2) or
// one per controller (v1), or both at a time: on hosts whose controllers are all v1
// an empty v2 hierarchy often stands beside them, and killing, freezing and CPU time
// work there as well.
//
// Groups that the job's owner may write to (a delegated subtree of an unprivileged
// user) hold a job only as long as it does not mean to leave: there the owner can
// move processes to other groups of theirs. Supervisors therefore also remain the
// subreaper of their job.
//
// A Group is for one goroutine. Paths and the errors are plain values.
package group
