package doctor

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/scope"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/scratch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
)

// scratchDir is where queues have the TMPDIRs of jobs unless they are configured otherwise.
const scratchDir = "/tmp"

// probeScratch finds out whether the size of TMPDIRs can be limited, as the configuration wants it.
func (h *Host) probeScratch(c *qconf.Configuration) {
	wanted := scratch.Method(c.ExecdParams.ScratchLimit)
	if c.ExecdParams.ScratchLimit == qconf.ScratchAuto {
		wanted = scratch.None
	}
	var err error
	if h.Scratch, err = scratch.Choose(scratchDir, wanted); err != nil {
		h.NoScratch = err.Error()
	}
}

// Probe examines this host, with its configuration. It may move an ordinary user's process to
// another control group. gpuRoot is the directory in which Probe searches /proc and /sys for GPUs.
func Probe(c *qconf.Configuration, gpuRoot string) *Host {
	h := &Host{
		Kernel: kernel(), UID: os.Geteuid(), Capabilities: capabilities(),
		Proc: readable("/proc/self/stat") && (os.Geteuid() != 0 || readable("/proc/1/stat")), Children: readable("/proc/thread-self/children"),
		NoPrivateTmp: noNamespace(), Pidfd: pidfd(), IntoGroup: intoGroup(), PSI: readable("/proc/pressure/memory"),
	}
	h.probeScratch(c)
	var info unix.Sysinfo_t
	h.Swap = unix.Sysinfo(&info) == nil && info.Totalswap > 0
	for r, resource := range resources {
		var l unix.Rlimit
		h.Confined[r] = resource.name != "" && (unix.Getrlimit(resource.number, &l) != nil || l.Max != unix.RLIM_INFINITY)
	}
	h.probeCgroups(c)
	h.probeTopology()
	h.GPUs = gpu.Detect(gpuRoot)
	h.NoQuery = !gpu.HasQuery(gpuRoot)
	h.GroupIDs.Range, _ = c.Value("gid_range")
	switch total, free, err := launch.FreeGroupIDs(c.GIDRange); {
	case err != nil:
		h.GroupIDs.Err = err.Error()
	default:
		h.GroupIDs.Total, h.GroupIDs.Free = total, free
	}
	return h
}

