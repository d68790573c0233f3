package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// matcher finds out where jobs of a category may run: each of its functions answers a query for one
// place or one condition. It stops at the first cause against a place, and tells the trace of the
// query.
type matcher struct {
	*view
	plan *plan // the future use; nil if only the present counts
}

// project applies lists of projects. wrong and excluded are the kinds of its two reasons.
func (m *matcher) project(q *query, a *access, place int32, wrong, excluded reasonKind) bool {
	c := q.category
	p := c.requests.Project
	if p != "" && slices.Contains(a.xprojects, p) {
		return q.because(Reason{kind: excluded, place: place})
	}
	if len(a.projects) > 0 && (p == "" || !slices.Contains(a.projects, p)) {
		return q.because(Reason{kind: wrong, place: place})
	}
	return true
}

// forced refuses a job that does not request a FORCED resource of a place.
func (m *matcher) forced(q *query, l *layer, place int32, kind reasonKind) bool {
	c := q.category
	for i := range l.settings {
		id := l.settings[i].attribute
		if m.model.attributes[id].forced() && c.hardRequest(id) == nil {
			return q.because(Reason{kind: kind, place: place, attribute: id})
		}
	}
	return true
}

// globally checks the conditions that do not depend on a host.
func (m *matcher) globally(q *query) bool {
	c := q.category
	if !m.globalStatic(q) {
		return false
	}
	return c.requests.Reservation != 0 || c.Parallel() || m.resources(q, AtGlobal())
}

// globalStatic checks the conditions of the cluster that do not depend on its usage. The
// consumables of a parallel job are checked for all its slots.
func (m *matcher) globalStatic(q *query) bool {
	c := q.category
	g := &m.model.global
	for _, a := range [...]*access{&m.model.conf, &g.access} {
		if !c.allows(a) {
			return q.because(Reason{kind: globalNoAccess})
		}
		if !m.project(q, a, int32(GlobalHost), globalWrongProject, globalExcludedProject) {
			return false
		}
	}
	return m.forced(q, &g.layer, int32(GlobalHost), forcedByGlobal)
}

// queueStatic checks the conditions that all instances of a cluster queue have in common: it finds
// causes that hold for every variant of the queue's settings. slots is the number of requested
// slots.
func (m *matcher) queueStatic(q *query, id QueueID, slots int) bool {
	c := q.category
	queue := &m.model.queues[id]
	if len(c.queues) > 0 && !c.queues.MatchQueue(queue.name) && (len(c.masterQueues) == 0 || !c.masterQueues.MatchQueue(queue.name)) {
		return q.because(Reason{kind: queueNotListed, place: int32(id)})
	}
	if !m.queueRequests(q, id, slots) {
		return false
	}
	if !queue.any(func(a *access) bool { return c.rightProject(&access{projects: a.projects}) }) ||
		!queue.any(func(a *access) bool { return c.rightProject(&access{xprojects: a.xprojects}) }) {
		return q.because(Reason{kind: queueWrongProject, place: int32(id)})
	}
	if !queue.any(func(a *access) bool { return c.allows(&access{users: a.users}) }) ||
		!queue.any(func(a *access) bool { return c.allows(&access{xusers: a.xusers}) }) {
		return q.because(Reason{kind: queueNoAccess, place: int32(id)})
	}
	if c.requests.Immediate && !slices.ContainsFunc(queue.variants, func(v variant) bool { return v.interactive }) {
		return q.because(Reason{kind: notInteractive, place: int32(id)})
	}
	return true
}

// any reports whether allows accepts a variant. Call it for one list at a time: a variant differs
// from the default in one list, while a host can differ in several.
func (q *queueModel) any(allows func(*access) bool) bool {
	return slices.ContainsFunc(q.variants, func(v variant) bool { return allows(&v.access) })
}

// queueRequests compares the requests of a job with all variants of a cluster queue: if none of
// them satisfies a request, no instance does. If the number of slots is not 1, numeric requests are
// checked at the instances only, which only affects the reasons (tested).
func (m *matcher) queueRequests(q *query, id QueueID, slots int) bool {
	c := q.category
	for i := range c.hard {
		r := &c.hard[i]
		if slots > 1 && r.value.Value().Type().IsNumeric() {
			continue
		}
		if !slices.ContainsFunc(m.model.queues[id].variants, func(v variant) bool { return m.variantOffers(&v, r) }) {
			return q.because(Reason{kind: queueRequest, place: int32(id), text: m.model.attributes[r.attribute].Name + "=" + r.value.String()})
		}
	}
	return true
}

// variantOffers reports whether settings of a queue do not contradict a request.
func (m *matcher) variantOffers(v *variant, r *request) bool {
	a := &m.model.attributes[r.attribute]
	if a.exclusive() {
		return true
	}
	if x, ok := v.configured(r.attribute); ok {
		return r.value.Match(a.Relop, x)
	}
	x, ok := m.model.builtin(v, r.attribute)
	return !ok || a.Name == "hostname" || r.value.Match(a.Relop, x)
}

