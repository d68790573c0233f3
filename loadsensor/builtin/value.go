package builtin

import "strconv"

// Names of the load values. The names in the first three groups are the original's.
const (
	LoadShort    = "load_short"  // mean length of the run queue over one minute
	LoadMedium   = "load_medium" // five minutes
	LoadLong     = "load_long"   // fifteen minutes
	LoadAvg      = "load_avg"    // the same as load_medium
	NPLoadShort  = "np_load_short"
	NPLoadMedium = "np_load_medium"
	NPLoadLong   = "np_load_long"
	NPLoadAvg    = "np_load_avg"
	NumProc      = "num_proc"
	Arch         = "arch"
	CPU          = "cpu" // percentage of time since the last reading in which the processors were not idle

	MemTotal     = "mem_total"
	MemFree      = "mem_free"
	MemUsed      = "mem_used"
	SwapTotal    = "swap_total"
	SwapFree     = "swap_free"
	SwapUsed     = "swap_used"
	VirtualTotal = "virtual_total"
	VirtualFree  = "virtual_free"
	VirtualUsed  = "virtual_used"

	MSocket        = "m_socket"
	MCore          = "m_core"
	MThread        = "m_thread"
	MTopology      = "m_topology"
	MTopologyInUse = "m_topology_inuse"
	MTopologyGPU   = "m_topology_gpu"

	// The kernel's estimate of the memory available to programs without swapping. mem_free counts
	// shared memory and tmpfs as free.
	MemAvailable = "mem_available"

	// Percentage of the last minute in which some, or all, tasks of the host waited for a
	// processor, for memory or for I/O (pressure stall information, Linux 4.20).
	PressureCPUSome    = "psi_cpu_some"
	PressureMemorySome = "psi_memory_some"
	PressureMemoryFull = "psi_memory_full"
	PressureIOSome     = "psi_io_some"
	PressureIOFull     = "psi_io_full"

	// The file system of the jobs' temporary directories: the space available to an ordinary user,
	// and its size.
	TmpDirFree  = "tmpdir_free"
	TmpDirTotal = "tmpdir_total"
)

// Value is one load value, with its text for a report.
type Value struct {
	Name string
	Text string
	// Static is true for the static load values of load_parameters(5), which are shown even if the
	// host is down.
	Static bool
}

// Missing is a value that could not be read, with the reason.
type Missing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Processors describes the sockets, cores and threads of the host. Options.Processors supplies it.
type Processors struct {
	Sockets, Cores, Threads int
	Topology                string // SCTTCTT; NONE if it is unknown
	InUse                   string // the same with the cores of bound jobs in lower case
	// GPUs is where the GPUs of the host are, as topology.FormatDevices writes it; empty for none. It is
	// reported only if the host offers GPUs.
	GPUs string
}

// FormatNumber formats load averages and percentages as C's %f does.
func FormatNumber(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

// FormatMemory formats amounts of bytes as %fM, in units of 2^20 bytes.
func FormatMemory(bytes float64) string { return FormatNumber(bytes/(1<<20)) + "M" }
