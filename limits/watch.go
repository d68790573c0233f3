package limits

import (
	"math"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Sample is the usage of a whole job at a moment.
type Sample struct {
	At        time.Time
	CPU       time.Duration // of all its processes, ended ones included
	RSS, Swap uint64        // bytes that its processes hold now
}

// Vmem returns the value that is compared with s_vmem and h_vmem, in bytes: memory, not address
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
	// Processors is the number of CPUs that the job can use at a time, at least 1. It bounds what
	// can happen between two looks.
	Processors int
	// Vmem and RSS say that the kernel keeps the job below h_vmem and h_rss, so that no look has to
	// be in time for that.
	Vmem, RSS bool
	// Alarm says that the kernel reports when the job exceeds s_vmem for the first time, so that no
	// look is needed until then. See Alarmed.
	Alarm bool
	// UsageInterval is that of job.Description.
	UsageInterval time.Duration
}

// Watch compares the usage of a job with its limits (queue_conf(5), RESOURCE LIMITS), and computes
// when to look again: when the job, using all it can, may reach the next limit. So a distant limit
// costs nothing, and a near one is not missed. Watch is plain data; its caller provides the
// samples.
type Watch struct {
	limits JobWide
	host   Host
	start  time.Time

	warnedCPU bool // s_cpu
	above     bool // s_vmem; the next warning is due when it was below once
	last      Sample
	pause     time.Duration // of looks at a job that does nothing
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
	// fastest is how fast a processor can fill memory, in bytes per second; with many processors
	// the memory itself is the bound.
	fastest         = 4 << 30
	mostFilling     = 8
	shortestMemory  = 10 * time.Millisecond
	longestPrompt   = 40 * time.Millisecond // for a hard limit of memory that we enforce
	longestWarning  = 8 * time.Second       // for a soft one, of a job that does nothing
	shortestUsage   = time.Second
	longestUsage    = time.Minute
	longestIdle     = 2 * time.Minute // of a job that does nothing
	firstPause      = shortestMemory
	doesNothing     = time.Millisecond // of CPU time between two looks
	shortestCPU     = time.Millisecond
	longestShortest = time.Second
)

// Next returns the time for the next Sample.
func (w *Watch) Next() time.Time { return w.next }

// Alarmed records that the kernel has reported that the job may be above s_vmem. It reports whether
// this is the first time; from then on looks are needed.
func (w *Watch) Alarmed() bool {
	was := w.host.Alarm
	w.host.Alarm = false
	return was
}

// Look compares a sample with the limits. warn are the soft limits for which the job is to get
// SIGXCPU now, once for each crossing; end, if not nil, is the hard limit for which it is to be
// ended.
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

// rearm is the part of s_vmem below which the usage must fall before the next crossing counts: a
// job that stays near its limit gets one warning.
const rearm = 0.95

func over(limit uint64, used float64) bool {
	return limit != quantity.Infinity && used > float64(limit)
}

// plan computes the time of the next look.
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

// usage returns the time to the next look that accounting needs: less and less often, and very
// rarely for a job that sleeps.
func (w *Watch) usage() time.Duration {
	age := w.last.At.Sub(w.start)
	in := max(min(max(age/8, shortestUsage), longestUsage), min(100*w.pause, longestIdle))
	return max(in, w.host.UsageInterval)
}

// cpu returns the time in which all processors together can use what is left.
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

// memory returns the time in which the job can fill what is left.
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

// Seconds converts a number of seconds. Values above 292 years become the largest duration.
func Seconds(seconds uint64) time.Duration {
	const most = uint64(math.MaxInt64 / time.Second)
	return time.Duration(min(seconds, most)) * time.Second
}
