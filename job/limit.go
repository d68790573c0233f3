package job

import "github.com/execd-project/execd/quantity"

// Resource is a resource that limits apply to: the s_/h_ pairs of queue_conf(5), RESOURCE LIMITS,
// and those of execd_params in sge_conf(5).
type Resource int

// The limited resources. The comment gives the unit of the values.
const (
	RT           Resource = iota // wall-clock time, seconds
	CPU                          // CPU time of the whole job, seconds
	Fsize                        // size of a file, bytes
	Data                         // data segment, bytes
	Stack                        // stack, bytes
	Core                         // core file, bytes
	RSS                          // resident memory, bytes
	Vmem                         // virtual memory of the whole job, bytes
	Descriptors                  // open files, count
	MaxProc                      // processes of the user, count
	MemoryLocked                 // locked memory, bytes
	Locks                        // file locks, count
	NumResources
)

var resourceNames = [NumResources]string{
	"rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem",
	"descriptors", "maxproc", "memorylocked", "locks",
}

// String returns the name without s_ or h_.
func (r Resource) String() string { return resourceNames[r] }

// Unit is the notation of a resource's values.
type Unit int

// The units of limits.
const (
	Seconds Unit = iota
	Bytes
	Count
)

// Unit returns the unit of the values of r.
func (r Resource) Unit() Unit {
	switch r {
	case RT, CPU:
		return Seconds
	case Descriptors, MaxProc, Locks:
		return Count
	default:
		return Bytes
	}
}

// Parse reads a value of r in the notation of its unit (sge_types(5)).
func (r Resource) Parse(s string) (uint64, error) {
	if r.Unit() == Seconds {
		return quantity.Time(s)
	}
	return quantity.Memory(s)
}

// Format prints a value of r in the notation of its unit.
func (r Resource) Format(v uint64) string {
	if r.Unit() == Seconds {
		return quantity.FormatTime(v)
	}
	return quantity.FormatMemory(v)
}

// ResourceNamed returns the resource of a limit with a name such as "s_cpu" or "h_cpu", and whether
// it is the hard limit. ok is false for all other names.
func ResourceNamed(name string) (r Resource, hard, ok bool) {
	if len(name) < 3 || name[1] != '_' || (name[0] != 's' && name[0] != 'h') {
		return 0, false, false
	}
	for r, n := range resourceNames {
		if n == name[2:] {
			return Resource(r), name[0] == 'h', true
		}
	}
	return 0, false, false
}

// Limit is the soft and the hard limit of one resource, in its unit. quantity.Infinity means no
// limit.
type Limit struct {
	Soft, Hard uint64
	// SoftPerJob and HardPerJob are set if the limit was requested and its complex is "consumable
	// JOB". The value is then not multiplied by slots.
	SoftPerJob, HardPerJob bool
	// Unset keeps the limit that the daemon inherited. Only the four limits of execd_params can be
	// unset (UNDEFINED).
	Unset bool
}

// Limits are all limits of a job, indexed by Resource.
type Limits [NumResources]Limit

// Unlimited returns the limits of a job without requests in a queue without limits (the template of
// queue_conf(5)).
func Unlimited() Limits {
	var l Limits
	for r := range l {
		l[r] = Limit{Soft: quantity.Infinity, Hard: quantity.Infinity}
		switch Resource(r) {
		case Descriptors, MaxProc, MemoryLocked, Locks:
			l[r].Unset = true
		}
	}
	return l
}

// VmemLimit selects what s_vmem and h_vmem limit. By queue_conf(5) they limit virtual memory, but
// it is physical memory and swap that a host runs out of.
type VmemLimit string

// The values of VmemLimit.
const (
	// VmemBoth limits both the address space of each process, and the memory (RAM and swap) of the
	// whole job.
	VmemBoth VmemLimit = ""
	// VmemMemory limits only the memory of the whole job. It suits programs that map more memory
	// than they use.
	VmemMemory VmemLimit = "memory"
	// VmemAddressSpace limits only the address space of each process.
	VmemAddressSpace VmemLimit = "address_space"
)
