package limits

import (
	"math"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Sample is the usage of a whole job at one time.
type Sample struct {
	At        time.Time
	CPU       time.Duration // of all its processes, including finished ones
	RSS, Swap uint64        // bytes that its processes hold now
}

// Vmem returns the value to compare with s_vmem and h_vmem, in bytes. It is memory, not address
// space.
func (s Sample) Vmem() uint64 { return s.RSS + s.Swap }

// Crossing is a limit that a job has reached. Value and Measured have the limit's unit: seconds or
// bytes.
type Crossing struct {
	Limit           string // "h_cpu"
	Value, Measured float64
	Unit            job.Unit
	At              time.Time
}

// Host describes the host of a job for a Watch.
type Host struct {
	// Processors is the number of CPUs that the job can use at the same time, at least 1. It limits
	// the job's possible progress between two samples.
	Processors int
	// Vmem and RSS say that the kernel enforces h_vmem and h_rss, so that the Watch need not.
	Vmem, RSS bool
	// Alarm says that the kernel reports when the job first exceeds s_vmem, so that no samples are
	// needed until then. See Alarmed.
	Alarm bool
	// UsageInterval is job.Description.UsageInterval.
	UsageInterval time.Duration
}

// Watch compares the usage of a job with its limits (queue_conf(5), RESOURCE LIMITS), and computes
// the time of the next sample: the time at which the job can reach the next limit if it uses all
// that it can. A distant limit needs few samples, and a near one is not missed. Watch is plain
// data; its caller provides the samples.
type Watch struct {
	limits JobWide
	host   Host
	start  time.Time

	warnedCPU bool // for s_cpu
	above     bool // for s_vmem; the next warning requires that the usage fell below the limit
	last      Sample
	pause     time.Duration // between samples of an idle job
	next      time.Time
}

// NewWatch returns a Watch for a job that starts now.
func NewWatch(limits JobWide, host Host, start time.Time) *Watch {
	host.Processors = max(host.Processors, 1)
	w := &Watch{limits: limits, host: host, start: start, pause: firstPause}
	w.last.At = start
	w.plan()
	return w
}

const (
	// fastest is the speed, in bytes per second, at which a processor can fill memory. With many
	// processors the memory itself limits the speed.
	fastest         = 4 << 30
	mostFilling     = 8
	shortestMemory  = 10 * time.Millisecond
	longestPrompt   = 40 * time.Millisecond // for a hard memory limit that the supervisor enforces
	longestWarning  = 8 * time.Second       // for a soft limit of an idle job
	shortestUsage   = time.Second
	longestUsage    = time.Minute
	longestIdle     = 2 * time.Minute // of an idle job
	firstPause      = shortestMemory
	doesNothing     = time.Millisecond // CPU time between two samples below which a job is idle
	shortestCPU     = time.Millisecond
	longestShortest = time.Second
)

// Next returns the time for the next Sample.
func (w *Watch) Next() time.Time { return w.next }

// Alarmed records that the kernel has reported that the job may exceed s_vmem. It reports whether
// this is the first time; from then on samples are needed.
func (w *Watch) Alarmed() bool {
	was := w.host.Alarm
	w.host.Alarm = false
	return was
}

// Look compares a sample with the limits. warn lists the soft limits for which the job must get
// SIGXCPU now, once for each crossing. end, if not nil, is the hard limit for which the job must be
// killed.
func (w *Watch) Look(s Sample) (warn []Crossing, end *Crossing) {
	if s.CPU-w.last.CPU < doesNothing {
		w.pause = min(2*w.pause, longestIdle)
	} else {
		w.pause = firstPause
	}
	w.last = s
	cpu, vmem := s.CPU.Seconds(), float64(s.Vmem())
	l := &w.limits
	if over(l.CPU.Soft, cpu) && !w.warnedCPU {
		w.warnedCPU = true
		warn = append(warn, Crossing{"s_cpu", float64(l.CPU.Soft), cpu, job.Seconds, s.At})
	}
	switch {
	case over(l.Vmem.Soft, vmem) && !w.above:
		w.above = true
		warn = append(warn, Crossing{"s_vmem", float64(l.Vmem.Soft), vmem, job.Bytes, s.At})
	case vmem < rearm*float64(l.Vmem.Soft):
		w.above = false
	}
	switch {
	case over(l.CPU.Hard, cpu):
		end = &Crossing{"h_cpu", float64(l.CPU.Hard), cpu, job.Seconds, s.At}
	case !w.host.Vmem && over(l.Vmem.Hard, vmem):
		end = &Crossing{"h_vmem", float64(l.Vmem.Hard), vmem, job.Bytes, s.At}
	case !w.host.RSS && over(l.RSS.Hard, float64(s.RSS)):
		end = &Crossing{"h_rss", float64(l.RSS.Hard), float64(s.RSS), job.Bytes, s.At}
	}
	w.plan()
	return warn, end
}

// rearm is the fraction of s_vmem below which the usage must fall before the next crossing counts.
// A job that stays near its limit gets one warning.
const rearm = 0.95

func over(limit uint64, used float64) bool {
	return limit != quantity.Infinity && used > float64(limit)
}

// plan computes the time of the next sample.
func (w *Watch) plan() {
	in := w.usage()
	if d, ok := w.cpu(); ok {
		in = min(in, d)
	}
	if d, ok := w.memory(); ok {
		in = min(in, d)
	}
	w.next = w.last.At.Add(in)
}

// usage returns the time until the next sample for accounting: at growing intervals, and very long
// ones for an idle job.
func (w *Watch) usage() time.Duration {
	age := w.last.At.Sub(w.start)
	in := max(min(max(age/8, shortestUsage), longestUsage), min(100*w.pause, longestIdle))
	return max(in, w.host.UsageInterval)
}

// cpu returns the time in which all processors together can use the remaining CPU time.
func (w *Watch) cpu() (time.Duration, bool) {
	b := w.limits.CPU
	limit := b.Hard
	if !w.warnedCPU && b.Soft < limit {
		limit = b.Soft
	}
	if limit == quantity.Infinity {
		return 0, false
	}
	n := time.Duration(w.host.Processors)
	allowed := Seconds(limit)
	// Do not halve the remainder forever: half a percent above the limit is accurate enough.
	shortest := min(max(allowed/200/n, shortestCPU), longestShortest)
	return max((allowed-w.last.CPU)/n, shortest), true
}

// memory returns the time in which the job can fill the remaining memory.
func (w *Watch) memory() (time.Duration, bool) {
	left, prompt := math.Inf(1), false
	distance := func(limit uint64, used uint64, hard bool) {
		if limit == quantity.Infinity {
			return
		}
		prompt = prompt || hard
		left = min(left, max(float64(limit)-float64(used), 0))
	}
	if !w.host.Vmem {
		distance(w.limits.Vmem.Hard, w.last.Vmem(), true)
	}
	if !w.host.RSS {
		distance(w.limits.RSS.Hard, w.last.RSS, true)
	}
	switch {
	case w.host.Alarm:
	case !w.above:
		distance(w.limits.Vmem.Soft, w.last.Vmem(), false)
	default:
		left = min(left, float64(w.limits.Vmem.Soft))
	}
	if math.IsInf(left, 1) {
		return 0, false
	}
	longest := longestWarning
	if prompt {
		longest = longestPrompt
	}
	seconds := left / fastest / float64(min(w.host.Processors, mostFilling))
	in := time.Duration(min(seconds, 3600) * float64(time.Second))
	return max(in, min(w.pause, longest), shortestMemory), true
}

// Seconds converts a number of seconds to a duration. Values above 292 years become the largest
// duration.
func Seconds(seconds uint64) time.Duration {
	const most = uint64(math.MaxInt64 / time.Second)
	return time.Duration(min(seconds, most)) * time.Second
}
