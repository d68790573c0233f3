package doctor

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/scratch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
)

// State says how well a guarantee can be enforced.
type State string

// The states.
const (
	Best    State = "best"    // by the best means
	Works   State = "works"   // by other means, with the limitation in Reason
	Missing State = "missing" // not at all
	Never   State = "never"   // on no Linux system
)

// Check is the result for one guarantee to jobs.
type Check struct {
	Name   string `json:"name"`   // "s_vmem h_vmem", "suspend"
	State  State  `json:"state"`  // how well it can be enforced
	Means  string `json:"means"`  // the means of enforcement
	Reason string `json:"reason"` // the limitation; empty for Best
	Remedy string `json:"remedy"` // how to improve it; may be empty
}

// Examine checks a host.
func Examine(h *Host) []Check {
	checks := make([]Check, 0, job.NumResources+numOthers)
	for r := range job.NumResources {
		c := examine[r](h)
		c.Name = "s_" + r.String() + " h_" + r.String()
		checks = append(checks, c)
	}
	for _, other := range others {
		c := other.examine(h)
		c.Name = other.name
		checks = append(checks, c)
	}
	if len(h.GPUs.Discrete()) > 0 {
		c := gpus(h)
		c.Name = "gpus"
		checks = append(checks, c)
	}
	return checks
}

// gpus checks whether jobs are kept from GPUs that were not granted to them, and reports problems
// of the GPUs. It has no result for a host without GPUs.
func gpus(h *Host) Check {
	f := h.feature(cgroup.Devices)
	c := Check{State: Best, Means: "the device filter of the control group"}
	if !f.Works {
		c.State, c.Means = Missing, "environment variables alone, such as CUDA_VISIBLE_DEVICES"
		c.Reason, c.Remedy = "a job can open the GPUs of others: "+f.Reason, remedyGroups(h)
		return c
	}
	var wrong []string
	nvidia, divided := false, false
	for _, g := range h.GPUs.Discrete() {
		nvidia = nvidia || g.Vendor == gpu.NVIDIA
		divided = divided || g.Divided
		if g.Problem != "" {
			wrong = append(wrong, g.String()+": "+g.Problem)
		}
	}
	if nvidia && h.NoQuery {
		wrong = append(wrong, "there is no nvidia-smi in /usr/bin: the memory of GPUs of NVIDIA is not known, jobs that request gpu_mem do not get them, and their use is not measured")
	}
	if divided && h.NoQuery {
		wrong = append(wrong, "there is no nvidia-smi in /usr/bin: the UUIDs of MIG instances are not known, so that they are not offered")
	}
	if wrong = append(wrong, h.GPUs.Problems...); len(wrong) > 0 {
		c.State, c.Reason = Works, strings.Join(wrong, "\n")
	}
	return c
}

var examine = [job.NumResources]func(*Host) Check{
	job.RT: func(h *Host) Check {
		c := Check{State: Best, Means: "a timer of the supervisor"}
		if !h.root() {
			c.State = Works
			c.Reason = "the job is of the same user as its supervisor, and can stop that"
			c.Remedy = "run jobs as root with --as"
		}
		return c
	},
	job.CPU:  cpu,
	job.RSS:  func(h *Host) Check { return memory(h, "") },
	job.Vmem: func(h *Host) Check { return memory(h, ", and RLIMIT_AS for each process") },
	job.Locks: func(*Host) Check {
		return Check{State: Never, Means: "RLIMIT_LOCKS", Reason: "Linux takes the value and does nothing with it (getrlimit(2))"}
	},
	job.Fsize:        rlimit(job.Fsize, "RLIMIT_FSIZE"),
	job.Data:         rlimit(job.Data, "RLIMIT_DATA"),
	job.Stack:        rlimit(job.Stack, "RLIMIT_STACK"),
	job.Core:         rlimit(job.Core, "RLIMIT_CORE"),
	job.Descriptors:  rlimit(job.Descriptors, "RLIMIT_NOFILE"),
	job.MaxProc:      rlimit(job.MaxProc, "RLIMIT_NPROC"),
	job.MemoryLocked: rlimit(job.MemoryLocked, "RLIMIT_MEMLOCK"),
}

// others lists the guarantees that are not resource limits.
var others = []struct {
	name    string
	examine func(*Host) Check
}{
	{"binding", bindingCheck},
	{"suspend", suspend},
	{"kill", kill},
	{"usage", usage},
	{"scope", inScope},
	{"files", files},
	{"private_tmp", privateTmp},
	{"scratch", limitedScratch},
}

const numOthers = 8

// files checks which users can change the files and programs of a daemon.
func files(h *Host) Check {
	c := Check{State: Best, Means: "owners and modes of the configuration and the supervisor"}
	if h.Procedures != "" {
		c.Means += "; programs of a master by " + h.Procedures
	}
	if len(h.Untrusted) > 0 {
		c.State, c.Reason = Missing, strings.Join(h.Untrusted, "\n")
	}
	return c
}

