package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/quota"
)

// assign finds a place for a task to start at now.
func (r *run) assign(q *query) (Start, bool) {
	c := q.category
	if c.requests.Reservation != 0 {
		r.sortSerial()
		return r.assignReserved(q)
	}
	if c.Parallel() {
		return r.assignParallel(q)
	}
	r.sortSerial()
	id := r.findSerial(q)
	if id == None {
		return Start{}, false
	}
	return Start{PE: None, Grants: []Grant{{Instance: id, Slots: 1}}, Duration: r.plannedDuration(c)}, true
}

// findSerial finds the first instance in which a serial job can start, or, if it has
// soft requests, the first of those that meet most of them.
func (r *run) findSerial(q *query) InstanceID {
	j, c := q.job, q.category
	if !r.globally(q) {
		return None
	}
	s := &r.categoryState(c).search
	if len(j.Excluded) > 0 || c.isSoft() {
		return r.findBest(q, s)
	}
	for {
		id := r.order.next(s)
		if id == None {
			return None
		}
		failure, ok := r.withinQuota(q, id)
		if ok && r.fits(q, id) {
			return id
		}
		s.refuse(id)
		if failure.Everywhere {
			return None
		}
	}
}

// findBest looks at all instances: the one with the fewest violations of soft requests.
func (r *run) findBest(q *query, s *search) InstanceID {
	best, fewest := InstanceID(None), 0
	for id := range r.order.all() {
		if s.is(id) || r.unclean(q.job, id) {
			continue
		}
		if _, ok := r.withinQuota(q, id); !ok || !r.fits(q, id) {
			s.refuse(id)
			continue
		}
		n := r.violations(q.category, id)
		if best == None || n < fewest {
			best, fewest = id, n
		}
		if n == 0 {
			break
		}
	}
	return best
}

func (r *run) unclean(j *Job, id InstanceID) bool {
	return slices.Contains(j.Excluded, r.model.instances[id].host)
}

// fits checks an instance and its host for one slot, quotas apart.
func (r *run) fits(q *query, id InstanceID) bool {
	host := r.model.instances[id].host
	return r.staticallyFits(q.category, id) &&
		r.resources(q, AtHost(host)) && r.resources(q, AtInstance(id)) && r.coresFor(q, host, 1) > 0
}

// staticallyFits is what can be said about an instance whatever runs. It is found out
// once for each category.
func (r *run) staticallyFits(c *Category, id InstanceID) bool {
	if c.static == nil {
		c.static = make([]verdict, len(r.model.instances))
	}
	if c.static[id] == unknown {
		i := &r.model.instances[id]
		q := &query{category: c}
		pe := PEID(None)
		if c.Parallel() {
			pe = anyPE
		}
		c.static[id] = refused
		if r.queueStatic(q, i.queue, c.minSlots()) && r.hostStatic(q, i.host) && r.instanceStatic(q, id, pe) {
			c.static[id] = allowed
		}
	}
	return c.static[id] == allowed
}

type verdict uint8

const (
	unknown verdict = iota
	allowed
	refused
)

// violations counts the soft requests that an instance does not meet (qsub(1), -soft): one
// for each layer that has something else, and one where the queue does not have the
// attribute and the layers above do not have what is requested. So what a host refuses
// counts twice, and what nobody has once (tested).
func (m *matcher) violations(c *Category, id InstanceID) int {
	i := &m.model.instances[id]
	n := 0
	for k := range c.soft {
		s := &c.soft[k]
		met := false
		for _, p := range [...]Place{AtGlobal(), AtHost(i.host), AtInstance(id)} {
			v, _ := m.at(p, s.attribute)
			switch {
			case v.IsValid() && s.value.Match(m.model.attributes[s.attribute].Relop, v):
				met = true
			case v.IsValid(), p.layer == atQueue && !met:
				n++
			}
		}
	}
	for _, q := range c.softQueues {
		if !q.Match(m.model.queues[i.queue].name, m.model.hosts[i.host].name, m.model.groupsOf) {
			n++
		}
	}
	return n
}

// explainRejection returns the reasons why no place was found, place by place, in the order
// in which they were tried. Where a cluster queue, a host or a quota is the cause, it is
// said once.
func (r *run) explainRejection(q query) []Reason {
	if !r.explaining {
		return nil
	}
	q.trace, q.mode = &trace{}, q.mode&^starting
	switch c := q.category; {
	case c.requests.Reservation != 0:
		r.explainReserved(&q)
	case c.Parallel():
		r.explainParallel(&q)
	default:
		r.explainSerial(&q)
	}
	return q.trace.quotasOnce()
}

func (r *run) explainSerial(q *query) {
	if !r.globally(q) {
		return
	}
	skip := newSkips(r.model)
	r.categoryState(q.category).barred = skip.barred
	for id := range r.order.all() {
		r.explainInstance(q, id, skip)
		if skip.all {
			return
		}
	}
}

// skips are the places that need not be looked at again.
type skips struct {
	all    bool
	queues []bool
	hosts  []bool
	barred []bool // hosts that are ruled out whatever is free there
	sorted []bool // hosts that a quota rules out
	// exhausted are hosts that have nothing left for a parallel job.
	exhausted map[HostID]bool
	// collector is what quotas leave to a parallel job; nil until it is looked at.
	collector *quota.Collector
}

func newSkips(m *Model) *skips {
	return &skips{queues: make([]bool, len(m.queues)), hosts: make([]bool, len(m.hosts)), barred: make([]bool, len(m.hosts)), sorted: make([]bool, len(m.hosts)), exhausted: map[HostID]bool{}}
}

// explainHost finds the reason against the host of an instance, whatever is free there,
// and then has it skipped.
func (r *run) explainHost(q *query, id InstanceID, skip *skips) {
	host := r.model.instances[id].host
	if r.unclean(q.job, id) {
		q.because(Reason{kind: uncleanHost, place: int32(host)})
		skip.hosts[host] = true
	} else if !r.hostStatic(q, host) {
		skip.hosts[host], skip.barred[host] = true, true
	}
}

func (r *run) explainInstance(q *query, id InstanceID, skip *skips) {
	i := &r.model.instances[id]
	if skip.queues[i.queue] || skip.hosts[i.host] || skip.sorted[i.host] {
		return
	}
	if failure, ok := r.withinQuota(q, id); !ok {
		q.because(exceeded(&failure))
		skip.all = failure.SortOut(int32(i.queue), int32(i.host), skip.queues, skip.sorted)
		return
	}
	if !r.queueStatic(q, i.queue, 1) {
		skip.queues[i.queue] = true
		return
	}
	if r.explainHost(q, id, skip); skip.hosts[i.host] {
		return
	}
	if !r.instanceStatic(q, id, None) {
		return
	}
	if !r.resources(q, AtHost(i.host)) || r.coresFor(q, i.host, 1) == 0 {
		skip.hosts[i.host] = true
		return
	}
	r.resources(q, AtInstance(id))
}
