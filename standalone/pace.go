package standalone

import (
	"time"

	"github.com/execd-project/execd/cell"
)

// pace decides when scheduling runs are due: at once after an event that may have made a start
// possible, and every schedule_interval (sched_conf(5)) while jobs are pending, because loads and
// priorities change over time.
type pace struct {
	wanted bool
	last   time.Time // end of the last run
	next   time.Time // not before
}

const (
	// share is how many times longer than runs take is waited between them, so that
	// scheduling never takes more than a fifth of the time.
	share = 4
	// drainPause is the interval at which the master checks whether the host takes jobs again, and
	// refusalPause is the pause after it has refused one.
	drainPause   = 200 * time.Millisecond
	refusalPause = time.Second
)

func (p *pace) demand() { p.wanted = true }

func (p *pace) ran(begin, end time.Time) {
	p.wanted, p.last, p.next = false, end, end.Add(share*end.Sub(begin))
}

// postpone delays a run that is due.
func (p *pace) postpone(now time.Time, d time.Duration) {
	p.wanted = true
	if t := now.Add(d); t.After(p.next) {
		p.next = t
	}
}

// off reports whether scheduling is switched off: schedule_interval is 0.
func (p *pace) off(c *cell.Cell) bool { return c.Cluster().Scheduler().ScheduleInterval == 0 }

func (p *pace) interval(c *cell.Cell) time.Duration {
	return max(c.Cluster().Scheduler().ScheduleInterval, time.Second)
}

func (p *pace) due(c *cell.Cell, now time.Time) bool {
	if now.Before(p.next) || p.off(c) {
		return false
	}
	return p.wanted || !c.Empty() && !now.Before(p.last.Add(p.interval(c)))
}

// wait returns the time until the next event of the cell or the next scheduling run, at most an
// hour.
func (p *pace) wait(c *cell.Cell, now time.Time) time.Duration {
	d := time.Hour
	consider := func(t time.Time) { d = min(d, max(t.Sub(now), 0)) }
	switch {
	case p.off(c):
	case p.wanted:
		consider(p.next)
	case !c.Empty():
		consider(maxTime(p.last.Add(p.interval(c)), p.next))
	}
	if at, ok := c.NextEvent(now.Unix()); ok {
		consider(time.Unix(at, 0))
	}
	return d
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
