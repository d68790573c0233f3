package limits

import (
	"math/bits"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Rlimit is a resource limit of setrlimit(2), with the limit of the job from which it was computed.
type Rlimit struct {
	Resource   job.Resource
	Number     int    // RLIMIT_…
	Name       string // "RLIMIT_CPU"
	Soft, Hard uint64 // unix.RLIM_INFINITY for none
}

// rules describes the conversion of a job's limits to resource limits, in the order in which they
// are set. This is the original's order. Address space comes last, so that the other calls cannot
// fail for lack of it.
var rules = []struct {
	resource job.Resource
	number   int
	name     string
	perSlot  bool // multiplied by the slots on this host
	// jobConsumable: the value of a complex "consumable JOB" is already for the whole job.
	jobConsumable bool
	least, most   uint64 // bounds of the value; most 0 for no upper bound
	// clampFirst applies the bounds before the multiplication.
	clampFirst bool
}{
	{job.CPU, unix.RLIMIT_CPU, "RLIMIT_CPU", true, true, 2, 0, false},
	{job.Fsize, unix.RLIMIT_FSIZE, "RLIMIT_FSIZE", false, false, 15 << 10, 0, false},
	{job.Data, unix.RLIMIT_DATA, "RLIMIT_DATA", true, true, 10 << 20, 0, false},
	{job.Stack, unix.RLIMIT_STACK, "RLIMIT_STACK", true, true, 1 << 20, 0, false},
	{job.Core, unix.RLIMIT_CORE, "RLIMIT_CORE", false, false, 0, 0, false},
	{job.Descriptors, unix.RLIMIT_NOFILE, "RLIMIT_NOFILE", true, false, 100, 65535, true},
	{job.MaxProc, unix.RLIMIT_NPROC, "RLIMIT_NPROC", true, false, 20, 0, true},
	{job.MemoryLocked, unix.RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", true, false, 4096, 0, true},
	{job.Locks, unix.RLIMIT_LOCKS, "RLIMIT_LOCKS", true, false, 2, 0, true},
	{job.Vmem, unix.RLIMIT_AS, "RLIMIT_AS", true, true, 10 << 20, 0, false},
	{job.RSS, unix.RLIMIT_RSS, "RLIMIT_RSS", false, false, 10 << 20, 0, false},
}

// mostCPU is the longest CPU time, in seconds, that has an effect as a limit. The kernel counts
// nanoseconds in 64 bits: values above 584 years wrap around, and would kill the process at once.
const mostCPU = 1 << 33 // 272 years; leaves room for the seconds that OfProcess adds

// Rlimits returns the resource limits of each process of a job with this number of slots on this
// host (queue_conf(5), RESOURCE LIMITS; 0 counts as 1), in the order in which to set them. A soft
// limit above the hard one is lowered to it. For the four limits of execd_params (sge_conf(5)), a
// missing half has the value of the other; if both are missing, there is no entry.
func Rlimits(l job.Limits, slots int) []Rlimit {
	list := make([]Rlimit, 0, len(rules))
	for _, r := range rules {
		v := l[r.resource]
		if v.Unset {
			continue
		}
		value := func(v uint64, perJob bool) uint64 {
			if r.clampFirst {
				v = clamp(v, r.least, r.most)
			}
			if r.perSlot && (!perJob || !r.jobConsumable) {
				v = times(v, slots)
			}
			if !r.clampFirst {
				v = clamp(v, r.least, r.most)
			}
			if v == quantity.Infinity || r.resource == job.CPU && v > mostCPU {
				return unix.RLIM_INFINITY
			}
			return v
		}
		rl := Rlimit{r.resource, r.number, r.name, value(v.Soft, v.SoftPerJob), value(v.Hard, v.HardPerJob)}
		rl.Soft = min(rl.Soft, rl.Hard)
		list = append(list, rl)
	}
	return list
}

func clamp(v, least, most uint64) uint64 {
	if most != 0 {
		v = min(v, most)
	}
	return max(v, least)
}

// times multiplies by the number of slots; an overflow means no limit.
func times(v uint64, slots int) uint64 {
	if v == quantity.Infinity || slots <= 1 {
		return v
	}
	hi, lo := bits.Mul64(v, uint64(slots))
	if hi != 0 {
		return quantity.Infinity
	}
	return lo
}

// Attain reduces a limit to a value that this process may set. most is the largest hard limit of
// that kind for this host. Raising a limit requires CAP_SYS_RESOURCE in the initial user namespace,
// and RLIMIT_NOFILE has an upper bound for all users (fs.nr_open). If the limit cannot be raised,
// fit has the nearest possible value and warning says so. The host is then the reason for the lower
// limit, so the job does not fail.
func (r Rlimit) Attain(current unix.Rlimit, most uint64) (fit Rlimit, warning string) {
	if r.Hard <= most {
		return r, ""
	}
	what := "; it stays at "
	if most != current.Max {
		what = "; it is raised to "
	}
	warning = "cannot raise " + r.Name + " from " + number(current.Max) + " to " + number(r.Hard) + what + number(most)
	r.Hard = most
	r.Soft = min(r.Soft, r.Hard)
	return r, warning
}

func number(v uint64) string {
	if v == unix.RLIM_INFINITY {
		return "INFINITY"
	}
	return strconv.FormatUint(v, 10)
}
