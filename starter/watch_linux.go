package starter

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/quantity"
)

// openGroup opens the control group that was made for the job, if there is one. If it cannot be
// used, the job fails: it would run without the limits that it was promised.
func (s *Shepherd) openGroup() {
	text, err := s.dir.ReadFile(jobdir.FileCgroup)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var paths *group.Paths
	if err == nil {
		paths, err = group.Parse(string(text))
	}
	if err == nil && len(paths.Dirs) > 0 {
		s.group, err = group.Open(paths)
	}
	if err != nil {
		s.fail(job.FailedBeforeProlog, "control group of the job: "+err.Error())
	}
}

// startWatch begins to watch the usage of the job.
func (s *Shepherd) startWatch(start time.Time) {
	wide := limits.OfJob(s.d)
	host := limits.Host{Processors: processors(), UsageInterval: s.d.UsageInterval}
	alarm := false
	s.meter = &meter{s: s, confirm: quantity.Infinity, moved: s.io.read()}
	if s.group != nil {
		p := s.group.Paths()
		// RAM and swap together have a limit if the group limits swap, or if the host has none.
		swap := hasSwap()
		counted := p.File[group.MemorySwapCurrent] != "" || p.File[group.MemoryMemswUsage] != ""
		host.Vmem, host.RSS = p.VmemLimit > 0 && (counted || !swap), p.RSSLimit > 0
		// On v2 the event is for RAM alone.
		alarm = p.File[group.MemoryHigh] == "" || !swap
	}
	if !host.Vmem {
		s.meter.confirm = wide.Vmem.Hard
	}
	if !host.RSS {
		s.meter.confirm = min(s.meter.confirm, wide.RSS.Hard)
	}
	s.meter.confirm = min(s.meter.confirm, wide.Vmem.Soft)
	if alarm && wide.Vmem.Soft != quantity.Infinity {
		host.Alarm = s.group.Alarm(wide.Vmem.Soft) == nil
	}
	s.account = limits.Account{}
	s.watch = limits.NewWatch(wide, host, start)
	s.set(dueLook, s.watch.Next())
}

// processors returns the number of CPUs that the job can use at a time. The job inherited the
// supervisor's affinity; it can change its affinity, but cannot leave a cpuset.
func processors() int {
	const many = 64
	b, err := oslite.Read("/sys/devices/system/cpu/online")
	if err != nil {
		return many
	}
	set, err := topology.ParseList(strings.TrimSpace(string(b)))
	if err != nil {
		return many
	}
	return set.Len()
}

// look measures the usage of the job, and acts on it.
func (s *Shepherd) look() {
	before := ownCPU()
	sample := s.meter.sample()
	s.account.Add(sample)
	warn, end := s.watch.Look(sample)
	next := s.watch.Next()
	// With thousands of processes a look takes CPU time, of which it may use only a part of one
	// processor. Elapsed time would be the wrong measure: on a busy host a look takes long, and the
	// next would be delayed by ten times as much.
	if cost := ownCPU() - before; sample.At.Add(lookPart * cost).After(next) {
		next = sample.At.Add(lookPart * cost)
	}
	s.watchScratch(sample.At)
	s.tellOnline(&sample)
	if s.active.exceeded != nil {
		// No limit depends on it: it is for accounting only.
		next = sample.At.Add(afterLimit)
	}
	s.set(dueLook, next)
	if c := s.outOfMemory(); c != nil {
		s.torn(c)
		return
	}
	for _, c := range warn {
		s.trace(crossed(&c) + ": it is warned")
		s.active.warned = &c
		s.signalJob(unix.SIGXCPU)
	}
	if end != nil {
		end.Limit = s.limitName(end.Limit)
		s.exceed(end)
	}
}

// ownCPU returns the CPU time that the supervisor has used.
func ownCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// tellOnline writes the usage so far to a file, for the daemon to report. It writes no more often
// than the daemon reads it, and not for a job that has used almost nothing since: the write and the
// read cost more than the rest of a look.
func (s *Shepherd) tellOnline(sample *limits.Sample) {
	a := s.active
	if sample.At.Sub(later(a.start, a.told.at)) < max(onlinePause, s.d.UsageInterval) {
		return
	}
	now := told{sample.At, sample.CPU, s.ioWait(), sample.Vmem(), s.account.MaxVmem, s.refused().Forks}
	if !a.told.at.IsZero() && now.like(&a.told) {
		return
	}
	a.told = now
	gib, calls := amount(s.meter.transferring())
	// A full disk must not disturb the job.
	_ = s.dir.WriteOnline(&jobdir.Online{
		At: sample.At, Wallclock: sample.At.Sub(a.start).Seconds(),
		CPU: sample.CPU.Seconds(), Mem: s.account.Mem, IO: gib, IOOps: calls, IOWait: now.wait.Seconds(),
		Vmem: int64(now.vmem), MaxVmem: int64(now.maxVmem), RSS: int64(sample.RSS), MaxRSS: int64(s.account.MaxRSS), Refused: int64(now.refused),
	})
}

