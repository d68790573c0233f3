package scheduler

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/value"
)

// Reservation is an advance reservation (qrsub(1)): places that are reserved during a time for the
// jobs of certain users.
type Reservation struct {
	ID         uint32
	Start, End int64
	Category   *Category // the requests of the reservation
	PE         PEID      // None for serial slots
	Grants     []Grant
	Failed     bool // in error: one of its queue instances cannot be used

	used []reservedUse // by grant
}

// reservedUse is the use of a reservation's grant by jobs.
type reservedUse struct {
	slots   int
	amounts map[AttributeID]value.Amount
}

// FindReservation finds places for an advance reservation from start to end. ok is false if there
// are none: "advance_reservation: no suitable queues".
func (s *State) FindReservation(c *Category, start, end, now int64) (pe PEID, grants []Grant, ok bool) {
	r := s.newRun(now)
	r.plan = newPlan() // even if jobs may not reserve
	r.planAhead()
	r.prepareOrder(r.exists, r.notSuspendedByCalendar, r.notDisabledByCalendar, r.notFull)
	r.orderWithoutLoad(c.Parallel())
	// Quotas apply neither to a reservation nor to tasks in one (sge_resource_quota(5)).
	q := &query{job: &Job{Category: c}, category: c, span: span{start, end - start}, mode: later | exempt}
	r.mixed = true
	if c.Parallel() {
		a, ok := r.bestAssignment(q)
		if !ok { // see slotsPerHost
			a, ok = r.bestAssignment(new(q.in(q.mode | fewest)))
		}
		return a.pe, a.grants, ok
	}
	if !r.globally(q) {
		return None, nil, false
	}
	for id := range r.candidates(q) {
		if r.tryInstance(q, id) == fits {
			return None, []Grant{{Instance: id, Slots: 1}}, true
		}
	}
	return None, nil, false
}

// exists is the first condition of instances for an advance reservation: Grid Engine's master does not look at states. Those that are
// disabled, suspended, in error or in alarm are reserved, too (tested).
func (r *run) exists(id InstanceID) (Reason, bool) {
	return Reason{kind: droppedUnavailable}, r.instances[id].status&Orphaned == 0 && r.model.instances[id].ambiguous == nil
}

func (r *run) notSuspendedByCalendar(id InstanceID) (Reason, bool) {
	return Reason{kind: droppedUnavailable}, r.instances[id].status&SuspendedByCalendar == 0
}

func (r *run) notDisabledByCalendar(id InstanceID) (Reason, bool) {
	return Reason{kind: droppedDisabled}, r.instances[id].status&DisabledByCalendar == 0
}

// orderWithoutLoad orders the instances as if all hosts had the same load: Grid Engine's master does not compute the load
// formula when it looks for an advance reservation. It sorts instances by seq_no only for parallel reservations, and only if
// queue_sort_method is load. Equal ones are in the order of their cluster queues and hosts (tested).
func (r *run) orderWithoutLoad(parallel bool) {
	clear(r.load)
	r.order = newOrder(r.State, r.byNumber(), slices.Collect(r.order.all()), r.load)
	if !parallel || r.order.bySeqno {
		r.order.sortByRank()
	}
}

// Considered reports whether -q and -pe of qrsub(1) allow an instance for an advance reservation.
func (s *State) Considered(c *Category, id InstanceID) bool {
	i := &s.model.instances[id]
	if len(c.queues) > 0 && !c.queues.Match(s.model.queues[i.queue].name, s.model.hosts[i.host].name, s.model.groupsOf) {
		return false
	}
	return !c.Parallel() || slices.ContainsFunc(c.pes, func(pe PEID) bool { return slices.Contains(i.pes, s.model.pes[pe].object.Name) })
}

// AddReservation books the places of a reservation. It returns an error and books nothing if the
// reservation is invalid or its number is in use.
func (s *State) AddReservation(ar *Reservation) error {
	if err := s.checkReservation(ar); err != nil {
		return err
	}
	ar.used = make([]reservedUse, len(ar.Grants))
	for i := range ar.used {
		ar.used[i].amounts = map[AttributeID]value.Amount{}
	}
	i, _ := slices.BinarySearchFunc(s.reservations, ar.ID, func(x *Reservation, id uint32) int { return cmp.Compare(x.ID, id) })
	s.reservations = slices.Insert(s.reservations, i, ar)
	return nil
}

// RemoveReservation releases the places of a reservation. Its tasks must have finished.
func (s *State) RemoveReservation(ar *Reservation) {
	s.reservations = slices.DeleteFunc(s.reservations, func(x *Reservation) bool { return x == ar })
}

