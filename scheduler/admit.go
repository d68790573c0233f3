package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/quota"
)

// Admit returns the reasons why a task cannot start now in exactly these places: with these slots,
// elements of resource maps and cores. Without a reason the task fits. Admit changes neither the
// state nor the task; Start books it.
//
// An agent uses it to check a start that a master requests. Admit accepts each start that a run
// decides on the same state, one after the other. So it checks what a run checks, with these
// exceptions:
//
//   - It ignores other tasks: priorities, limits on the number of tasks of a user or an array job,
//     soft requests, reservations that have not begun.
//   - It uses load values as they are reported. Load adjustments spread the starts of a single run,
//     and so does an alarm on the remaining amount of a consumable.
//
// If a state holds only a part of the cluster, quotas, the slots of parallel environments and
// resources of the whole cluster count only the usage that the state knows. That is never more than
// the master knows, so Admit refuses no valid start; but only a master can enforce limits that span
// hosts. Of the allocation rule, Admit checks the part on the hosts of the state.
//
// Each place has at most one reason, with the texts of qstat -j. The error is for an invalid task:
// without grants, with a queue instance that does not exist or occurs twice, or a serial task with
// several slots.
func (s *State) Admit(t *Running, now int64) ([]Reason, error) {
	if err := s.model.checkTask(t); err != nil {
		return nil, err
	}
	v := &view{State: s, now: now, reported: true, correction: make([]float64, len(s.model.hosts)+1)}
	v.reduce()
	a := &admission{
		run: &run{matcher: matcher{view: v}, decisions: &Decisions{model: s.model}}, task: t,
		// Admit plans nothing ahead, so the duration of the task does not matter.
		query: query{job: t.Job, category: t.Job.Category, span: span{start: now}, trace: newTrace(s.model)},
	}
	a.look()
	return a.trace.reasons, nil
}

// admission is the state of one call of Admit.
type admission struct {
	*run
	query
	task *Running
}

func (a *admission) look() {
	usable := true
	for _, g := range a.task.Grants {
		usable = a.usableNow(g.Instance) && usable
	}
	if !usable {
		return
	}
	ar := a.reservation(a.category.requests.Reservation)
	switch {
	case ar != nil:
		a.lookReserved(ar)
	case a.category.Parallel():
		a.lookParallel()
	default:
		a.lookSerial()
	}
	if len(a.trace.reasons) == 0 {
		a.lookElements()
		a.lookCores()
	}
}

// usableNow makes the checks of an instance that a run makes before it looks at any job.
func (a *admission) usableNow(id InstanceID) bool {
	suspended := func(id InstanceID) (Reason, bool) { return Reason{kind: droppedSuspended}, !a.subordinated(id) }
	for _, keep := range []func(InstanceID) (Reason, bool){a.notUnavailable, a.noSuspendAlarm, a.noLoadAlarm, a.notDisabled, suspended, a.notFull} {
		if reason, ok := keep(id); !ok {
			reason.place = int32(id)
			return a.because(reason)
		}
	}
	return true
}

// quotasCount reports whether quotas limit the task: they apply neither to a reservation nor to
// tasks in one (sge_resource_quota(5)).
func (a *admission) quotasCount() bool { return a.category.requests.Reservation == 0 }

func (a *admission) lookSerial() {
	id := a.task.Grants[0].Instance
	if !a.globalStatic(&a.query) || !a.resources(&a.query, AtGlobal()) {
		return
	}
	if a.quotasCount() {
		if failure, ok := a.withinQuota(&a.query, id); !ok {
			a.because(exceeded(&failure))
			return
		}
	}
	host := a.model.instances[id].host
	if !a.fixed(id, None) || !a.hostFixed(host) || !a.instanceStatic(&a.query, id, None) {
		return
	}
	if a.resources(&a.query, AtHost(host)) {
		a.resources(&a.query, AtInstance(id))
	}
}

