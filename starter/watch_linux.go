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

// openGroup opens the control group that was made for the job. There need not be
// one; one that is there and cannot be used fails the job, which would run without
// the limits that its owner counts on.
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

// startWatch begins to watch what the job uses.
func (s *Shepherd) startWatch(start time.Time) {
	wide := limits.OfJob(s.d)
	host := limits.Host{Processors: processors(), UsageInterval: s.d.UsageInterval}
	alarm := false
	s.meter = &meter{s: s, confirm: quantity.Infinity, moved: s.io.read()}
	if s.group != nil {
		p := s.group.Paths()
		// RAM and swap together are bounded if the group's swap is, or if there
		// is none.
		swap := hasSwap()
		counted := p.File[group.MemorySwapCurrent] != "" || p.File[group.MemoryMemswUsage] != ""
		host.Vmem, host.RSS = p.VmemLimit > 0 && (counted || !swap), p.RSSLimit > 0
		// On v2 the alarm is for RAM alone.
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

// processors is the number of CPUs that the job may use at a time. The job was
// bound as we are; it could unbind itself, but not from a cpuset.
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

// look measures what the job uses, and does what follows from it.
func (s *Shepherd) look() {
	before := ownCPU()
	sample := s.meter.sample()
	s.account.Add(sample)
	warn, end := s.watch.Look(sample)
	next := s.watch.Next()
	// A look at thousands of processes costs processor time; it may not take more
	// than a part of one. The time that passes is no measure: on a busy host a look
	// takes long, and a job would be left alone for ten times as long.
	if cost := ownCPU() - before; sample.At.Add(lookPart * cost).After(next) {
		next = sample.At.Add(lookPart * cost)
	}
	s.tellOnline(&sample)
	if s.active.exceeded != nil {
		// Nothing more follows from it; it is for the accounting alone.
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

// tellOnline writes down what the job has used so far, for whoever reports it. It
// is not written more often than anybody would read it, and not again for a job that
// has done nothing worth mentioning: to write it costs more than all else in a look,
// here and where it is read.
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
	// A full disk is no reason to disturb the job.
	_ = s.dir.WriteOnline(&jobdir.Online{
		At: sample.At, Wallclock: sample.At.Sub(a.start).Seconds(),
		CPU: sample.CPU.Seconds(), Mem: s.account.Mem, IO: s.meter.transferring(), IOWait: now.wait.Seconds(),
		Vmem: int64(now.vmem), MaxVmem: int64(now.maxVmem), Refused: int64(now.refused),
	})
}

// ioWait is how long the job has waited for I/O, as far as that is counted.
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

// told is what was written down last of what the job has used.
type told struct {
	at            time.Time
	cpu, wait     time.Duration
	vmem, maxVmem uint64
	refused       uint64
}

// like reports whether somebody who knows other need not be told.
func (t *told) like(other *told) bool {
	return t.cpu-other.cpu < mentionable && t.wait-other.wait < mentionable &&
		t.vmem == other.vmem && t.maxVmem == other.maxVmem && t.refused == other.refused
}

// mentionable is the least time that is told: a tick of the clock that classic
// accounting counts by.
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

// lookPart is how many times longer than the CPU time of a look the time to the next one is.
const lookPart = 10

// groupEvents is what to poll for the sake of the job's group. A job that is
// being ended for a limit is ended, whatever else happens to it.
func (s *Shepherd) groupEvents() []unix.PollFd {
	if s.group == nil || s.active == nil || s.active.exceeded != nil {
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

// groupNews takes note of what the kernel has told about the job's group.
func (s *Shepherd) groupNews(fds []unix.PollFd) {
	for _, fd := range fds {
		if fd.Revents != 0 && s.active != nil {
			s.active.newsAgain = mostNewsAgain
			if s.group.Paths().File[group.MemoryEvents] == "" {
				s.active.newsAgain = time.Millisecond // v1: before the kill
			}
			s.set(dueNews, time.Now())
		}
	}
}

// mostNewsAgain is how long the kernel may take from the event to the kill: v1
// tells of an OOM before it has ended anybody.
const mostNewsAgain = 100 * time.Millisecond

// takeNews acts on it.
func (s *Shepherd) takeNews(now time.Time) {
	a := s.active
	if a.exceeded != nil {
		return
	}
	c := s.outOfMemory()
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

// torn ends a job of which the kernel has ended one process for lack of memory, or
// (memory.oom.group) all of them: what is left had a piece torn out.
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

// refused returns what the control group refused to the job.
func (s *Shepherd) refused() (r group.Refusals) {
	if s.group != nil {
		r = s.group.Refusals()
	}
	return r
}

// refusals says what the job has been refused until now: which limit, and how often; empty for
// nothing.
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

// outOfMemory says for which limit the kernel has ended a process of the job; nil
// for none. The host's own lack of memory is none of the job's limits.
func (s *Shepherd) outOfMemory() *limits.Crossing {
	if s.group == nil {
		return nil
	}
	oom, err := s.group.OOM()
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		// Removed under us, as the owner of a delegated one can: what is left of
		// the job is found by ancestry.
		s.trace("the job's control group is gone: " + err.Error())
		s.group.Close()
		s.group = nil
		return nil
	}
	if err != nil || oom.Kills == 0 {
		return nil
	}
	if oom.Limit == "" {
		s.hostOOM = true
		return nil
	}
	return &limits.Crossing{
		Limit: oom.Limit, Value: float64(oom.Value), Measured: float64(oom.Value), Unit: job.Bytes, At: time.Now(),
	}
}