// ReservedSlots returns the number of slots of a queue instance that advance reservations hold at a
// time.
func (s *State) ReservedSlots(id InstanceID, now int64) int {
	n := 0
	for _, ar := range s.reservations {
		for _, g := range ar.Grants {
			if g.Instance == id && ar.Start <= now && now < ar.End {
				n += g.Slots
			}
		}
	}
	return n
}

func (s *State) reservation(id uint32) *Reservation {
	for _, ar := range s.reservations {
		if ar.ID == id {
			return ar
		}
	}
	return nil
}

// bookInReservation books a task that runs in a reservation. Only its slots are booked: the
// reservation has booked all other resources.
func (s *State) bookInReservation(ar *Reservation, c *Category, grants []Grant, sign int) error {
	used := slices.Clone(ar.used) // so that an error leaves nothing booked
	for _, g := range grants {
		i := slices.IndexFunc(ar.Grants, func(o Grant) bool { return o.Instance == g.Instance })
		if i < 0 {
			return fmt.Errorf("%s is not in advance reservation %d", s.model.instances[g.Instance].name, ar.ID)
		}
		used[i].slots += sign * g.Slots
		used[i].amounts = maps.Clone(used[i].amounts)
		for id, each := range ar.taken(c) {
			amount := used[i].amounts[id]
			if err := amount.Add(sign*g.Slots, each); err != nil {
				return fmt.Errorf("%s: %w", s.model.attributes[id].Name, err)
			}
			used[i].amounts[id] = amount
		}
	}
	ar.used = used
	for _, g := range grants {
		if s.model.slots != None {
			// Whole numbers of this size can always be added.
			_ = s.used.mutable(AtInstance(g.Instance), s.model.slots).amount.Add(sign*g.Slots, 1)
		}
	}
	return nil
}

// perSlot returns the amount of a consumable that a reservation has for each of its slots: the
// requested amount, and of the memory pool also the amount that jobs without a request book.
func (ar *Reservation) perSlot(id AttributeID) float64 {
	if q := ar.Category.hardRequest(id); q != nil {
		return q.amount
	}
	if m := ar.Category.model; id == m.pool {
		return m.attributes[id].Default.Number()
	}
	return 0
}

// taken yields the amount of each consumable that a job takes from a reservation for each slot: the
// requested amount. A job that requests no memory takes the reservation's share of the memory pool
// for a slot.
func (ar *Reservation) taken(c *Category) iter.Seq2[AttributeID, float64] {
	m := c.model
	return func(yield func(AttributeID, float64) bool) {
		for k := range c.hard {
			if q := &c.hard[k]; m.attributes[q.attribute].consumable() && q.amount > 0 && !yield(q.attribute, q.amount) {
				return
			}
		}
		if m.pool != None && m.configured[m.pool] != 0 && c.hardRequest(m.pool) == nil {
			if each := ar.perSlot(m.pool); each > 0 {
				yield(m.pool, each)
			}
		}
	}
}

// MemoryFromReservation returns the request to add to a job in an advance reservation, so that the
// job is limited to its part of the memory pool: the reservation's request for a slot, if the job
// itself requests no memory. Otherwise it returns nil.
func (s *State) MemoryFromReservation(c *Category) []qconf.Setting {
	m := s.model
	ar := s.reservation(c.requests.Reservation)
	if ar == nil || m.pool == None || c.hardRequest(m.pool) != nil {
		return nil
	}
	q := ar.Category.hardRequest(m.pool)
	if q == nil {
		return nil
	}
	return []qconf.Setting{{Name: m.attributes[m.pool].Name, Value: strconv.FormatUint(uint64(q.amount), 10)}}
}

// assignReserved finds a place in an advance reservation.
func (r *run) assignReserved(q *query) (Start, bool) {
	j := q.job
	ar := r.reservation(j.Category.requests.Reservation)
	if ar == nil {
		return Start{}, false
	}
	switch now := r.inForce(q, ar); {
	case r.empty:
		// Check whether the job could ever run, in an unused reservation.
		ar = &Reservation{Category: ar.Category, PE: ar.PE, Grants: ar.Grants, used: make([]reservedUse, len(ar.Grants)), Start: r.now}
	case !now:
		return Start{}, false
	default:
		r.notReserved(q, ar)
	}
	offers := r.reservedOffers(q, ar)
	start := Start{PE: None, Duration: min(r.plannedDuration(j.Category), ar.End-r.now)}
	if !j.Category.Parallel() {
		for _, o := range offers {
			return Start{PE: None, Grants: []Grant{{Instance: o.queues[0].id, Slots: 1}}, Duration: start.Duration}, true
		}
		return Start{}, false
	}
	free := q.in(q.mode | exempt)
	for _, pe := range j.Category.pes {
		if ar.PE != None && pe != ar.PE {
			continue
		}
		all := 0
		for k := range offers {
			all += offers[k].slots
		}
		for n := j.Category.requests.Slots.AtMost(all); n > 0; n = j.Category.requests.Slots.AtMost(n - 1) {
			p := placing{run: r, query: &free, category: j.Category, want: n, a: assignment{pe: pe}}
			p.quotas.begin(r, &free, pe)
			for k := range offers {
				offers[k].taken = 0
			}
			p.spread(r.model.pes[pe].object.AllocationRule, offers)
			if p.full() && p.master {
				start.PE, start.Grants = pe, p.a.grants
				return start, true
			}
		}
	}
	return Start{}, false
}