// fixed checks the settings of an instance's cluster queue.
func (a *admission) fixed(id InstanceID, pe PEID) bool {
	queue := a.model.instances[id].queue
	return a.queueStatic(&a.query, queue, 1) && (pe == None || a.queueOffersPE(&a.query, queue, a.model.PEName(pe)))
}

func (a *admission) hostFixed(host HostID) bool {
	if slices.Contains(a.task.Job.Excluded, host) {
		return a.because(Reason{kind: uncleanHost, place: int32(host)})
	}
	return a.hostStatic(&a.query, host)
}

func (a *admission) lookParallel() {
	if !a.lookPE() || !a.globalStatic(&a.query) || !a.offered(AtGlobal(), a.task.Slots()+a.task.Away.Slots, !a.task.Away.Master) {
		return
	}
	hosts := map[HostID]bool{}
	for i, g := range a.task.Grants {
		host := a.model.instances[g.Instance].host
		fits, seen := hosts[host]
		if !seen {
			fits = a.hostFixed(host) && a.offered(AtHost(host), a.slotsOn(host), a.hasMaster(host))
			hosts[host] = fits
		}
		if fits && a.fixed(g.Instance, a.task.PE) && a.instanceStatic(&a.query, g.Instance, a.task.PE) && a.mayHave(i) {
			a.offered(AtInstance(g.Instance), g.Slots, i == 0 && !a.task.Away.Master)
		}
	}
	if len(a.trace.reasons) == 0 && a.quotasCount() {
		a.lookQuotas()
	}
}

// lookPE checks the parallel environment: access, slots, allocation rule.
func (a *admission) lookPE() bool {
	c, pe := a.category, a.task.PE
	object := a.model.pes[pe].object
	slots := a.task.Slots() + a.task.Away.Slots
	switch {
	case !slices.Contains(c.pes, pe):
		return a.because(Reason{kind: noMatchingPE})
	case !c.allows(&a.model.pes[pe].access):
		return a.because(Reason{kind: noPEAccess, place: int32(pe)})
	case !c.requests.Slots.Contains(slots):
		return a.because(Reason{kind: peTotal, place: int32(pe)})
	case slots > object.Slots-a.peUsed[pe]:
		return a.because(Reason{kind: peSlots, place: int32(pe), number: max(object.Slots-a.peUsed[pe], 0)})
	}
	for _, g := range a.task.Grants {
		host := a.model.instances[g.Instance].host
		on := a.slotsOn(host)
		switch rule := object.AllocationRule; {
		case rule.PerHost > 0 && on != rule.PerHost, rule.Name == qconf.PESlots && on != slots:
			return a.because(Reason{
				kind: peRule, place: int32(pe),
				text: fmt.Sprintf("its allocation rule %s does not allow %d of %d slots on host %q", ruleText(rule), on, slots, a.model.HostName(host)),
			})
		}
	}
	return true
}

func ruleText(r qconf.AllocationRule) string {
	if r.PerHost > 0 {
		return strconv.Itoa(r.PerHost)
	}
	return string(r.Name)
}

// slotsOn returns the task's slots on a host, in all of the host's instances.
func (a *admission) slotsOn(host HostID) (n int) {
	for _, g := range a.task.Grants {
		if a.model.instances[g.Instance].host == host {
			n += g.Slots
		}
	}
	return n
}

func (a *admission) hasMaster(host HostID) bool {
	return !a.task.Away.Master && a.model.instances[a.task.Grants[0].Instance].host == host
}

// mayHave applies -masterq.
func (a *admission) mayHave(grant int) bool {
	c, g := a.category, a.task.Grants[grant]
	if len(c.masterQueues) == 0 {
		return true
	}
	master := grant == 0 && !a.task.Away.Master
	if master && !a.mayBeMaster(c, g.Instance) {
		return a.because(Reason{kind: instanceNotListed, place: int32(g.Instance)})
	}
	return true
}