// ioWait returns the time that the job has waited for I/O, if the kernel counts it.
func (s *Shepherd) ioWait() time.Duration {
	if s.group == nil {
		return 0
	}
	wait, err := s.group.IOWait()
	if err != nil {
		return 0
	}
	return wait
}

// told is the usage that was written last.
type told struct {
	at            time.Time
	cpu, wait     time.Duration
	vmem, maxVmem uint64
	refused       uint64
}

// like reports whether the difference to other is too small to be written.
func (t *told) like(other *told) bool {
	return t.cpu-other.cpu < mentionable && t.wait-other.wait < mentionable &&
		t.vmem == other.vmem && t.maxVmem == other.maxVmem && t.refused == other.refused
}

// mentionable is the smallest difference that is written: a tick of the clock of classic
// accounting.
const mentionable = 10 * time.Millisecond

const onlinePause = time.Second

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// afterLimit is the time between looks at a job that is being ended.
const afterLimit = time.Second

// lookPart is the least ratio of the time between looks to the CPU time of a look.
const lookPart = 10

// groupEvents returns the descriptors to poll for events of the job's group. A job that is being
// ended for a limit, and one that has ended and has methods left, need no further events.
func (s *Shepherd) groupEvents() []unix.PollFd {
	if s.group == nil || s.active == nil || s.active.exceeded != nil || s.ended != nil {
		return nil
	}
	var list []unix.PollFd
	for _, e := range s.group.Events() {
		if e.Kind != group.Changed {
			list = append(list, unix.PollFd{Fd: int32(e.FD), Events: e.Events})
		}
	}
	return list
}

// groupNews reads the events of the job's group.
func (s *Shepherd) groupNews(fds []unix.PollFd) {
	for _, fd := range fds {
		if fd.Revents != 0 && s.active != nil {
			s.active.newsAgain = mostNewsAgain
			if s.group.Paths().File[group.MemoryEvents] == "" {
				s.active.newsAgain = time.Millisecond // v1: the event precedes the kill
			}
			s.set(dueNews, time.Now())
		}
	}
}

// mostNewsAgain is how long the kernel may take from the event to the kill: v1 reports an
// out-of-memory event before it has killed a process.
const mostNewsAgain = 100 * time.Millisecond

// takeNews acts on the events.
func (s *Shepherd) takeNews(now time.Time) {
	a := s.active
	if a.exceeded != nil {
		return
	}
	before := s.hostKills
	c := s.outOfMemory()
	if c != nil || s.hostKills != before || a.newsAgain == time.Millisecond {
		s.noteLargest()
	}
	if c == nil {
		if a.newsAgain < mostNewsAgain {
			s.set(dueNews, now.Add(a.newsAgain))
			a.newsAgain *= 2
		}
		if s.watch.Alarmed() {
			if err := s.group.Disarm(); err != nil {
				s.trace(err.Error())
			}
			s.set(dueLook, now)
		}
		return
	}
	s.torn(c)
}

// torn ends a job of which the kernel has killed one process for lack of memory, or
// (memory.oom.group) all of them: the remaining processes cannot be expected to work.
func (s *Shepherd) torn(c *limits.Crossing) {
	if s.active.exceeded != nil {
		return
	}
	s.active.exceeded = c
	s.killed = true
	s.trace(crossed(c) + ", by the kernel")
	s.signalJob(unix.SIGKILL)
	s.set(dueForce, c.At.Add(s.d.LimitGrace))
}

// refused returns the numbers of requests that the control group refused to the job.
func (s *Shepherd) refused() (r group.Refusals) {
	if s.group != nil {
		r = s.group.Refusals()
	}
	return r
}

// refusals describes which limits the job has hit so far, and how often; empty for none.
func (s *Shepherd) refusals(now time.Time) string {
	r := s.refused()
	if r.Forks == 0 {
		return ""
	}
	limit := "a limit of a group above its own"
	if r.Limit > 0 {
		limit = "its limit of " + strconv.FormatUint(r.Limit, 10) + " processes and threads (pids_limit)"
	}
	return "job reached " + limit + ": the kernel had refused it " + strconv.FormatUint(r.Forks, 10) + " more by " + clockText(now)
}

// outOfMemory returns the limit for which the kernel has killed a process of the job; nil for none.
// If the host itself was out of memory, that is not a limit of the job.
func (s *Shepherd) outOfMemory() *limits.Crossing {
	if s.group == nil {
		return nil
	}
	oom, err := s.group.OOM()
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		// The group was removed meanwhile, which the owner of a delegated group can do. The
		// remaining processes are found as descendants.
		s.trace("the job's control group was removed: " + err.Error())
		s.group.Close()
		s.group = nil
		return nil
	}
	if err != nil || oom.Kills == 0 {
		return nil
	}
	if oom.Limit == "" {
		s.hostKills = oom.Kills
		return nil
	}
	return &limits.Crossing{
		Limit: s.limitName(oom.Limit), Value: float64(oom.Value), Measured: float64(oom.Value), Unit: job.Bytes, At: time.Now(),
	}
}

// limitName returns the name of a limit for reports: users know h_vmem by what they have requested.
func (s *Shepherd) limitName(name string) string {
	if name == hardVmem {
		return s.d.VmemName()
	}
	return name
}

const hardVmem = "h_vmem"