func (c *Category) rightProject(a *access) bool {
	p := c.requests.Project
	if p != "" && slices.Contains(a.xprojects, p) {
		return false
	}
	return len(a.projects) == 0 || p != "" && slices.Contains(a.projects, p)
}

// hostStatic checks the conditions of a host that do not depend on its usage.
func (m *matcher) hostStatic(q *query, id HostID) bool {
	c := q.category
	h := &m.model.hosts[id]
	// For parallel jobs that is left to the instances, which shows in the reasons only.
	if len(c.queues) > 0 && !c.Parallel() && !m.listsHost(c, h) {
		return q.because(Reason{kind: hostNotListed, place: int32(id)})
	}
	if !c.allows(&h.access) {
		return q.because(Reason{kind: hostNoAccess, place: int32(id)})
	}
	return m.project(q, &h.access, int32(id), hostWrongProject, hostExcludedProject) &&
		m.forced(q, &h.layer, int32(id), forcedByHost)
}

// listsHost reports whether any queue reference of the job is about the host.
func (m *matcher) listsHost(c *Category, h *hostModel) bool {
	for _, r := range c.queues {
		if r.Host() == nil || r.Host().Match(h.name, m.model.groupsOf) {
			return true
		}
	}
	for _, r := range c.masterQueues {
		if r.Host() == nil || r.Host().Match(h.name, m.model.groupsOf) {
			return true
		}
	}
	return false
}

// anyPE stands for any parallel environment, where it does not matter which one.
const anyPE PEID = None - 1

// instanceStatic checks the conditions of a queue instance that do not depend on its usage. pe is
// the environment of a parallel job, None for a serial one.
func (m *matcher) instanceStatic(q *query, id InstanceID, pe PEID) bool {
	c := q.category
	i := &m.model.instances[id]
	place := int32(id)
	if !c.allows(&i.access) {
		return q.because(Reason{kind: instanceNoAccess, place: place})
	}
	if !m.project(q, &i.access, place, instanceWrongProject, instanceExcludedProject) {
		return false
	}
	if len(c.queues) > 0 && !m.inList(c, id) && (pe == None || len(c.masterQueues) == 0 || !m.mayBeMaster(c, id)) {
		return q.because(Reason{kind: instanceNotListed, place: place})
	}
	switch {
	case pe == None && len(c.masterQueues) > 0 && !m.mayBeMaster(c, id):
		return q.because(Reason{kind: instanceNotListed, place: place})
	case pe != None && len(i.pes) == 0:
		return q.because(Reason{kind: notParallel, place: place})
	case pe >= 0 && !slices.Contains(i.pes, m.model.pes[pe].object.Name):
		return q.because(Reason{kind: instanceNotInPEList, place: place, text: m.model.pes[pe].object.Name})
	case c.requests.Checkpoint != "" && len(i.ckpts) == 0:
		return q.because(Reason{kind: notCheckpointing, place: place})
	case c.requests.Checkpoint != "" && !slices.Contains(i.ckpts, c.requests.Checkpoint):
		return q.because(Reason{kind: notInCheckpointList, place: place, text: c.requests.Checkpoint})
	case c.requests.Immediate && !i.interactive:
		return q.because(Reason{kind: notInteractive, place: int32(i.queue)})
	case !c.requests.Immediate && c.requests.Checkpoint == "" && pe == None && !i.batch:
		return q.because(Reason{kind: notBatch, place: place})
	}
	return m.forced(q, &i.layer, place, forcedByQueue)
}

func (m *matcher) inList(c *Category, id InstanceID) bool {
	i := &m.model.instances[id]
	return c.queues.Match(m.model.queues[i.queue].name, m.model.hosts[i.host].name, m.model.groupsOf)
}

// mayBeMaster reports whether the master task of a parallel job may run in an instance.
func (m *matcher) mayBeMaster(c *Category, id InstanceID) bool {
	if len(c.masterQueues) == 0 {
		return true
	}
	i := &m.model.instances[id]
	return c.masterQueues.Match(m.model.queues[i.queue].name, m.model.hosts[i.host].name, m.model.groupsOf)
}

// resources compares all requests of a job with the offer of a place for one slot: the slots, the
// default requests of consumables, and -l.
func (m *matcher) resources(q *query, p Place) bool {
	c := q.category
	if id := m.model.slots; id != None {
		if _, ok := m.configuredAt(p, id); ok && !m.consume(q, p, id, 1, false) {
			return false
		}
	}
	if !m.defaults(q, p) {
		return false
	}
	for i := range c.hard {
		if !m.explicit(q, &c.hard[i], p) {
			return false
		}
	}
	return true
}

// defaults checks the default amounts of consumables that a job does not request.
func (m *matcher) defaults(q *query, p Place) bool {
	c := q.category
	l := m.model.layerAt(p)
	for i := range l.settings {
		id := l.settings[i].attribute
		a := &m.model.attributes[id]
		if !a.consumable() || id == m.model.slots || c.hardRequest(id) != nil {
			continue
		}
		if a.exclusive() {
			if !m.shared(q, p, id, true) {
				return false
			}
			continue
		}
		if amount := a.Default.Number(); amount != 0 && !m.consume(q, p, id, amount, true) {
			return false
		}
	}
	return true
}

