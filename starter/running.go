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

// running is the state of the job while it runs.
type running struct {
	child           *spawn.Child
	start           time.Time
	exceeded        *limits.Crossing // the limit for which it is ended
	warned          *limits.Crossing // the last soft limit announced to it by SIGXCPU
	warnedRT        *limits.Crossing // s_rt, if announced to it by SIGUSR1
	largest         largest          // processes, when memory ran out
	told            told             // the usage that was written last
	newsAgain       time.Duration    // when to look again for an event that the kernel has announced
	pending         request          // announced by a notification, not yet carried out
	suspended       bool
	relayUntil      time.Time // when the process that reports to the client is killed, too
	migrating       bool
	inArena         bool // a checkpoint was written
	migrationFailed bool // migr_command failed
	killAfter       bool // kill the job after the checkpoint that is being written
}

// record returns a crossing in the form that the outcome has.
func record(x *limits.Crossing) *job.LimitExceeded {
	return &job.LimitExceeded{Name: x.Limit, Value: x.Value, Measured: x.Measured}
}

// crossed describes a crossing for people: which limit, its value, what was measured, and when.
func crossed(x *limits.Crossing) string {
	unit := " s"
	if x.Unit == job.Bytes {
		unit = " bytes"
	}
	return "job exceeded limit " + x.Limit + " of " + formatNumber(x.Value) + unit + ": " + formatNumber(x.Measured) +
		unit + " at " + clockText(x.At)
}

// clockText returns a time of day in ISO 8601. Time.Format would be the largest function of the
// supervisor.
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

// decimals returns the number of digits after the decimal point of f.
func decimals(f float64) int {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	for i := range len(s) {
		if s[i] == '.' {
			return len(s) - i - 1
		}
	}
	return 0
}

// waitJob supervises the running job until its first process has exited.
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

// tick handles the deadlines of the running job. The wall clock continues while the job is
// suspended, as in the original.
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
		s.killGroup(false)
		s.killDescendants(false)
		s.set(dueUndead, now.Add(time.Second)) // repeated until the job is dead
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

// exceed ends the job for a limit: through notification and terminate method if there are any, and
// in the end by SIGKILL (queue_conf(5), RESOURCE LIMITS).
func (s *Shepherd) exceed(x *limits.Crossing) {
	if s.active.exceeded != nil {
		return
	}
	s.active.exceeded = x
	if x.Unit == job.Bytes {
		s.noteLargest()
	}
	s.trace(crossed(x))
	s.lastKill = time.Time{}
	force := x.At.Add(s.d.LimitGrace)
	if s.notification(requestKill) != 0 {
		force = force.Add(s.d.Notify)
	}
	s.set(dueForce, force)
	s.apply(requestKill)
}

// limitBehind finds out whether a limit ended a job that ended before the supervisor acted: the
// kernel kills processes that are out of memory or exceed their own limit of CPU time, and the
// warning signals end a process that does not catch them.
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
		// The first process has survived another one. The fence matters only if the supervisor was
		// delayed. The kernel's clocks differ from those of the supervisor.
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

// fence returns the distance, in seconds of CPU time, between h_cpu and the limit at which the
// kernel kills a process.
func (s *Shepherd) fence(hard uint64) float64 {
	for _, r := range s.jobRlimits {
		if r.Resource == job.CPU && r.Hard > hard {
			return float64(r.Hard - hard)
		}
	}
	return math.Inf(1)
}
