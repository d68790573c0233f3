// Package cgroup creates the control group of a job, sets its limits, reads the usage of the job,
// and removes the group.
//
// Other projects should not import this package: it may change at any time.
//
// It is for the process that starts supervisors: the agent, and execd run. The supervisor itself
// uses the result of Group.Paths, through package limits/group, and must never link this package.
//
// The package does not deduce the abilities of a host from version numbers: Detect and Open create
// a group, enable controllers in it and check which files it has. After that each Feature is either
// available, in the hierarchy where it works best, or missing with a reason: a
// *group.NotSupportedError that names the requirement. A job with limits that the host cannot
// enforce still gets its group. Group.Unmet returns these limits, which must be enforced by other
// means.
//
// # Layout
//
// In each hierarchy that it uses, a job has the directory
//
//	PARENT/NAME/JOB.TASK
//
// PARENT is the top of the hierarchy, or the group that was delegated to this process, and NAME is
// Config.Name. The directory is a leaf: on v2 no group may contain both processes and groups with
// controllers. The supervisor is not in it. A job always has a group in the v2 hierarchy, since a
// process can be started in it. It has groups in v1 hierarchies only if its limits need them: a
// process enters these by a write, which may wait for an RCU grace period in the kernel.
//
// # The role of github.com/containerd/cgroups/v3
//
// The library sets the values of limits (cgroup2.NewManager, cgroup1.New), including cpusets of v1,
// whose ancestors must be filled in, and the device filter of v2, an eBPF program. It also reads
// statistics. This package uses the kernel's files directly for:
//
//   - choosing the hierarchy and the directory, and enabling controllers one by
//     one. The library enables all of them in one write, in which a missing
//     controller makes the others fail. It finds v1 controllers by name below one
//     directory, and treats a mixed host as v1 only.
//   - creating the directory, since the library accepts one that already exists.
//   - killing: the library's Kill may wait for processes, which only the
//     supervisor may do, and reports it to a global logger.
//   - removing: the library's Delete does not wait until the kernel has finished
//     with the processes.
//   - events: the library's EventChan needs a goroutine and an inotify per job;
//     poll(2) works on the files themselves.
//   - memory.peak, memory.events and similar files for the supervisor.
//
// Statistics are requested by controller, because the library may log when it reads huge pages or
// pressure.
//
// Several goroutines may use a Manager, and several processes may use the same name at the same
// time. A Group is for one goroutine at a time.
package cgroup
