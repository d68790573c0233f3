package starter

import (
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/quantity"
)

// running is the job while it runs.
type running struct {
	child           *spawn.Child
	start           time.Time
	exceeded        *limits.Crossing // the limit that ends it
	warned          *limits.Crossing // the last soft limit of which it was warned by SIGXCPU
	warnedRT        *limits.Crossing // s_rt, of which it was warned by SIGUSR1
	told            told             // what was written down of its usage
	newsAgain       time.Duration    // when to look again for what the kernel has announced
	pending         request          // announced by a notification, not yet carried out
	suspended       bool
	relayUntil      time.Time // when who tells the client of the end is killed, too
	migrating       bool
	inArena         bool // a checkpoint was written
	migrationFailed bool // migr_command did not end with 0
	killAfter       bool // the job is to be killed behind the checkpoint that is written
}

// record is a crossing as the outcome has it.
func record(x *limits.Crossing) *job.LimitExceeded {
	return &job.LimitExceeded{Name: x.Limit, Value: x.Value, Measured: x.Measured}
}

// crossed says it to people: which limit, its value, what was measured, when.
func crossed(x *limits.Crossing) string {
	unit := " s"
	if x.Unit == job.Bytes {
		unit = " bytes"
	}
	return "job exceeded limit " + x.Limit + " of " + formatNumber(x.Value) + unit + ": " + formatNumber(x.Measured) +
		unit + " at " + clockText(x.At)
}

// clockText is a time of day as ISO 8601 writes it. Time.Format, which can do
// everything, would be the largest function of the supervisor.
func clockText(t time.Time) string {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	return itoa(year) + "-" + twoDigits(int(month)) + "-" + twoDigits(day) + " " +
		twoDigits(hour) + ":" + twoDigits(minute) + ":" + twoDigits(second)
}

func twoDigits(n int) string { return itoa(100 + n)[1:] }

func formatNumber(f float64) string {
	return strconv.FormatFloat(f, 'f', min(3, decimals(f)), 64)
}

// decimals is the number of digits behind the point that f has.
func decimals(f float64) int {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	for i := range len(s) {
		if s[i] == '.' {
			return len(s) - i - 1
		}
	}
	return 0
}

// waitJob supervises the running job until its first process has ended.
func (s *Shepherd) waitJob(c *spawn.Child, start time.Time) ending {
	s.active = &running{child: c, start: start}
	rt := s.d.Limits[job.RT]
	if rt.Soft != quantity.Infinity && rt.Soft < rt.Hard {
		s.set(dueSoftRT, start.Add(limits.Seconds(rt.Soft)))
	}
	if rt.Hard != quantity.Infinity {
		s.set(dueHardRT, start.Add(limits.Seconds(rt.Hard)))
	}
	s.startWatch(start)
	s.scheduleCheckpoint(start)
	s.awaited, s.ended = c.PID, nil
	s.deliverPending()
	e := s.waitChild(c.PID, s.tick)
	s.clear(dueNotified, dueSoftRT, dueHardRT, dueSoftRTEnd, dueForce, dueCheckpoint, dueLook, dueNews, dueUndead)
	return e
}

// tick acts on the deadlines of the running job. The wall clock runs on while
// the job is suspended, as it does in the original.
func (s *Shepherd) tick(now time.Time) {
	rt := s.d.Limits[job.RT]
	if s.take(dueHardRT, now) {
		s.exceed(s.reachedRT("h_rt", rt.Hard, now))
	}
	if s.take(dueSoftRT, now) {
		s.active.warnedRT = s.reachedRT("s_rt", rt.Soft, now)
		s.trace(crossed(s.active.warnedRT) + ": it is warned")
		s.signalJob(unix.SIGUSR1)
		if !s.d.SoftRTWarns {
			s.set(dueSoftRTEnd, now.Add(s.d.LimitGrace))
		}
	}
	if s.take(dueSoftRTEnd, now) {
		s.exceed(s.reachedRT("s_rt", rt.Soft, now))
	}
	if s.take(dueNotified, now) {
		r := s.active.pending
		s.active.pending = requestNone
		s.carryOut(r)
	}
	if s.take(dueForce, now) {
		s.trace("the job has not ended yet: SIGKILL")
		s.signalJob(unix.SIGKILL)
	}
	if s.take(dueCheckpoint, now) {
		s.checkpoint(now)
	}
	if s.take(dueUndead, now) {
		s.killGroup()
		s.killDescendants(false)
		s.set(dueUndead, now.Add(time.Second)) // for as long as it takes
	}
	if s.take(dueNews, now) {
		s.takeNews(now)
	}
	if s.take(dueLook, now) {
		s.look()
	}
}

func (s *Shepherd) reachedRT(name string, limit uint64, now time.Time) *limits.Crossing {
	return &limits.Crossing{
		Limit: name, Value: float64(limit), Measured: now.Sub(s.active.start).Seconds(), Unit: job.Seconds, At: now,
	}
}

// exceed ends the job for a limit, through notification and terminate method
// where there are any, and by SIGKILL at last (queue_conf(5), RESOURCE LIMITS).
func (s *Shepherd) exceed(x *limits.Crossing) {
	if s.active.exceeded != nil {
		return
	}
	s.active.exceeded = x
	s.trace(crossed(x))
	s.lastKill = time.Time{}
	force := x.At.Add(s.d.LimitGrace)
	if s.notification(requestKill) != 0 {
		force = force.Add(s.d.Notify)
	}
	s.set(dueForce, force)
	s.apply(requestKill)
}

// limitBehind finds out whether a limit was behind the end of a job that has ended
// before we did anything: the kernel ends a job that is out of memory, or a process at
// its own limit of CPU time, and the signals that warn end who does not catch them.
func (s *Shepherd) limitBehind(e ending) *limits.Crossing {
	if c := s.outOfMemory(); c != nil {
		return c
	}
	if s.killed {
		return nil
	}
	hard := limits.OfJob(s.d).CPU.Hard
	least := float64(hard)
	switch {
	case !e.status.Signaled():
		// One of its processes, which the first one has survived: the fence is for
		// somebody who has held us up. The kernel's clocks are not ours.
		least += s.fence(hard) / 2
	case e.status.Signal() == unix.SIGXCPU:
		return s.active.warned
	case e.status.Signal() == unix.SIGUSR1:
		return s.active.warnedRT
	case e.status.Signal() != unix.SIGKILL:
		return nil
	}
	if used := s.meter.cpu.Seconds(); hard != quantity.Infinity && used >= least {
		return &limits.Crossing{Limit: "h_cpu", Value: float64(hard), Measured: used, Unit: job.Seconds, At: e.at}
	}
	return nil
}

// fence is how many seconds of CPU time behind h_cpu the kernel ends a process.
func (s *Shepherd) fence(hard uint64) float64 {
	for _, r := range s.jobRlimits {
		if r.Resource == job.CPU && r.Hard > hard {
			return float64(r.Hard - hard)
		}
	}
	return math.Inf(1)
}
