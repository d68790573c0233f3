package scheduler

import (
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// matcher finds out where jobs of a category may run. It stops at the first cause
// against a place, and keeps it if somebody asks for reasons.
type matcher struct {
	*view
	plan *plan // what is in use when; nil where only the present counts
	// explain is called with each cause; nil where nobody asks.
	explain func(Reason)
	said    int  // how often that was
	leaving bool // who uses a place beside others does so no longer
}

func (m *matcher) because(r Reason, c *Category) bool {
	if m.explain != nil {
		r.model, r.category = m.model, c
		m.said++
		m.explain(r)
	}
	return false
}

// project applies lists of projects: how it fails is told by the kinds.
func (m *matcher) project(c *Category, a *access, place int32, wrong, excluded reasonKind) bool {
	p := c.requests.Project
	if p != "" && slices.Contains(a.xprojects, p) {
		return m.because(Reason{kind: excluded, place: place}, c)
	}
	if len(a.projects) > 0 && (p == "" || !slices.Contains(a.projects, p)) {
		return m.because(Reason{kind: wrong, place: place}, c)
	}
	return true
}

// forced refuses a job that does not request what a place insists on.
func (m *matcher) forced(c *Category, l *layer, place int32, kind reasonKind) bool {
	for i := range l.settings {
		id := l.settings[i].attribute
		if m.model.attributes[id].forced() && c.hardRequest(id) == nil {
			return m.because(Reason{kind: kind, place: place, attribute: id}, c)
		}
	}
	return true
}

// globally checks what does not depend on any host.
func (m *matcher) globally(c *Category, at span) bool {
	if !m.globalStatic(c) {
		return false
	}
	return c.requests.Reservation != 0 || c.Parallel() || m.resources(c, AtGlobal(), at)
}

// globalStatic checks what is fixed about the cluster. What a parallel job takes of the
// cluster is looked at for all its slots.
func (m *matcher) globalStatic(c *Category) bool {
	g := &m.model.global
	for _, a := range [...]*access{&m.model.conf, &g.access} {
		if !c.allows(a) {
			return m.because(Reason{kind: globalNoAccess}, c)
		}
		if !m.project(c, a, int32(GlobalHost), globalWrongProject, globalExcludedProject) {
			return false
		}
	}
	return m.forced(c, &g.layer, int32(GlobalHost), forcedByGlobal)
}

// queueStatic checks what all instances of a cluster queue have in common: a cause that
// holds for every variant of its settings. slots is how many are looked for.
func (m *matcher) queueStatic(c *Category, id QueueID, slots int) bool {
	q := &m.model.queues[id]
	if len(c.queues) > 0 && !c.queues.MatchQueue(q.name) && (len(c.masterQueues) == 0 || !c.masterQueues.MatchQueue(q.name)) {
		return m.because(Reason{kind: queueNotListed, place: int32(id)}, c)
	}
	if !m.queueRequests(c, id, slots) {
		return false
	}
	if !q.any(func(a *access) bool { return c.rightProject(&access{projects: a.projects}) }) ||
		!q.any(func(a *access) bool { return c.rightProject(&access{xprojects: a.xprojects}) }) {
		return m.because(Reason{kind: queueWrongProject, place: int32(id)}, c)
	}
	if !q.any(func(a *access) bool { return c.allows(&access{users: a.users}) }) ||
		!q.any(func(a *access) bool { return c.allows(&access{xusers: a.xusers}) }) {
		return m.because(Reason{kind: queueNoAccess, place: int32(id)}, c)
	}
	if c.requests.Immediate && !slices.ContainsFunc(q.variants, func(v variant) bool { return v.interactive }) {
		return m.because(Reason{kind: notInteractive, place: int32(id)}, c)
	}
	return true
}

// any reports whether a list of any variant is such. The lists are to be asked for one at a
// time: a variant differs from the default in one of them, a host can in several.
func (q *queueModel) any(allows func(*access) bool) bool {
	return slices.ContainsFunc(q.variants, func(v variant) bool { return allows(&v.access) })
}

// queueRequests compares the requests of a job with what any variant of a cluster queue
// has: what none of them offers, no instance does. For a number of slots other than 1 numbers are
// left to the instances, which shows in the reasons only (tested).
func (m *matcher) queueRequests(c *Category, id QueueID, slots int) bool {
	for i := range c.hard {
		r := &c.hard[i]
		if slots > 1 && r.value.Value().Type().IsNumeric() {
			continue
		}
		if !slices.ContainsFunc(m.model.queues[id].variants, func(v variant) bool { return m.variantOffers(&v, r) }) {
			return m.because(Reason{kind: queueRequest, place: int32(id), text: m.model.attributes[r.attribute].Name + "=" + r.value.String()}, c)
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

// hostStatic checks what is fixed about a host.
func (m *matcher) hostStatic(c *Category, id HostID) bool {
	h := &m.model.hosts[id]
	// For parallel jobs that is left to the instances, which shows in the reasons only.
	if len(c.queues) > 0 && !c.Parallel() && !m.listsHost(c, h) {
		return m.because(Reason{kind: hostNotListed, place: int32(id)}, c)
	}
	if !c.allows(&h.access) {
		return m.because(Reason{kind: hostNoAccess, place: int32(id)}, c)
	}
	return m.project(c, &h.access, int32(id), hostWrongProject, hostExcludedProject) &&
		m.forced(c, &h.layer, int32(id), forcedByHost)
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

// anyPE stands for the environment of a parallel job where it does not matter which one.
const anyPE PEID = None - 1

// instanceStatic checks what is fixed about a queue instance. pe is the environment of
// a parallel job, None for a serial one.
func (m *matcher) instanceStatic(c *Category, id InstanceID, pe PEID) bool {
	i := &m.model.instances[id]
	place := int32(id)
	if !c.allows(&i.access) {
		return m.because(Reason{kind: instanceNoAccess, place: place}, c)
	}
	if !m.project(c, &i.access, place, instanceWrongProject, instanceExcludedProject) {
		return false
	}
	if len(c.queues) > 0 && !m.inList(c, id) && (pe == None || len(c.masterQueues) == 0 || !m.mayBeMaster(c, id)) {
		return m.because(Reason{kind: instanceNotListed, place: place}, c)
	}
	switch {
	case pe == None && len(c.masterQueues) > 0 && !m.mayBeMaster(c, id):
		return m.because(Reason{kind: instanceNotListed, place: place}, c)
	case pe != None && len(i.pes) == 0:
		return m.because(Reason{kind: notParallel, place: place}, c)
	case pe >= 0 && !slices.Contains(i.pes, m.model.pes[pe].object.Name):
		return m.because(Reason{kind: instanceNotInPEList, place: place, text: m.model.pes[pe].object.Name}, c)
	case c.requests.Checkpoint != "" && len(i.ckpts) == 0:
		return m.because(Reason{kind: notCheckpointing, place: place}, c)
	case c.requests.Checkpoint != "" && !slices.Contains(i.ckpts, c.requests.Checkpoint):
		return m.because(Reason{kind: notInCheckpointList, place: place, text: c.requests.Checkpoint}, c)
	case c.requests.Immediate && !i.interactive:
		return m.because(Reason{kind: notInteractive, place: int32(i.queue)}, c)
	case !c.requests.Immediate && c.requests.Checkpoint == "" && pe == None && !i.batch:
		return m.because(Reason{kind: notBatch, place: place}, c)
	}
	return m.forced(c, &i.layer, place, forcedByQueue)
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

// resources compares all that a job requests, explicitly or not, with what a place
// offers for one slot: its slots, the default requests of consumables, and -l.
func (m *matcher) resources(c *Category, p Place, at span) bool {
	if id := m.model.slots; id != None {
		if _, ok := m.configuredAt(p, id); ok && !m.consume(c, p, id, 1, at, false) {
			return false
		}
	}
	if !m.defaults(c, p, at) {
		return false
	}
	for i := range c.hard {
		if !m.explicit(c, &c.hard[i], p, at) {
			return false
		}
	}
	return true
}

// defaults checks what a job uses that it does not request.
func (m *matcher) defaults(c *Category, p Place, at span) bool {
	l := m.model.layerAt(p)
	for i := range l.settings {
		id := l.settings[i].attribute
		a := &m.model.attributes[id]
		if !a.consumable() || id == m.model.slots || c.hardRequest(id) != nil {
			continue
		}
		if a.exclusive() {
			if !m.shared(c, p, id, at, true) {
				return false
			}
			continue
		}
		if amount := a.Default.Number(); amount != 0 && !m.consume(c, p, id, amount, at, true) {
			return false
		}
	}
	return true
}

// explicit compares a request of -l with what the place offers. A place that does not
// have the attribute allows it; that any has it is seen to at the queue.
func (m *matcher) explicit(c *Category, r *request, p Place, at span) bool {
	a := &m.model.attributes[r.attribute]
	_, configured := m.configuredAt(p, r.attribute)
	if a.consumable() && configured {
		if a.exclusive() {
			if r.amount == 0 {
				return m.shared(c, p, r.attribute, at, false)
			}
			return m.alone(c, p, r.attribute, r.amount, at)
		}
		return m.consume(c, p, r.attribute, r.amount, at, false)
	}
	v, kind := m.at(p, r.attribute)
	if !v.IsValid() {
		if p.layer == atQueue && !m.known(r.attribute, p) {
			if c.Parallel() {
				return false // the original does not say so of parallel jobs (tested)
			}
			return m.because(Reason{kind: atPlace, layer: 'q', place: p.index, attribute: r.attribute, unknown: true}, c)
		}
		return true
	}
	if !r.value.Match(a.Relop, v) {
		return m.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: r.attribute, value: v, from: kind}, c)
	}
	return true
}

// known reports whether any layer above a queue instance has the attribute.
func (m *matcher) known(a AttributeID, instance Place) bool {
	host := AtHost(m.model.instances[instance.index].host)
	for _, p := range [...]Place{host, AtGlobal()} {
		if v, _ := m.at(p, a); v.IsValid() {
			return true
		}
	}
	return false
}

// consume checks that a place has so much left of a consumable.
func (m *matcher) consume(c *Category, p Place, id AttributeID, amount float64, at span, implied bool) bool {
	capacity, _ := m.capacity(p, id)
	used := m.used.at(p, id).amount
	r := resource{place: p, attribute: id}
	switch {
	case !m.bearable(p, id, amount):
	case m.empty && amount <= capacity, m.plan == nil && !m.empty && used.Fits(capacity, 1, amount):
		return true
	case m.plan != nil && m.plan.fits(r, capacity, 1, amount, at):
		return true
	}
	if m.explain == nil {
		return false
	}
	v, kind := m.at(p, id)
	reason := Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, value: v, from: kind, implied: implied}
	if m.plan != nil && amount <= v.Number() {
		if c.Parallel() {
			return false // the original says so only where there is never enough (tested)
		}
		reason.value = value.OfNumber(value.Double, m.plan.left(r, capacity, at)) // sizes, too, as the original
		reason.reserved = m.plan.fits(r, capacity, 1, amount, span{m.now, 1})     // what is in use now is no reservation
	}
	return m.because(reason, c)
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

// alone checks that nobody uses a place for which a job asks exclusively.
func (m *matcher) alone(c *Category, p Place, id AttributeID, amount float64, at span) bool {
	exclusive, others := m.occupied(p, id, at)
	others = others && !m.leaving
	switch capacity, _ := m.capacity(p, id); {
	case capacity < amount, exclusive && m.plan == nil: // FALSE is configured, or left
		return m.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, from: Consumable, value: value.OfNumber(value.Bool, 0)}, c)
	case exclusive || others:
		return m.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, exclusive: true}, c)
	}
	return true
}

// shared checks that nobody has a place for himself.
func (m *matcher) shared(c *Category, p Place, id AttributeID, at span, implied bool) bool {
	if exclusive, _ := m.occupied(p, id, at); exclusive {
		return m.because(Reason{kind: atPlace, layer: p.letter(), place: p.index, attribute: id, exclusive: true, implied: implied}, c)
	}
	return true
}

// occupied reports whether a place is used by a job that asks for it exclusively, and
// whether by others.
func (m *matcher) occupied(p Place, id AttributeID, at span) (exclusive, others bool) {
	switch r := (resource{place: p, attribute: id}); {
	case m.empty:
		return false, false
	case m.plan != nil:
		return m.plan.exclusive(r, at), m.plan.inUse(r, at)
	}
	b := m.used.at(p, id)
	return !b.amount.IsZero(), b.others > 0
}