// reservedOffers returns the free places of a reservation that a job can use.
func (r *run) reservedOffers(q *query, ar *Reservation) []offer {
	c, quiet := q.category, q.silent() // only cores give reasons
	var list []offer
	for id := range r.order.all() {
		i := slices.IndexFunc(ar.Grants, func(g Grant) bool { return g.Instance == id })
		if i < 0 || !r.staticallyFits(&quiet, id) || !r.matchesReserved(c, id) {
			continue
		}
		n := ar.Grants[i].Slots - ar.used[i].slots
		for x, each := range ar.taken(c) {
			n = ar.used[i].amounts[x].Slots(ar.perSlot(x)*float64(ar.Grants[i].Slots), each, n)
		}
		if n <= 0 {
			continue
		}
		host := r.model.instances[id].host
		in := queueOffer{id: id, slots: n, master: r.mayBeMaster(c, id)}
		if k := slices.IndexFunc(list, func(o offer) bool { return o.host == host }); k >= 0 {
			list[k].slots += n
			list[k].queues = append(list[k].queues, in)
		} else {
			list = append(list, offer{host: host, slots: n, queues: []queueOffer{in}})
		}
	}
	for k := range list {
		list[k].slots = r.coresFor(q, list[k].host, list[k].slots)
	}
	return slices.DeleteFunc(list, func(o offer) bool { return o.slots == 0 })
}

// matchesReserved compares the fixed settings of the cluster, a host and a queue instance with the
// requests of a job. At least one of them must have a requested attribute. Consumables need no check:
// they are reserved.
func (r *run) matchesReserved(c *Category, id InstanceID) bool {
	places := [...]Place{AtGlobal(), AtHost(r.model.instances[id].host), AtInstance(id)}
	for k := range c.hard {
		q := &c.hard[k]
		a := &r.model.attributes[q.attribute]
		if a.consumable() {
			continue
		}
		known := false
		for _, p := range places {
			v, _ := r.at(p, q.attribute)
			if v.IsValid() && !q.value.Match(a.Relop, v) {
				return false
			}
			known = known || v.IsValid() || r.model.layerAt(p).marked(q.attribute) != nil
		}
		if !known {
			return false
		}
	}
	return true
}

// notReserved adds the reasons why a job in a reservation cannot use other instances. The original adds those about instances
// to all jobs, and looks only at instances on hosts that the job can use, of cluster queues of which instances are reserved (tested).
func (r *run) notReserved(q *query, ar *Reservation) {
	for id := range r.order.all() {
		i := &r.model.instances[id]
		if slices.ContainsFunc(ar.Grants, func(g Grant) bool { return g.Instance == id }) || q.trace.skips(i) {
			continue
		}
		if !slices.ContainsFunc(ar.Grants, func(g Grant) bool { return r.model.instances[g.Instance].queue == i.queue }) {
			q.trace.skipQueue(i.queue)
			q.because(Reason{
				kind: queueNotReserved, place: int32(i.queue), number: int(ar.ID),
				text: fmt.Sprintf("cannot run in queue instance %q because it was not reserved by advance reservation %d", r.model.queues[i.queue].name, ar.ID),
			})
			continue
		}
		if !r.hostAllows(q, i.host) {
			continue
		}
		reason := Reason{
			kind: notReserved, place: int32(id), number: int(ar.ID), model: r.model,
			text: fmt.Sprintf("cannot run in queue %q because it was not reserved by advance reservation %d", r.model.instances[id].name, ar.ID),
		}
		if !slices.ContainsFunc(r.decisions.Dropped, func(o Reason) bool {
			return o.kind == notReserved && o.place == reason.place && o.number == reason.number
		}) {
			r.decisions.Dropped = append(r.decisions.Dropped, reason)
		}
	}
}

// inForce reports whether jobs can run in an advance reservation now.
func (r *run) inForce(q *query, ar *Reservation) bool {
	switch {
	case r.now < ar.Start:
		return q.because(Reason{kind: badReservation, text: "execution time not reached"})
	case ar.Failed:
		return q.because(Reason{
			kind: badReservation,
			text: fmt.Sprintf("cannot run because requested advance reservation %d is in error state", ar.ID),
		})
	}
	return r.now < ar.End
}