// resources maps resources to the kernel's limits for processes.
var resources = [job.NumResources]struct {
	name   string
	number int
}{
	job.Fsize:        {"RLIMIT_FSIZE", unix.RLIMIT_FSIZE},
	job.Data:         {"RLIMIT_DATA", unix.RLIMIT_DATA},
	job.Stack:        {"RLIMIT_STACK", unix.RLIMIT_STACK},
	job.Core:         {"RLIMIT_CORE", unix.RLIMIT_CORE},
	job.Descriptors:  {"RLIMIT_NOFILE", unix.RLIMIT_NOFILE},
	job.MaxProc:      {"RLIMIT_NPROC", unix.RLIMIT_NPROC},
	job.MemoryLocked: {"RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK},
}

func readable(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var b [1]byte
	_, err = unix.Read(fd, b[:])
	return err == nil
}

func kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// known lists the capabilities needed to start and supervise jobs of other users.
var known = []struct {
	bit  int
	name string
}{
	{unix.CAP_CHOWN, "CAP_CHOWN"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
	{unix.CAP_FOWNER, "CAP_FOWNER"},
	{unix.CAP_KILL, "CAP_KILL"},
	{unix.CAP_SETGID, "CAP_SETGID"},
	{unix.CAP_SETUID, "CAP_SETUID"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
	{unix.CAP_SYS_NICE, "CAP_SYS_NICE"},
	{unix.CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE"},
	{unix.CAP_BPF, "CAP_BPF"},
}

func capabilities() []string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	list := []string{}
	if unix.Capget(&header, &data[0]) != nil {
		return list
	}
	for _, c := range known {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) != 0 {
			list = append(list, c.name)
		}
	}
	return list
}

func pidfd() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// intoGroup requests a process in a group with an invalid descriptor: a kernel that supports groups
// here returns EINVAL, an older one E2BIG or ENOSYS.
func intoGroup() bool {
	args := struct {
		flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
	}{flags: unix.CLONE_INTO_CGROUP, cgroup: 1 << 40}
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	return errno == unix.EINVAL
}

func (h *Host) probeCgroups(c *qconf.Configuration) {
	h.Cgroups.Version = cgroup.None
	h.Cgroups.Disabled = disabled()
	s := &h.Systemd
	s.Booted, s.Unified = scope.Booted(), scope.Unified()
	params := c.CgroupsParams
	if params.Off || !c.ExecdParams.UseCgroups {
		h.Cgroups.Off = true
		h.lack("the configuration has switched control groups off")
		return
	}
	config := cgroup.Config{Path: params.Path, Devices: true, MoveSelf: true}
	var system *cgroup.System
	var err error
	switch in, where := h.enterScope(params); {
	case in != nil || where != "":
		defer in.Close()
		if in != nil {
			config.Within = in.Group
		}
		config.Name = "execd-doctor-" + strconv.Itoa(os.Getpid())
		var m *cgroup.Manager
		if m, err = cgroup.Open(config); err == nil {
			defer m.Close()
			system = m.System()
		}
		s.Scope = where
	default:
		system, err = cgroup.Detect(config)
	}
	if err != nil {
		h.Cgroups.Err = err.Error()
		h.lack(err.Error())
		return
	}
	h.describe(system)
}

// enterScope creates a systemd scope in the same way as for jobs, or moves this process to one, and
// returns its group.
func (h *Host) enterScope(params qconf.CgroupsParams) (*scope.Scope, string) {
	s := &h.Systemd
	switch {
	case !s.Booted:
		return nil, ""
	case !params.Systemd:
		s.Err = "the configuration says systemd=false"
		return nil, ""
	case h.root():
		in, err := scope.Open()
		if err != nil {
			s.Err = err.Error()
			return nil, ""
		}
		return in, in.Group
	}
	if err := scope.Move(); err != nil {
		s.Err = err.Error()
		return nil, ""
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		s.Err = err.Error()
		return nil, ""
	}
	_, group, _ := strings.Cut(strings.TrimSpace(string(text)), "0::")
	return nil, group
}

func (h *Host) lack(reason string) {
	for f := range h.Cgroups.Features {
		h.Cgroups.Features[f] = Feature{Reason: reason}
	}
}

func (h *Host) describe(system *cgroup.System) {
	h.Cgroups.Version = system.Version
	for _, t := range system.Hierarchies {
		reason := ""
		if t.Err != nil {
			reason = t.Err.Error()
		}
		h.Cgroups.Hierarchies = append(h.Cgroups.Hierarchies, Hierarchy{t.Mount, t.Unified, t.Controllers, t.Parent, reason})
		if t.Unified && !h.root() && h.Systemd.Scope != "" {
			h.Systemd.Controllers = slices.Clone(t.Controllers)
		}
	}
	for f := range cgroup.NumFeatures {
		at := system.Where(f)
		feature := Feature{Works: at != nil, V2: at != nil && at.Unified}
		if err := system.Check(f); err != nil {
			feature.Reason = err.Error()
			if e, ok := errors.AsType[*group.NotSupportedError](err); ok {
				feature.Reason = "it needs " + e.Needs
				if e.Err != nil {
					feature.Reason += ": " + e.Err.Error()
				}
			}
		}
		h.Cgroups.Features[f] = feature
	}
}

// disabled returns the controllers that were disabled at boot: /proc/cgroups, cgroups(7).
func disabled() []string {
	text, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 4 && f[3] == "0" {
			list = append(list, f[0])
		}
	}
	return list
}

func (h *Host) probeTopology() {
	var set unix.CPUSet
	err := unix.SchedGetaffinity(0, &set)
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	var t topology.Topology
	if err == nil {
		t, err = topology.Read(os.ReadFile, topology.Allowed{CPUs: topology.Of(cpus...)})
	}
	if err == nil && t.NumCores() == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		h.TopologyErr = err.Error()
		return
	}
	h.Topology, h.CPUs, h.Nodes = t.Shape().String(), t.NumThreads(), len(t.Nodes)
}

// noNamespace returns why this process cannot make a mount namespace, or open the paths that a job
// sees in it; empty if it can.
func noNamespace() string {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return "openat2: " + err.Error()
	}
	_ = unix.Close(fd)
	reason := make(chan string)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and the namespace with it
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			reason <- "unshare(CLONE_NEWNS): " + err.Error()
			return
		}
		reason <- ""
	}()
	return <-reason
}
