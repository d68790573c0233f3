package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/quota"
)

// assign finds a place for a task to start at now.
func (r *run) assign(h *head) (Start, bool) {
	c := h.job.Category
	if c.requests.Reservation != 0 {
		r.sortSerial()
		return r.assignReserved(h.job)
	}
	at := span{start: r.now, duration: r.duration(c)}
	if c.Parallel() {
		return r.assignParallel(h.job, at)
	}
	r.sortSerial()
	id := r.findSerial(h.job, at)
	if id == None {
		return Start{}, false
	}
	return Start{PE: None, Grants: []Grant{{Instance: id, Slots: 1}}, Duration: r.plannedDuration(c)}, true
}

// findSerial finds the first instance in which a serial job can start, or, if it has
// soft requests, the first of those that meet most of them.
func (r *run) findSerial(j *Job, at span) InstanceID {
	c := j.Category
	if !r.globally(c, at) {
		return None
	}
	s := &r.categoryState(c).search
	if len(j.Excluded) > 0 || c.isSoft() {
		return r.findBest(j, s, at)
	}
	for {
		id := r.order.next(s)
		if id == None {
			return None
		}
		failure, ok := r.withinQuota(c, id, at)
		if ok && r.fits(c, id, at) {
			return id
		}
		s.refuse(id)
		if failure.Everywhere {
			return None
		}
	}
}

// findBest looks at all instances: the one with the fewest violations of soft requests.
func (r *run) findBest(j *Job, s *search, at span) InstanceID {
	best, fewest := InstanceID(None), 0
	for id := range r.order.all() {
		if s.is(id) || r.unclean(j, id) {
			continue
		}
		if _, ok := r.withinQuota(j.Category, id, at); !ok || !r.fits(j.Category, id, at) {
			s.refuse(id)
			continue
		}
		n := r.violations(j.Category, id)
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
func (r *run) fits(c *Category, id InstanceID, at span) bool {
	host := r.model.instances[id].host
	return r.staticallyFits(c, id) &&
		r.resources(c, AtHost(host), at) && r.resources(c, AtInstance(id), at) && r.coresFor(c, host, at, 1) > 0
}

// staticallyFits is what can be said about an instance whatever runs. It is found out
// once for each category.
func (r *run) staticallyFits(c *Category, id InstanceID) bool {
	if c.static == nil {
		c.static = make([]verdict, len(r.model.instances))
	}
	if c.static[id] == unknown {
		i := &r.model.instances[id]
		quiet := matcher{view: r.view}
		pe := PEID(None)
		if c.Parallel() {
			pe = anyPE
		}
		c.static[id] = refused
		if quiet.queueStatic(c, i.queue, c.minSlots()) && quiet.hostStatic(c, i.host) && quiet.instanceStatic(c, id, pe) {
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

// explainRejection finds the reasons why no place was found, place by place, in the order
// in which they were tried. Where a cluster queue, a host or a quota is the cause, it is
// said once.
func (r *run) explainRejection(h *head, c *categoryRun) {
	if !r.explaining {
		return
	}
	said := map[string]bool{}
	r.explain = func(reason Reason) {
		if len(said) > 0 || reason.kind == quotaExceeded {
			if text := reason.Text(); reason.kind == quotaExceeded {
				if said[text] {
					return
				}
				said[text] = true
			}
		}
		c.reasons = append(c.reasons, reason)
	}
	defer func() { r.explain = nil }()
	at := span{start: r.now, duration: r.duration(h.job.Category)}
	switch cat := h.job.Category; {
	case cat.requests.Reservation != 0:
		r.explainReserved(h.job)
	case cat.Parallel():
		r.explainParallel(h.job, at)
	default:
		r.explainSerial(h.job, at)
	}
}

func (r *run) explainSerial(j *Job, at span) {
	c := j.Category
	if !r.globally(c, at) {
		return
	}
	skip := newSkips(r.model)
	r.categoryState(c).barred = skip.barred
	for id := range r.order.all() {
		r.explainInstance(j, id, at, skip)
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
func (r *run) explainHost(j *Job, id InstanceID, skip *skips) {
	c, host := j.Category, r.model.instances[id].host
	if r.unclean(j, id) {
		r.because(Reason{kind: uncleanHost, place: int32(host)}, c)
		skip.hosts[host] = true
	} else if !r.hostStatic(c, host) {
		skip.hosts[host], skip.barred[host] = true, true
	}
}

func (r *run) explainInstance(j *Job, id InstanceID, at span, skip *skips) {
	c, i := j.Category, &r.model.instances[id]
	if skip.queues[i.queue] || skip.hosts[i.host] || skip.sorted[i.host] {
		return
	}
	if failure, ok := r.withinQuota(c, id, at); !ok {
		r.because(exceeded(&failure), c)
		skip.all = failure.SortOut(int32(i.queue), int32(i.host), skip.queues, skip.sorted)
		return
	}
	if !r.queueStatic(c, i.queue, 1) {
		skip.queues[i.queue] = true
		return
	}
	if r.explainHost(j, id, skip); skip.hosts[i.host] {
		return
	}
	if !r.instanceStatic(c, id, None) {
		return
	}
	if !r.resources(c, AtHost(i.host), at) || r.coresFor(c, i.host, at, 1) == 0 {
		skip.hosts[i.host] = true
		return
	}
	r.resources(c, AtInstance(id), at)
}
