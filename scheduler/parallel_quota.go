package scheduler

import (
	"math"

	"github.com/execd-project/execd/scheduler/quota"
)

// slotQuotas computes the slots that quotas allow to a parallel job while its slots are collected,
// place by place (sge_resource_quota(5)). Call begin first. A query without quotas is not limited.
type slotQuotas struct {
	run       *run
	query     *query
	pe        PEID
	collector quota.Collector
	planned   map[quota.Counter]float64 // amounts taken, if the run plans ahead
}

// begin starts with a job without collected slots.
func (l *slotQuotas) begin(r *run, q *query, pe PEID) {
	l.run, l.query, l.pe = r, q, pe
	if q.is(exempt) {
		return
	}
	usage := r.quotas.usage
	if r.empty || r.plan != nil {
		usage = nil
	}
	l.collector.Reset(q.category.demand(pe), usage, r.quotaValue)
	if usage == nil && !r.empty {
		l.collector.AskLike(r.quotas.usage)
	}
	if r.plan != nil {
		l.planned = map[quota.Counter]float64{}
	}
}

// left returns the number of further slots at an instance during the time of the query. If it is 0,
// failure says why. Amounts that the job takes once are checked at the place of its master task
// only.
func (l *slotQuotas) left(id InstanceID, master bool) (slots int, failure quota.Failure) {
	if l.query.is(exempt) {
		return math.MaxInt32, quota.Failure{}
	}
	i := &l.run.model.instances[id]
	slots, failure = l.collector.Left(int32(i.queue), int32(i.host), master)
	if slots <= 0 || l.run.plan == nil {
		return slots, failure
	}
	for _, claim := range l.run.claims(l.query.category, l.pe, id) {
		if claim.Once && !master {
			continue
		}
		n := l.run.claimSlots(&claim, l.query.span, l.planned[claim.Counter])
		if n <= 0 {
			return 0, l.query.category.demand(l.pe).Failure(&claim, l.run.quotaValue, int32(i.queue), int32(i.host))
		}
		if !claim.Once {
			slots = min(slots, n)
		}
	}
	return slots, quota.Failure{}
}

// meet looks at the quotas of an instance from which no slot is taken yet. It may spoil them: see
// quota.Collector.Spoil.
func (l *slotQuotas) meet(id InstanceID, spoils bool) {
	i := &l.run.model.instances[id]
	switch {
	case l.query.is(exempt):
	case spoils:
		l.collector.Spoil(int32(i.queue), int32(i.host))
	default:
		l.collector.Left(int32(i.queue), int32(i.host), false)
	}
}

// take takes slots at an instance, not more than are left there.
func (l *slotQuotas) take(id InstanceID, slots int) {
	if l.query.is(exempt) {
		return
	}
	i := &l.run.model.instances[id]
	l.collector.Take(int32(i.queue), int32(i.host), slots)
	l.plan(id, float64(slots))
}

// plan counts slots that are taken for the time of the query.
func (l *slotQuotas) plan(id InstanceID, slots float64) {
	if l.run.plan == nil {
		return
	}
	for _, claim := range l.run.claims(l.query.category, l.pe, id) {
		if !claim.Once && !claim.Exclusive {
			l.planned[claim.Counter] += slots * claim.Each
		}
	}
}

// mark returns a state for undo.
func (l *slotQuotas) mark() int { return l.collector.Mark() }

// undo returns everything taken since a mark, at which the job had these grants.
func (l *slotQuotas) undo(mark int, grants []Grant) {
	if l.query.is(exempt) {
		return
	}
	l.collector.Undo(mark)
	clear(l.planned)
	for _, g := range grants {
		l.plan(g.Instance, float64(g.Slots))
	}
}