// privateTmp checks whether jobs can have their own /tmp.
func privateTmp(h *Host) Check {
	const otherwise = "TMPDIR alone: jobs share /tmp, /var/tmp and /dev/shm"
	switch {
	case !h.root():
		return Check{State: Works, Means: otherwise, Reason: "only root can give a job its own /tmp", Remedy: "run the daemon as root"}
	case h.NoPrivateTmp != "":
		return Check{State: Works, Means: otherwise, Reason: "jobs cannot have their own /tmp: " + h.NoPrivateTmp, Remedy: "give the daemon CAP_SYS_ADMIN, on Linux 5.6 or later"}
	}
	return Check{State: Best, Means: "a mount namespace for each job that requests it"}
}

// limitedScratch checks whether the size of the TMPDIRs of jobs can be limited.
func limitedScratch(h *Host) Check {
	const otherwise = "no limit: the TMPDIR of a job can take all space of its file system"
	switch {
	case !h.root():
		return Check{State: Works, Means: otherwise, Reason: "only root can limit TMPDIR", Remedy: "run the daemon as root"}
	case h.NoScratch != "":
		return Check{
			State: Works, Means: otherwise, Reason: "TMPDIRs in " + scratchDir + " cannot be limited: " + h.NoScratch,
			Remedy: "mount the file system with the option prjquota (XFS, or ext4 with the features quota and project), or install e2fsprogs",
		}
	case h.Scratch == scratch.Quota:
		return Check{State: Best, Means: "a project quota for each job that requests scratch (SCRATCH_LIMIT)"}
	}
	return Check{State: Best, Means: "a file system in a file for each job that requests scratch (SCRATCH_LIMIT)"}
}

func rlimit(r job.Resource, name string) func(*Host) Check {
	return func(h *Host) Check {
		c := Check{State: Best, Means: name + " for each process"}
		if h.Confined[r] && !h.can("CAP_SYS_RESOURCE") {
			c.State = Works
			c.Reason = "without CAP_SYS_RESOURCE a limit above the hard limit of this process stays there"
			c.Remedy = remedyCapability(h)
		}
		return c
	}
}

func remedyCapability(h *Host) string {
	if h.root() {
		return "give the container the capability (--cap-add=SYS_RESOURCE)"
	}
	return "run jobs as root with --as, or raise the hard limits in /etc/security/limits.conf"
}

func cpu(h *Host) Check {
	switch f := h.feature(cgroup.CPUTime); {
	case f.Works:
		return Check{State: Best, Means: "the CPU time of the control group, and RLIMIT_CPU for each process"}
	case h.Proc:
		return Check{
			State: Works, Means: "sums of /proc, and RLIMIT_CPU for each process",
			Reason: "the usage of processes whose parent ignores SIGCHLD is mostly not measured: " + f.Reason, Remedy: remedyGroups(h),
		}
	default:
		return Check{State: Missing, Means: "RLIMIT_CPU for each process alone", Reason: "the processes of the job cannot be counted: " + f.Reason, Remedy: remedyProc}
	}
}

const remedyProc = "mount /proc without hidepid (mount -o remount,hidepid=0 /proc)"

func memory(h *Host, further string) Check {
	ram, swap := h.feature(cgroup.MemoryLimit), h.feature(cgroup.SwapLimit)
	switch {
	case ram.Works && (swap.Works || !h.Swap):
		return Check{State: Best, Means: "the memory limit of the control group" + further}
	case ram.Works:
		return Check{
			State: Works, Means: "the memory limit of the control group" + further,
			Reason: "swap is not limited: " + swap.Reason, Remedy: "boot with swapaccount=1 in the kernel's command line",
		}
	case h.Proc:
		return Check{
			State: Works, Means: "sums of /proc" + further,
			Reason: "a job that takes memory fast can be above its limit before it is seen, and use memory that others have booked: " + ram.Reason, Remedy: remedyMemory(h),
		}
	default:
		return Check{State: Missing, Means: strings.TrimPrefix(further, ", and "), Reason: "the memory of the job cannot be counted: " + ram.Reason, Remedy: remedyProc}
	}
}

func remedyMemory(h *Host) string {
	if slices.Contains(h.Cgroups.Disabled, "memory") {
		return "boot with cgroup_enable=memory in the kernel's command line"
	}
	return remedyGroups(h)
}

