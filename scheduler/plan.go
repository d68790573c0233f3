package scheduler

import (
	"math"

	"github.com/execd-project/execd/scheduler/diagram"
)

// plan is what is in use of every resource, and until when (sched_conf(5),
// max_reservation). It is kept in a run only if jobs may reserve, or if there are advance
// reservations.
type plan struct {
	diagrams map[resource]*diagram.Diagram
	journal  diagram.Journal
}

// resource is something whose use is planned: a consumable at a place.
type resource struct {
	place     Place
	attribute AttributeID
	others    bool // of an exclusive attribute: the jobs that do not ask for it
}

func (v *view) resource(p Place, a AttributeID) resource { return resource{place: p, attribute: a} }

func (p *plan) fits(r resource, capacity float64, slots int, each float64, at span) bool {
	d := p.diagrams[r]
	return d.Fits(capacity, diagram.Booking{From: at.start, Until: diagram.End(at.start, at.duration), Slots: slots, Each: each})
}

func (p *plan) left(r resource, capacity float64, at span) float64 {
	return p.diagrams[r].Max(at.start, diagram.End(at.start, at.duration)).Left(capacity)
}

func (p *plan) alone(r resource, at span) bool {
	until := diagram.End(at.start, at.duration)
	others := r
	others.others = true
	return p.diagrams[r].Max(at.start, until).IsZero() && p.diagrams[others].Max(at.start, until).IsZero()
}

func (p *plan) shared(r resource, at span) bool {
	return p.diagrams[r].Max(at.start, diagram.End(at.start, at.duration)).IsZero()
}

// plannedDuration is how long a job lasts as far as its requests say, or else as
// default_duration of sched_conf(5) does.
func (v *view) plannedDuration(c *Category) int64 {
	if c.duration > 0 {
		return c.duration
	}
	d := seconds(v.model.scheduler.DefaultDuration)
	if d > math.MaxInt32*1000 {
		return diagram.Forever
	}
	return int64(d)
}

// duration is that with the time that a job needs around its run.
func (v *view) duration(c *Category) int64 {
	d := v.plannedDuration(c)
	if d == diagram.Forever {
		return d
	}
	return d + int64(v.model.scheduler.Params.DurationOffset.Seconds())
}

func (r *run) planAhead()           {}
func (r *run) planStart(s *Start)   {}
func (r *run) reserve(h *head) bool { return false }
