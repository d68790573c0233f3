package qacct

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/scheduler/expression"
)

// selection holds the conditions for the selected records.
type selection struct {
	s         *settings
	name      *expression.Pattern // of -j; nil for all
	queues    []queues            // of -q; a record must match one of them; nil for all
	resources instances           // of -l; nil for all
}

// instances is a set of names of queue instances; see instance.
type instances map[string]bool

// queues is a value of -q: a pattern for queues and one for hosts (nil for all), or a set of queue
// instances.
type queues struct {
	queue, host *expression.Pattern
	instances   instances
}

func (q *queues) has(queue, host string) bool {
	if q.instances != nil {
		return q.instances[instance(queue+"@"+host)]
	}
	return q.queue.Match(queue) && (q.host == nil || q.host.Match(host))
}

func (c *selection) has(r *accounting.Record) bool {
	return c.place(r) && c.person(r) && c.period(r) && c.job(r)
}

func is(c choice, value string) bool { return !c.exact || c.value == value }

func (c *selection) place(r *accounting.Record) bool {
	s := c.s
	return (!s.host.exact || strings.EqualFold(s.host.value, r.Host)) &&
		(c.queues == nil || slices.ContainsFunc(c.queues, func(q queues) bool { return q.has(r.Queue, r.Host) })) &&
		is(s.pe, orNone(r.PE)) &&
		(s.slots.value == 0 || int64(s.slots.value) == int64(r.Slots)) &&
		(s.reservation.value == 0 || int64(s.reservation.value) == int64(r.Reservation)) &&
		(c.resources == nil || c.resources[instance(r.Queue+"@"+r.Host)])
}

func (c *selection) person(r *accounting.Record) bool {
	s := c.s
	return is(s.owner, r.Owner) && is(s.group, r.Group) && is(s.project, orNone(r.Project)) &&
		is(s.department, r.Department) && is(s.account, r.Account)
}

func (c *selection) period(r *accounting.Record) bool {
	t, s := r.Start, c.s
	if s.byEnd {
		t = r.End
	}
	at := int64(0)
	if !t.IsZero() {
		at = t.Unix()
	}
	return (s.begin.IsZero() || at >= s.begin.Unix()) && (s.end.IsZero() || at <= s.end.Unix())
}

func (c *selection) job(r *accounting.Record) bool {
	s := c.s
	switch {
	case s.master && r.PETask != "",
		s.jobs.id != 0 && s.jobs.id != r.Job,
		c.name != nil && !c.name.Match(r.JobName):
		return false
	}
	return s.tasks == nil || slices.ContainsFunc(s.tasks, func(t tasks) bool { return t.has(r.Task) })
}
