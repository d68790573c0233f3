package cgroup

// Feature is an ability of control groups.
type Feature int

// The features.
const (
	Kill        Feature = iota // kills all processes at once, even if they fork
	Freeze                     // suspends the job without a signal
	Emptied                    // event when the last process has exited
	CPUTime                    // CPU time of all processes, including finished ones
	CPUWeight                  // share of the CPU if processes compete for it
	Cpuset                     // CPUs and memory nodes that the job cannot leave
	MemoryLimit                // limit of RAM
	SwapLimit                  // limit of RAM and swap
	MemoryPeak                 // largest memory usage so far
	OOMReport                  // number of times that memory ran out
	OOMGroup                   // an OOM kill kills the whole job
	PidsLimit                  // limit of processes and threads
	IOUsage                    // bytes read from and written to devices
	Devices                    // devices that a job may not open
	NumFeatures                // number of features
)

// file identifies a feature by a file that a new group then has, and the file's controller; empty
// for a file that every v2 group has.
type file struct{ controller, name string }

var features = [NumFeatures]struct {
	name   string // the operation that requires the feature
	v2, v1 file
	needs  string
}{
	Kill: {
		"kill a group at once",
		file{"", "cgroup.kill"},
		file{},
		"cgroup v2 on Linux 5.14; a group is frozen and its processes are killed one by one instead",
	},
	Freeze: {
		"freeze a group",
		file{"", "cgroup.freeze"},
		file{"freezer", "freezer.state"},
		"cgroup v2 on Linux 5.2, or the freezer controller",
	},
	Emptied: {
		"be told when a group is empty",
		file{"", "cgroup.events"},
		file{},
		"cgroup v2; it is looked for instead",
	},
	CPUTime: {
		"read the CPU time of a group",
		file{"", "cpu.stat"},
		file{"cpuacct", "cpuacct.usage"},
		"cgroup v2 on Linux 4.15, or the cpuacct controller",
	},
	CPUWeight: {
		"give a group its share of the CPUs",
		file{"cpu", "cpu.weight"},
		file{"cpu", "cpu.shares"},
		"the cpu controller",
	},
	Cpuset: {
		"bind a group to CPUs and memory nodes",
		file{"cpuset", "cpuset.cpus"},
		file{"cpuset", "cpuset.cpus"},
		"the cpuset controller, with v2 on Linux 5.0",
	},
	MemoryLimit: {
		"limit the RAM of a group",
		file{"memory", "memory.max"},
		file{"memory", "memory.limit_in_bytes"},
		"the memory controller",
	},
	SwapLimit: {
		"limit RAM and swap of a group together",
		file{"memory", "memory.swap.max"},
		file{"memory", "memory.memsw.limit_in_bytes"},
		"the memory controller with swap accounting (swapaccount=1 in the kernel's command line before Linux 5.8)",
	},
	MemoryPeak: {
		"read the memory peak of a group",
		file{"memory", "memory.peak"},
		file{"memory", "memory.max_usage_in_bytes"},
		"the memory controller, with v2 on Linux 5.19",
	},
	OOMReport: {
		"count OOM kills in a group",
		file{"memory", "memory.events"},
		file{"memory", "memory.oom_control"},
		"the memory controller",
	},
	OOMGroup: {
		"have an OOM kill end a whole group",
		file{"memory", "memory.oom.group"},
		file{},
		"the memory controller of cgroup v2 on Linux 4.19; the supervisor ends the others instead",
	},
	PidsLimit: {
		"limit the processes of a group",
		file{"pids", "pids.max"},
		file{"pids", "pids.max"},
		"the pids controller (Linux 4.3)",
	},
	IOUsage: {
		"read the I/O of a group",
		file{"io", "io.stat"},
		file{"blkio", "blkio.throttle.io_service_bytes"},
		"the io controller, on v1 called blkio",
	},
	Devices: {
		"keep a group from devices",
		file{},
		file{"devices", "devices.deny"},
		"the devices controller, or cgroup v2 on Linux 4.15 with the right to load eBPF programs (root; CONFIG_CGROUP_BPF)",
	},
}

// String returns the name of the feature.
func (f Feature) String() string { return features[f].name }

// controllers lists the controllers that this package uses, by version.
var (
	controllersV2 = []string{"cpu", "cpuset", "memory", "pids", "io"}
	controllersV1 = []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "freezer", "blkio", "devices"}
)
