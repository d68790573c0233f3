package starter

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/specifier"
	"github.com/execd-project/execd/starter/spawn"
)

// running is the job while it runs.
type running struct {
	child           *spawn.Child
	start           time.Time
	exceeded        *exceeded // the limit that ends it
	pending         request   // announced by a notification, not yet carried out
	suspended       bool
	migrating       bool
	inArena         bool // a checkpoint was written
	migrationFailed bool // migr_command did not end with 0
	killAfter       bool // the job is to be killed behind the checkpoint that is written
}

// exceeded is a limit that a job has crossed.
type exceeded struct {
	name            string
	value, measured float64
	unit            job.Unit
	at              time.Time
}

func (x *exceeded) record() *job.LimitExceeded {
	return &job.LimitExceeded{Name: x.name, Value: x.value, Measured: x.measured}
}

// text says it to people: which limit, its value, what was measured, when.
func (x *exceeded) text() string {
	unit := ""
	switch x.unit {
	case job.Seconds:
		unit = " s"
	case job.Bytes:
		unit = " bytes"
	}
	return "job exceeded limit " + x.name + " of " + formatNumber(x.value) + unit + ": " + formatNumber(x.measured) +
		unit + " at " + clockText(x.at)
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
	if rt.Soft != specifier.Infinity && rt.Soft < rt.Hard {
		s.set(dueSoftRT, start.Add(time.Duration(rt.Soft)*time.Second))
	}
	if rt.Hard != specifier.Infinity {
		s.set(dueHardRT, start.Add(time.Duration(rt.Hard)*time.Second))
	}
	s.scheduleCheckpoint(start)
	s.awaited, s.ended = c.PID, nil
	s.deliverPending()
	e := s.waitChild(c.PID, s.tick)
	s.clear(dueNotified, dueSoftRT, dueHardRT, dueSoftRTEnd, dueForce, dueCheckpoint)
	return e
}

// tick acts on the deadlines of the running job. The wall clock runs on while
// the job is suspended, as it does in the original.
func (s *Shepherd) tick(now time.Time) {
	rt := s.d.Limits[job.RT]
	if s.take(dueHardRT, now) {
		s.exceed("h_rt", float64(rt.Hard), now.Sub(s.active.start).Seconds(), job.Seconds, now)
	}
	if s.take(dueSoftRT, now) {
		s.trace("job exceeded limit s_rt of " + itoa(int(rt.Soft)) + " s: it is warned")
		s.signalJob(unix.SIGUSR1)
		if !s.d.SoftRTWarns {
			s.set(dueSoftRTEnd, now.Add(s.d.LimitGrace))
		}
	}
	if s.take(dueSoftRTEnd, now) {
		s.exceed("s_rt", float64(rt.Soft), now.Sub(s.active.start).Seconds(), job.Seconds, now)
	}
	if s.take(dueNotified, now) {
		r := s.active.pending
		s.active.pending = requestNone
		s.carryOut(r)
	}
	if s.take(dueForce, now) {
		s.trace("the job has not ended on its terminate method: SIGKILL")
		s.signalJob(unix.SIGKILL)
	}
	if s.take(dueCheckpoint, now) {
		s.checkpoint(now)
	}
}

// exceed ends the job for a limit, through notification and terminate method
// where there are any, and by SIGKILL at last (queue_conf(5), RESOURCE LIMITS).
func (s *Shepherd) exceed(name string, value, measured float64, unit job.Unit, now time.Time) {
	if s.active.exceeded != nil {
		return
	}
	s.active.exceeded = &exceeded{name, value, measured, unit, now}
	s.trace(s.active.exceeded.text())
	s.lastKill = time.Time{}
	force := now.Add(s.d.LimitGrace)
	if s.notification(requestKill) != 0 {
		force = force.Add(s.d.Notify)
	}
	s.set(dueForce, force)
	s.apply(requestKill)
}

// cpuLimitBehind finds out whether the kernel ended the job for its limit of
// CPU time: by SIGXCPU at the soft and SIGKILL at the hard one (setrlimit(2)).
// Its clock for that counts whole ticks, and on a virtual machine the time that
// others had as well, so that what a process is said to have used is often less
// than what the kernel ended it for.
func (s *Shepherd) cpuLimitBehind(e ending) *exceeded {
	if !e.status.Signaled() || s.killed {
		return nil
	}
	used := float64(e.rusage.Utime.Nano()+e.rusage.Stime.Nano()) / 1e9
	for _, r := range s.rlimits {
		if r.Resource != job.CPU {
			continue
		}
		reached := func(limit uint64) bool {
			return limit != unix.RLIM_INFINITY && used >= 0.75*float64(limit)-0.3
		}
		switch sig := e.status.Signal(); {
		case sig == unix.SIGKILL && reached(r.Hard):
			return &exceeded{"h_cpu", float64(r.Hard), max(used, float64(r.Hard)), job.Seconds, e.at}
		case sig == unix.SIGXCPU && reached(r.Soft):
			name := "s_cpu"
			if r.Soft == r.Hard {
				name = "h_cpu"
			}
			return &exceeded{name, float64(r.Soft), max(used, float64(r.Soft)), job.Seconds, e.at}
		}
	}
	return nil
}
