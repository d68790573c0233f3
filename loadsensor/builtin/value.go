package builtin

import "strconv"

// Names of the load values. Those of the first three groups are the original's.
const (
	LoadShort    = "load_short"  // mean length of the run queue over a minute
	LoadMedium   = "load_medium" // five minutes
	LoadLong     = "load_long"   // a quarter of an hour
	LoadAvg      = "load_avg"    // the same as load_medium
	NPLoadShort  = "np_load_short"
	NPLoadMedium = "np_load_medium"
	NPLoadLong   = "np_load_long"
	NPLoadAvg    = "np_load_avg"
	NumProc      = "num_proc"
	Arch         = "arch"
	CPU          = "cpu" // percent that the processors were not idle since the last reading

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

	// What could be given to programs without swapping, as the kernel estimates it;
	// mem_free counts shared memory and tmpfs as free.
	MemAvailable = "mem_available"

	// Percent of the last minute in which some, or all, tasks of the host waited for
	// a processor, for memory or for I/O (pressure stall information, Linux 4.20).
	PressureCPUSome    = "psi_cpu_some"
	PressureMemorySome = "psi_memory_some"
	PressureMemoryFull = "psi_memory_full"
	PressureIOSome     = "psi_io_some"
	PressureIOFull     = "psi_io_full"

	// The file system of the jobs' temporary directories: what an ordinary user can
	// still write, and its size.
	TmpDirFree  = "tmpdir_free"
	TmpDirTotal = "tmpdir_total"
)

// Value is one load value, with the text that goes into a report.
type Value struct {
	Name string
	Text string
	// Static is true for what load_parameters(5) calls static: it can be shown for a
	// host that does not answer.
	Static bool
}

// Missing is a value that could not be read.
type Missing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Processors describes the sockets, cores and threads of the host; who knows it hands it in
// (Options.Processors).
type Processors struct {
	Sockets, Cores, Threads int
	Topology                string // SCTTCTT; NONE where it is unknown
	InUse                   string // the same with the cores of bound jobs in lower case
}

// FormatNumber formats load averages and percentages as C's %f does.
func FormatNumber(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

// FormatMemory formats amounts of bytes as %fM, in units of 2^20 bytes.
func FormatMemory(bytes float64) string { return FormatNumber(bytes/(1<<20)) + "M" }