// offered checks that a place has enough slots for a parallel task, and the resources that the
// master task takes once.
func (a *admission) offered(p Place, slots int, master bool) bool {
	before := len(a.trace.reasons)
	n, once := a.slotsAt(&a.query, p)
	switch {
	case len(a.trace.reasons) > before:
		return false
	case n < slots:
		return a.because(Reason{kind: fewSlots, layer: p.letter(), place: p.index, number: n})
	case master && !once:
		return a.offersOnce(p)
	}
	return true
}

// offersOnce adds the reason if a place lacks a resource that the master task needs.
func (a *admission) offersOnce(p Place) bool {
	c := a.category
	for u := range a.usesAt(p) {
		if u.perJob && !a.consume(&a.query, p, u.attribute, u.each, c.hardRequest(u.attribute) == nil) {
			return false
		}
	}
	return true
}

func (a *admission) usesAt(p Place) func(func(use) bool) {
	return func(yield func(use) bool) {
		more := true
		_ = a.category.uses(p, func(u use) error {
			more = more && yield(u)
			return nil
		})
	}
}

// lookQuotas takes the slots from the remaining amounts of the quotas, one grant after the other.
func (a *admission) lookQuotas() {
	c := a.category
	var q quota.Collector
	q.Reset(c.demand(a.task.PE), a.quotas.usage, a.quotaValue)
	for n, g := range a.task.Grants {
		i := &a.model.instances[g.Instance]
		left, failure := q.Left(int32(i.queue), int32(i.host), n == 0 && !a.task.Away.Master)
		if left < g.Slots {
			if left > 0 {
				q.Take(int32(i.queue), int32(i.host), left)
				_, failure = q.Left(int32(i.queue), int32(i.host), false)
			}
			a.because(exceeded(&failure))
			return
		}
		q.Take(int32(i.queue), int32(i.host), g.Slots)
	}
}

// lookReserved checks that the places belong to an advance reservation in force, and are free in
// it.
func (a *admission) lookReserved(ar *Reservation) {
	before := len(a.trace.reasons)
	if !a.inForce(&a.query, ar) {
		if len(a.trace.reasons) == before {
			a.because(Reason{kind: badReservation, text: fmt.Sprintf("cannot run because requested advance reservation %d is over", ar.ID)})
		}
		return
	}
	if ar.PE != None && a.task.PE != None && a.task.PE != ar.PE {
		a.because(Reason{kind: noMatchingPE})
		return
	}
	ids := make([]InstanceID, 0, len(a.task.Grants))
	for _, g := range a.task.Grants {
		ids = append(ids, g.Instance)
	}
	a.order = newOrder(a.State, a.byNumber(), ids, make([]float64, len(a.model.hosts)))
	if a.notReserved(&a.query, ar); len(a.decisions.Dropped) > 0 || len(a.trace.reasons) > 0 {
		a.trace.reasons = append(a.trace.reasons, a.decisions.Dropped...)
		return
	}
	offered := map[InstanceID]int{}
	for _, o := range a.reservedOffers(&a.query, ar) {
		for _, q := range o.queues {
			offered[q.id] = min(q.slots, o.slots)
		}
	}
	for _, g := range a.task.Grants {
		if n := offered[g.Instance]; n < g.Slots && len(a.trace.reasons) == 0 {
			a.because(Reason{kind: fewSlots, layer: 'q', place: int32(g.Instance), number: n})
		}
	}
}

// lookElements checks that the task has as many elements of resource maps as it takes, and that they
// exist and are free.
func (a *admission) lookElements() {
	takes := a.elementsTaken()
	for _, g := range a.task.Grants {
		for _, t := range g.Elements {
			r := resource{place: t.At, attribute: t.Attribute}
			if len(t.IDs) > 0 && !slices.ContainsFunc(takes, func(x elementsTaken) bool { return x.resource == r }) {
				a.wrongElements(r, fmt.Sprintf("it has been given %q of (%s), which it does not take there", t.IDs, a.model.attributes[t.Attribute].Name))
				return
			}
		}
	}
	for _, x := range takes {
		if text := a.lookGiven(x); text != "" {
			a.wrongElements(x.resource, text)
			return
		}
	}
}

