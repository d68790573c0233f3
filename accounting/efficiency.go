package accounting

import (
	"math"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// memoryRequests are the resources that request memory for each slot of a job. If a job requests
// several of them, the largest value counts, since other jobs could not use that much memory.
var memoryRequests = []string{"h_vmem", "h_rss", "s_vmem", "s_rss", "m_mem_free", "mem_free", "virtual_free", "vf"}

// Efficiency compares what the records of one job used with what the job had. The zero value is for Add.
type Efficiency struct {
	Records int // runs and tasks that were added
	Failed  int // runs and tasks that failed, or exited with a status other than 0

	Slots     int     // of one task, the largest number
	Wallclock float64 // seconds, summed over tasks
	Granted   float64 // CPU time available to the slots, in seconds: wall-clock time times slots
	CPU       float64 // seconds

	// Longest is the wall-clock time of the longest task in seconds. TimeLimit is the requested
	// h_rt in seconds, 0 without a request.
	Longest   float64
	TimeLimit uint64

	// Memory is the largest peak of RAM and swap of any task in bytes, 0 if it is unknown.
	Memory uint64
	// Requested is the memory in bytes that the job requested for one task with all its slots.
	// Request is the resource with its value for one slot, such as "h_vmem=4G". Without a request
	// Requested is 0.
	Requested uint64
	Request   string

	// GPU is the usage of GPUs: times are sums over runs and tasks, Count and MaxMemory the largest of one.
	GPU job.GPUUsage
}

// Add adds a record of the job. Records of tasks of a parallel job (pe_taskid) add their CPU time only:
// their wall-clock time and slots are those of the job.
func (e *Efficiency) Add(r *Record) {
	e.CPU += finite(r.Usage.CPU)
	e.Memory = max(e.Memory, peak(r))
	e.addGPUs(&r.Usage.GPU)
	if r.PETask != "" {
		return
	}
	slots := max(r.Slots, 1)
	wallclock := r.Wallclock()
	e.Records++
	if r.Failed != 0 || r.ExitStatus != 0 {
		e.Failed++
	}
	e.Slots = max(e.Slots, slots)
	e.Wallclock += wallclock
	e.Granted += wallclock * float64(slots)
	e.Longest = max(e.Longest, wallclock)
	requests := hardRequests(r.Category)
	for _, name := range memoryRequests {
		value, requested := requests[name]
		if !requested { // the error for an empty text would take most of the time of Add
			continue
		}
		perSlot, err := quantity.Memory(value)
		if err != nil || perSlot == quantity.Infinity || perSlot > math.MaxUint64/uint64(slots) {
			continue
		}
		if all := perSlot * uint64(slots); all > e.Requested {
			e.Requested, e.Request = all, name+"="+value
		}
	}
	if value, requested := requests["h_rt"]; requested {
		if limit, err := quantity.Time(value); err == nil && limit != quantity.Infinity {
			e.TimeLimit = max(e.TimeLimit, limit)
		}
	}
}

func (e *Efficiency) addGPUs(u *job.GPUUsage) {
	e.GPU.Count, e.GPU.MaxMemory = max(e.GPU.Count, u.Count), max(e.GPU.MaxMemory, u.MaxMemory)
	e.GPU.Seconds += finite(u.Seconds)
	e.GPU.Measured += finite(u.Measured)
	e.GPU.Busy += finite(u.Busy)
}

// peak returns the peak memory of a record. A record of a short job may contain no sample of its
// memory; peak then returns the memory of the largest process.
func peak(r *Record) uint64 {
	if r.Usage.MaxVmem > 0 {
		return uint64(r.Usage.MaxVmem)
	}
	return uint64(max(r.Usage.MaxRSS, 0))
}

// CPUPart returns the CPU time divided by the CPU time available to the slots. It is 0 if no CPU
// time was available or recorded, and above 1 if the job used more CPUs than slots.
func (e *Efficiency) CPUPart() float64 {
	if e.Granted <= 0 {
		return 0
	}
	return e.CPU / e.Granted
}

// MemoryPart returns the peak memory divided by the requested memory, 0 if there is no request.
func (e *Efficiency) MemoryPart() float64 {
	if e.Requested == 0 {
		return 0
	}
	return float64(e.Memory) / float64(e.Requested)
}

// Advice compares usage with the request by these factors.
const (
	tooLittle = 0.9 // of memory or time: the next run may need more than the request
	wasteful  = 0.5 // of slots, memory or time
	spare     = 1.25
	shortest  = 60 // seconds: in shorter runs CPU time is not meaningful
)

// Advice returns requests that suit the job better next time, such as "-pe PE 2" or "-l h_vmem=2G".
// They include a quarter more than the job used. The result is empty if the requests suit the job.
func (e *Efficiency) Advice() []string {
	var advice []string
	if e.Slots > 1 && e.Longest >= shortest && e.CPUPart() < wasteful && e.Wallclock > 0 {
		if slots := int(math.Ceil(e.CPU / e.Wallclock)); slots < e.Slots {
			advice = append(advice, "-pe PE "+strconv.Itoa(max(slots, 1)))
		}
	}
	slots := uint64(max(e.Slots, 1))
	if part := e.MemoryPart(); e.Memory > 0 && (part > tooLittle || part > 0 && part < wasteful) {
		name, value, _ := strings.Cut(e.Request, "=")
		if better := quantity.RoundMemory(uint64(float64(e.Memory)*spare) / slots); quantity.FormatMemory(better) != value {
			advice = append(advice, "-l "+name+"="+quantity.FormatMemory(better))
		}
	}
	if e.TimeLimit > 0 && e.Longest >= shortest {
		if part := e.Longest / float64(e.TimeLimit); part > tooLittle || part < wasteful {
			minutes := uint64(math.Ceil(e.Longest * spare / 60))
			advice = append(advice, "-l h_rt="+quantity.FormatTime(minutes*60))
		}
	}
	return advice
}

// hardRequests returns the resources of -l in a category, by name. It skips soft requests.
func hardRequests(category string) map[string]string {
	requests := map[string]string{}
	words := strings.Fields(category)
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case "-soft":
			i += 2 // -soft -l LIST
		case "-l":
			i++
			for request := range strings.SplitSeq(words[i], ",") {
				if name, value, ok := strings.Cut(request, "="); ok {
					requests[name] = value
				}
			}
		}
	}
	return requests
}
