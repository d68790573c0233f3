package scheduler

import "slices"

// assign finds a place for a task to start at now.
func (r *run) assign(q *query) (Start, bool) {
	if !q.category.Parallel() || q.category.requests.Reservation != 0 {
		r.sortSerial()
	}
	return r.findPlace(q)
}

// findPlace walks from the cluster down to the queue instances. Without a trace it only decides.
// With a trace it also collects the reasons against each place: it checks the same conditions in
// the same order, but uses no cached results, and continues after it has found a place.
func (r *run) findPlace(q *query) (Start, bool) {
	c := q.category
	switch {
	case c.requests.Reservation != 0:
		return r.assignReserved(q)
	case c.Parallel():
		return r.assignParallel(q)
	}
	id := r.findSerial(q)
	if id == None {
		return Start{}, false
	}
	return Start{PE: None, Grants: []Grant{{Instance: id, Slots: 1}}, Duration: r.plannedDuration(c)}, true
}

// explain returns the reasons against each place of a job, in the order in which the places were
// tried; nil if the query does not ask for reasons.
func (r *run) explain(q query) *trace {
	if !r.explaining {
		return nil
	}
	if c := q.category; c.Parallel() && c.requests.Reservation == 0 && r.comesLater(&q) {
		q.mode |= withFull
	}
	q.trace = newTrace(r.model)
	r.findPlace(&q)
	return q.trace
}

// findSerial finds the first instance in which a serial job can run, or, if it has soft requests,
// the first of those that meet most of them.
func (r *run) findSerial(q *query) InstanceID {
	if !r.globally(q) {
		return None
	}
	s := &r.categoryState(q.category).search
	if r.model.limits.sets.SortOutMore() && q.trace == nil {
		return r.findSortingOut(q, s)
	}
	if q.trace != nil || len(q.job.Excluded) > 0 || q.category.isSoft() {
		return r.findBest(q, s)
	}
	for {
		id := r.order.next(s)
		if id == None {
			return None
		}
		switch r.tryInstance(q, id) {
		case fits:
			return id
		case fitsNowhere:
			return None
		}
		s.refuse(id)
	}
}

// findBest checks all instances and returns the one with the fewest violations of soft requests.
func (r *run) findBest(q *query, s *search) InstanceID {
	best, fewest := InstanceID(None), 0
	for id := range r.candidates(q) {
		if q.trace == nil && s.is(id) {
			continue
		}
		switch r.tryInstance(q, id) {
		case fitsNowhere:
			return best
		case fitsOthers:
			continue
		case refusedThere:
			if q.trace == nil { // with one it may be refused to this job only
				s.refuse(id)
			}
			continue
		}
		n := r.violations(q.category, id)
		if best == None || n < fewest {
			best, fewest = id, n
		}
		if n == 0 && q.trace == nil {
			break
		}
	}
	return best
}

// findSortingOut does what findBest does, with quotas that rule out places where the job might fit. It checks each
// instance again that quotas refused before, because it rules out others: s is not changed.
func (r *run) findSortingOut(q *query, s *search) InstanceID {
	sorting := *q
	sorting.sorted = r.model.newSortedOut()
	return r.findBest(&sorting, &search{refused: slices.Clone(s.refused)})
}

// answer is the result of checking an instance for a serial job.
type answer uint8

const (
	fits         answer = iota
	refusedThere        // all jobs of the category, until the end of the run
	fitsOthers          // other jobs of the category, but not this job; or the trace skips it
	fitsNowhere         // the job does not fit into any later instance either
)

// tryInstance checks an instance and its host for one slot of a serial job.
func (r *run) tryInstance(q *query, id InstanceID) answer {
	i := &r.model.instances[id]
	if q.trace.skips(i) || q.sorted.skips(i) {
		return fitsOthers
	}
	if !q.is(exempt) {
		if failure, ok := r.withinQuota(q, id); !ok {
			return q.exceeds(&failure, i)
		}
	}
	switch {
	case q.trace == nil && r.unclean(q.job, id):
		return fitsOthers
	case !r.staticallyFits(q, id):
		return refusedThere
	case !r.resources(q, AtHost(i.host)) || r.coresFor(q, i.host, 1) == 0:
		q.trace.skipHost(i.host)
		return refusedThere
	case !r.resources(q, AtInstance(id)):
		return refusedThere
	}
	return fits
}

func (r *run) unclean(j *Job, id InstanceID) bool {
	return slices.Contains(j.Excluded, r.model.instances[id].host)
}

// staticallyFits reports whether an instance suits the job regardless of running jobs. The result
// is cached for each category, but computed again for a trace.
func (r *run) staticallyFits(q *query, id InstanceID) bool {
	c := q.category
	pe := PEID(None)
	if c.Parallel() {
		pe = anyPE
	}
	if q.trace != nil {
		return r.instanceAllows(q, id, pe)
	}
	if c.static == nil {
		c.static = make([]verdict, len(r.model.instances))
	}
	if c.static[id] == unknown {
		c.static[id] = refused
		if r.instanceAllows(&query{category: c}, id, pe) {
			c.static[id] = allowed
		}
	}
	return c.static[id] == allowed
}

// instanceAllows checks the static conditions of a cluster queue, a host and an instance.
func (r *run) instanceAllows(q *query, id InstanceID, pe PEID) bool {
	i := &r.model.instances[id]
	if !r.queueStatic(q, i.queue, q.category.minSlots()) {
		q.trace.skipQueue(i.queue)
		return false
	}
	return r.hostAllows(q, i.host) && r.instanceStatic(q, id, pe)
}

// hostAllows checks the static conditions of a host, and whether an earlier run of the job still
// has to be cleaned up there.
func (r *run) hostAllows(q *query, host HostID) bool {
	if q.job != nil && slices.Contains(q.job.Excluded, host) {
		q.trace.skipHost(host)
		return q.because(Reason{kind: uncleanHost, place: int32(host)})
	}
	if !r.hostStatic(q, host) {
		q.trace.bar(host)
		return false
	}
	return true
}

type verdict uint8

const (
	unknown verdict = iota
	allowed
	refused
)

// violations counts the soft requests that an instance does not meet (qsub(1), -soft): one for each
// layer with another value, and one if the queue does not have the attribute and the layers above
// do not satisfy the request. So a request that a host violates counts twice, and one for an
// attribute that no layer has counts once (tested).
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