// remedyGroups returns the steps that allow the agent to create control groups with all
// controllers.
func remedyGroups(h *Host) string {
	switch c := h.Cgroups; {
	case c.Off:
		return "switch them on in the configuration: cgroups_params without cgroup_path=none, execd_params without USE_CGROUPS=false"
	case c.Version == cgroup.None:
		return "mount the control groups (mount -t cgroup2 none /sys/fs/cgroup), in a container start it with them (-v /sys/fs/cgroup:/sys/fs/cgroup:rw)"
	case h.Systemd.Booted && !h.Systemd.Unified:
		return "boot with systemd.unified_cgroup_hierarchy=1 in the kernel's command line"
	case h.Systemd.Booted && !h.root() && h.Systemd.Scope == "":
		return "log in, so that systemd starts a manager for the user, or have it started always (loginctl enable-linger USER)"
	case h.Systemd.Booted && !h.root():
		return "have systemd hand all controllers down: Delegate=cpu cpuset io memory pids in the section [Service] of " +
			"/etc/systemd/system/user@.service.d/delegate.conf, then systemctl daemon-reload and a new login"
	case !h.root():
		return "run jobs as root with --as, or give the user a group (chown -R USER DIRECTORY of one that execd is in alone)"
	case c.Version == cgroup.V2:
		return "make the hierarchy writable, in a container start it with that (--cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw)"
	default:
		return "boot with cgroup v2 alone (cgroup_no_v1=all), or mount the v1 controller that is missing"
	}
}

func bindingCheck(h *Host) Check {
	switch f := h.feature(cgroup.Cpuset); {
	case h.TopologyErr != "":
		return Check{State: Missing, Reason: "cores cannot be told apart: " + h.TopologyErr, Remedy: "mount sysfs (mount -t sysfs none /sys)"}
	case f.Works:
		return Check{State: Best, Means: "a cpuset, which the job cannot leave"}
	default:
		return Check{State: Works, Means: "the affinity of each process", Reason: "the job can change it: " + f.Reason, Remedy: remedyGroups(h)}
	}
}

// onlyForLimits is the reason on hosts with cgroup v1 only.
const onlyForLimits = "to enter a group of cgroup v1 takes time, so that jobs without limits of memory and CPU time have none"

func suspend(h *Host) Check {
	switch f := h.feature(cgroup.Freeze); {
	case f.Works && f.V2:
		return Check{State: Best, Means: "freezing the control group"}
	case f.Works:
		return Check{State: Works, Means: "freezing the control group, or SIGSTOP to each process", Reason: onlyForLimits, Remedy: remedyGroups(h)}
	default:
		return Check{State: Works, Means: "SIGSTOP to each process", Reason: "the job can see it, and a process of it can undo it: " + f.Reason, Remedy: remedyGroups(h)}
	}
}

func kill(h *Host) Check {
	switch f := h.feature(cgroup.Kill); {
	case f.Works:
		return Check{State: Best, Means: "cgroup.kill, and the descendants of the supervisor"}
	case h.Proc || h.Children:
		c := Check{
			State: Works, Means: "the descendants of the supervisor, one by one",
			Reason: "a job that forks fast takes longer to end, and one whose supervisor was killed lives on: " + f.Reason, Remedy: remedyGroups(h),
		}
		if h.Cgroups.Version == cgroup.V2 || h.Cgroups.Version == cgroup.Hybrid {
			if h.feature(cgroup.Freeze).Works {
				c.Means, c.Reason, c.Remedy = "freezing the control group, then one by one", f.Reason, "use Linux 5.14 or newer"
			}
		}
		return c
	default:
		return Check{State: Missing, Reason: "the processes of a job cannot be found", Remedy: remedyProc}
	}
}

func usage(h *Host) Check {
	time, peak := h.feature(cgroup.CPUTime), h.feature(cgroup.MemoryPeak)
	switch {
	case time.Works && peak.Works && !time.V2:
		return Check{State: Works, Means: "the control group, or wait4(2) and /proc", Reason: onlyForLimits, Remedy: remedyGroups(h)}
	case time.Works && peak.Works:
		return Check{State: Best, Means: "the control group, wait4(2) and /proc"}
	case h.Proc && time.Works:
		return Check{State: Works, Means: "the control group for CPU time, wait4(2) and /proc", Reason: "memory is looked at now and then: " + peak.Reason, Remedy: remedyPeak(h)}
	case h.Proc:
		return Check{State: Works, Means: "wait4(2) and /proc", Reason: "processes that the supervisor does not see end are not counted: " + time.Reason, Remedy: remedyGroups(h)}
	}
	return Check{State: Works, Means: "wait4(2)", Reason: "memory is counted for the largest process alone", Remedy: remedyProc}
}

func remedyPeak(h *Host) string {
	if h.feature(cgroup.MemoryLimit).Works {
		return "use Linux 5.19 or newer"
	}
	return remedyMemory(h)
}

// inScope checks whether jobs continue when the service or session that started them ends.
func inScope(h *Host) Check {
	s := h.Systemd
	switch {
	case !s.Booted:
		return Check{State: Best, Means: "supervisors have a session of their own"}
	case s.Scope != "" && h.root():
		return Check{State: Best, Means: "jobs and supervisors are in a scope of systemd"}
	case s.Scope != "":
		return Check{State: Best, Means: "execd run with its jobs moves to a scope of systemd, for jobs whose limits need a control group"}
	}
	return Check{
		State: Works, Means: "supervisors have a session of their own",
		Reason: "systemd ends what is left of a service or session: " + s.Err, Remedy: remedyGroups(h),
	}
}