// explicit compares a request of -l with the offer of a place. A place without the attribute
// satisfies it; the check of the queue ensures that some place has it.
func (m *matcher) explicit(q *query, r *request, p Place) bool {
	c := q.category
	a := &m.model.attributes[r.attribute]
	_, configured := m.configuredAt(p, r.attribute)
	if a.consumable() && configured {
		if a.exclusive() {
			if r.amount == 0 {
				return q.is(leaving) || m.shared(q, p, r.attribute, false)
			}
			return m.alone(q, p, r.attribute, r.amount)
		}
		return m.consume(q, p, r.attribute, r.amount, false)
	}
	if s := m.model.layerAt(p).marked(r.attribute); s != nil {
		return m.anySuits(q, p, r, s)
	}
	v, kind := m.at(p, r.attribute)
	if !v.IsValid() {
		if p.layer == atQueue && !m.known(r.attribute, p) {
			if c.Parallel() {
				return false // the original does not say so of parallel jobs (tested)
			}
			return q.because(Reason{kind: atPlace, layer: 'q', place: p.index, attribute: r.attribute, unknown: true})
		}
		return true
	}
	if !r.value.Match(a.Relop, v) {
		return q.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: r.attribute, value: v, from: kind})
	}
	return true
}

// known reports whether any layer above a queue instance has the attribute.
func (m *matcher) known(a AttributeID, instance Place) bool {
	host := AtHost(m.model.instances[instance.index].host)
	for _, p := range [...]Place{host, AtGlobal()} {
		if v, _ := m.at(p, a); v.IsValid() || m.model.layerAt(p).marked(a) != nil {
			return true
		}
	}
	return false
}

// consume checks that a place has so much left of a consumable.
func (m *matcher) consume(q *query, p Place, id AttributeID, amount float64, implied bool) bool {
	c := q.category
	capacity, _ := m.capacity(p, id)
	used := m.used.at(p, id).amount
	r := resource{place: p, attribute: id}
	if m.model.attributes[id].resourceMap {
		if n := m.suitable(q, p, id); n < amount {
			return q.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, value: value.OfNumber(value.Int, n), from: Consumable, implied: implied})
		}
	}
	switch {
	case !m.bearable(p, id, amount):
	case m.empty && amount <= capacity, m.plan == nil && !m.empty && used.Fits(capacity, 1, amount):
		return true
	case m.plan != nil && m.plan.fits(r, capacity, 1, amount, q.span):
		return true
	}
	if q.trace == nil {
		return false
	}
	v, kind := m.at(p, id)
	reason := Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, value: v, from: kind, implied: implied}
	if m.plan != nil && amount <= v.Number() {
		if c.Parallel() {
			return false // Grid Engine reports this only if there is never enough (tested)
		}
		reason.value = value.OfNumber(value.Double, m.plan.left(r, capacity, q.span)) // sizes, too, as the original
		reason.reserved = m.plan.fits(r, capacity, 1, amount, span{m.now, 1})         // current use is not a reservation
	}
	return q.because(reason)
}

// bearable compares an amount with the load value of a consumable, if there is one: it
// may say that less is left.
func (m *matcher) bearable(p Place, id AttributeID, amount float64) bool {
	if p.layer == atQueue || m.load[id] == nil {
		return true
	}
	host := GlobalHost
	if p.layer == atHost {
		host = HostID(p.index)
	}
	load, _ := m.loadAt(host, id)
	return !load.IsValid() || amount <= load.Number()
}

// alone checks that no job uses a place that a job requests exclusively.
func (m *matcher) alone(q *query, p Place, id AttributeID, amount float64) bool {
	exclusive, others := m.occupied(q, p, id)
	others = others && !q.is(leaving)
	switch capacity, _ := m.capacity(p, id); {
	case capacity < amount, exclusive && m.plan == nil: // FALSE is configured, or left
		return q.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, from: Consumable, value: value.OfNumber(value.Bool, 0)})
	case exclusive || others:
		return q.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, exclusive: true})
	}
	return true
}

// shared checks that no job uses a place exclusively.
func (m *matcher) shared(q *query, p Place, id AttributeID, implied bool) bool {
	if exclusive, _ := m.occupied(q, p, id); exclusive {
		return q.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, exclusive: true, implied: implied})
	}
	return true
}

// occupied reports whether a job uses a place exclusively, and whether other jobs use it.
func (m *matcher) occupied(q *query, p Place, id AttributeID) (exclusive, others bool) {
	switch r := (resource{place: p, attribute: id}); {
	case m.empty:
		return false, false
	case m.plan != nil:
		return m.plan.exclusive(r, q.span), m.plan.inUse(r, q.span)
	}
	b := m.used.at(p, id)
	return !b.amount.IsZero(), b.others > 0
}