func (a *admission) wrongElements(r resource, text string) {
	a.because(Reason{kind: elementsGiven, layer: r.place.letter(), place: r.place.index, text: text})
}

// elementsTaken is the number of elements that a task takes of a resource map.
type elementsTaken struct {
	resource
	number int
}

// elementsTaken returns the number of elements that the task takes of each map, in the order of its
// places. On a host with several of its instances the task takes elements for each instance. The
// master task gets the elements of maps of the whole cluster.
func (a *admission) elementsTaken() (list []elementsTaken) {
	for p, part := range a.model.portions(a.task.Grants, a.task.Away) {
		if p.layer == atGlobal && a.task.Away.Master {
			continue
		}
		for u := range a.usesAt(p) {
			n := u.times(part)
			if n == 0 || len(a.model.named(p, u.attribute)) == 0 {
				continue
			}
			r := resource{place: p, attribute: u.attribute}
			i := slices.IndexFunc(list, func(x elementsTaken) bool { return x.resource == r })
			if i < 0 {
				i, list = len(list), append(list, elementsTaken{resource: r})
			}
			list[i].number += int(math.Round(float64(n) * u.each))
		}
	}
	return list
}

// given returns the elements of a map that the task has.
func (a *admission) given(p Place, id AttributeID) (ids []string) {
	for _, g := range a.task.Grants {
		for _, t := range g.Elements {
			if t.At == p && t.Attribute == id {
				ids = append(ids, t.IDs...)
			}
		}
	}
	return ids
}

// lookGiven returns the error in the elements of a map that a task has been given, "" if there is
// none.
func (a *admission) lookGiven(x elementsTaken) string {
	name := a.model.attributes[x.attribute].Name
	given := a.given(x.place, x.attribute)
	if len(given) != x.number {
		return fmt.Sprintf("it has been given %d elements of (%s) and takes %d", len(given), name, x.number)
	}
	names := a.model.named(x.place, x.attribute)
	used := a.elements[x.resource]
	taken := make([]bool, len(names))
	copy(taken, used)
	l := a.model.layerAt(x.place)
	of := &l.settings[slices.IndexFunc(l.settings, func(s setting) bool { return s.attribute == x.attribute })]
	for _, id := range given {
		there := false
		free := -1
		for i := range names {
			if names[i] == id && !a.category.suits(l, of, i) {
				return fmt.Sprintf("%q of resource (%s) is not as the job requests it", id, name)
			}
			if names[i] == id {
				if there = true; !taken[i] {
					free = i
					break
				}
			}
		}
		switch {
		case !there:
			return fmt.Sprintf("%q is not an element of resource (%s)", id, name)
		case free < 0:
			return fmt.Sprintf("%q of resource (%s) is already in use", id, name)
		}
		taken[free] = true
	}
	return ""
}

// lookCores checks that each host has cores for the task, and that the cores given to the task are
// free. If no cores are given, the host chooses them.
func (a *admission) lookCores() {
	if a.cores == nil {
		return
	}
	hosts := map[HostID]bool{}
	for _, g := range a.task.Grants {
		host := a.model.instances[g.Instance].host
		h := &a.cores[host]
		if hosts[host] || !h.known() {
			continue
		}
		hosts[host] = true
		given := a.coresGiven(host)
		seen := map[topology.Pair]bool{}
		taken := slices.ContainsFunc(given, func(p topology.Pair) bool {
			_, there := h.topology.Core(p)
			twice := seen[p]
			seen[p] = true
			return !there || twice || h.used.Has(p)
		})
		switch slots := a.slotsOn(host); {
		case taken:
			a.misfit(&a.query, host, h.used)
		case len(given) == 0:
			if n := a.coresFor(&a.query, host, slots); n > 0 && n < slots {
				a.misfit(&a.query, host, h.used)
			}
		}
	}
}

func (a *admission) coresGiven(host HostID) (cores []topology.Pair) {
	for _, g := range a.task.Grants {
		if a.model.instances[g.Instance].host == host {
			cores = append(cores, g.Cores...)
		}
	}
	return cores
}
