// Package cgroup makes the control group of a job, sets its limits, reads what
// the job has used, and removes it.
//
// Other projects should not import this package: it may change at any time.
//
// It is for the process that starts supervisors: the agent, and execd run. The
// supervisor itself works with what Group.Paths returns, through package
// limits/group, and must never link this one.
//
// What a host offers is tried, not concluded from version numbers: Detect and Open
// make a group, enable controllers in it and look which files it has. Each Feature
// then is there, in the hierarchy where it works best, or is not for a reason, a
// *group.NotSupportedError with what it would take. A job whose limits need what
// is not there gets its group all the same, and Group.Unmet says what must be
// enforced by other means.
//
// # Layout
//
// In each hierarchy that is of use a job has the directory
//
//	PARENT/NAME/JOB.TASK
//
// where PARENT is the top of the hierarchy, or the group that was delegated to
// us, and NAME is Config.Name. It is a leaf: on v2 no group may hold both
// processes and groups with controllers. The supervisor is not in it. A job has its
// group in the v2 hierarchy always, since a process can be started in it, and in
// those of v1 only where its limits need one: they are entered by a write, which may
// wait for an RCU grace period in the kernel.
//
// # What is left to github.com/containerd/cgroups/v3
//
// The values of limits (cgroup2.NewManager, cgroup1.New), among them cpusets of v1,
// which want their ancestors filled in, and the device filter of v2, an eBPF
// program; and statistics. By raw files we do:
//
//   - the choice of the hierarchy and of the directory, and enabling controllers one
//     by one: the library enables all in one write, of which one missing controller
//     fails the others; it finds v1 by name below one directory, and takes a mixed
//     host for v1 only.
//   - creating the directory, since it takes one that exists for its own.
//   - killing: its Kill falls back to waiting for the processes, which are the
//     supervisor's to wait for, and tells a global logger about it.
//   - removing: its Delete does not wait for the kernel to be done with processes.
//   - events: its EventChan is a goroutine and an inotify per job; poll(2) works on
//     the files themselves.
//   - memory.peak, memory.events and the like for the supervisor.
//
// Statistics are asked for by controller: reading huge pages or pressure may log.
//
// A Manager may be used from several goroutines, also by several processes with
// the same name at a time. A Group is for one goroutine at a time.
package cgroup
