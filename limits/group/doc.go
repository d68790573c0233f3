// Package group is the supervisor's interface to the control group of its job. It lets the job's
// child enter the group, reads the job's usage, detects that memory ran out, and freezes or kills
// all processes of the group.
//
// Other projects should not import this package: it may change at any time.
//
// It neither makes nor removes groups, and sets no limits: package limits/cgroup does this in the
// process that starts the supervisor. That process passes Paths to the supervisor, as lines of text
// in a file of the job directory. So the supervisor, of which each job has one, does not contain
// the library that limits/cgroup uses. The supervisor also guesses nothing: Paths has no path for a
// file that the kernel lacks, and an operation that needs the file returns a *NotSupportedError.
//
// Documentation/admin-guide/cgroup-v2.rst and Documentation/admin-guide/cgroup-v1/ describe the
// kernel's interface. The group of a job may be one directory (v2), one directory per controller
// (v1), or both: hosts with only v1 controllers often have an empty v2 hierarchy as well, in which
// killing, freezing and CPU time also work.
//
// If the job's owner may write to the group (a delegated subtree of an unprivileged user), the
// owner can move processes to other groups, so the group does not reliably contain the job.
// Supervisors therefore also remain the subreaper of their job.
//
// A Group is for one goroutine. Paths and the errors are plain values.
package group
