package cell

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/submit"
)

// Reservation is an advance reservation that has been granted (qrsub(1)). Callers must
// not change it.
type Reservation struct {
	ID           uint32
	Request      *submit.Reservation
	Owner, Group string
	Submitted    int64
	Start, End   int64
	// Deleted is set when its time is over, or it was deleted, and its jobs have not ended.
	Deleted bool
	// Broken is set while a queue instance of it cannot be used.
	Broken bool

	sched *scheduler.Reservation
	jobs  []uint32 // that ask for it, ascending
}

// Scheduled is the reservation as the scheduler knows it.
func (r *Reservation) Scheduled() *scheduler.Reservation { return r.sched }

// State is the state in the letter of qrstat(1): waiting, running, with a warning while it
// waits or an error while it runs, or deleted.
func (r *Reservation) State(now int64) string {
	switch {
	case r.Deleted:
		return "d"
	case now < r.Start && r.Broken:
		return "W"
	case now < r.Start:
		return "w"
	case r.Broken:
		return "E"
	}
	return "r"
}

// reservations are the advance reservations of the cell.
type reservations struct {
	last uint32
	list []*Reservation // by their numbers
}

func (r *reservations) find(id uint32) *Reservation {
	if i, ok := slices.BinarySearchFunc(r.list, id, func(x *Reservation, id uint32) int { return cmp.Compare(x.ID, id) }); ok {
		return r.list[i]
	}
	return nil
}

// Reservations are the advance reservations, by their numbers.
func (c *Cell) Reservations() []*Reservation { return slices.Clone(c.reservations.list) }

// Reserve is qrsub(1): it grants an advance reservation, or refuses it with a *DeniedError.
func (c *Cell) Reserve(now int64, by Caller, r *submit.Reservation) (*Answer, error) {
	c.tick(now)
	if set, err := c.cluster.UserSet(qconf.ARUsers); !c.isManager(by.User) && (err != nil || !set.Contains(by.User, by.Group)) {
		return nil, denied("denied: %q must be manager or in userset %q", by.User, qconf.ARUsers)
	}
	if limit := c.cluster.Global().MaxAdvanceReservations; limit > 0 && len(c.reservations.list) >= limit {
		return nil, denied("denied: only %d advance reservations are allowed per cluster (current count: %d)", limit, len(c.reservations.list))
	}
	x := &Reservation{Request: r, Owner: by.User, Group: by.Group, Submitted: now}
	if err := x.times(now, c.zone); err != nil {
		return nil, err
	}
	category, err := c.model.Category(requestsOf(by, r))
	if err != nil {
		return nil, requestDenied(err)
	}
	pe, grants, ok := c.state.FindReservation(category, x.Start, x.End, now)
	if !ok {
		return nil, denied("advance_reservation: no suitable queues")
	}
	a := &Answer{}
	c.reservations.last++ // the number is used up in any case
	if r.Validation == submit.ValidateVerify {
		a.say("verification: found suitable queue(s)")
		return c.done(a), nil
	}
	x.ID = c.reservations.last
	x.sched = &scheduler.Reservation{ID: x.ID, Start: x.Start, End: x.End, Category: category, PE: pe, Grants: grants}
	c.state.AddReservation(x.sched)
	c.reservations.list = append(c.reservations.list, x)
	c.timers.add(timer{at: x.Start, kind: reservationDue, id: x.ID})
	c.timers.add(timer{at: x.End, kind: reservationDue, id: x.ID})
	c.lookAtReservation(x)
	a.ID = x.ID
	a.say("Your advance reservation %d has been granted", x.ID)
	return c.done(a), nil
}

// times finds out from when until when a reservation lasts (qrsub(1), -a, -d, -e).
func (r *Reservation) times(now int64, zone *time.Location) error {
	local := time.Unix(now, 0).In(zone)
	q := r.Request
	r.Start = now
	if !q.Start.IsZero() {
		r.Start = q.Start.Time(local).Unix()
	}
	duration := int64(q.Duration.Seconds())
	switch {
	case q.End.IsZero() && duration == 0:
		return denied("denied: an advance reservation needs an end time or a duration")
	case q.End.IsZero():
		r.End = r.Start + duration
	default:
		r.End = q.End.Time(local).Unix()
		if q.Start.IsZero() && duration > 0 {
			r.Start = r.End - duration
		}
	}
	switch {
	case duration > 0 && r.End-r.Start != duration:
		return denied("difference between end and start time does not correspond to duration")
	case r.End <= r.Start:
		return denied("start time is later than end time")
	case r.Start < now:
		return denied("start time is in the past")
	}
	return nil
}

func requestsOf(by Caller, r *submit.Reservation) *scheduler.Requests {
	q := &scheduler.Requests{
		User: by.User, Group: by.Group, Checkpoint: r.Checkpoint, Immediate: r.Immediate,
		Queues: strings.Join(r.Queues, ","), MasterQueues: strings.Join(r.MasterQueues, ","),
	}
	for _, l := range r.Resources {
		q.Hard = append(q.Hard, qconf.Setting{Name: l.Name, Value: l.Value})
	}
	if r.PE != nil {
		q.PE, q.Slots = r.PE.Name, slotList(r.PE.Ranges)
	}
	return q
}

// DeleteReservations is qrdel(1), by numbers, or by names and patterns, whoever owns them
// (tested). Jobs that ask for a reservation are deleted first.
func (c *Cell) DeleteReservations(now int64, by Caller, references []string) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, ref := range references {
		found := c.matchReservations(ref)
		if len(found) == 0 {
			a.deny("denied: advance_reservation %q does not exist", ref)
		}
		for _, r := range found {
			if r.Owner != by.User && !c.isOperator(by.User) {
				a.deny("%s - you do not have the necessary privileges to delete the advance_reservation \"%d\"", by.User, r.ID)
				continue
			}
			c.endReservation(r)
			if c.reservations.find(r.ID) != nil {
				a.say("%s has registered the advance_reservation %d for deletion", by.User, r.ID)
			} else {
				a.say("%s has deleted advance_reservation %d", by.User, r.ID)
			}
		}
	}
	return c.done(a)
}

func (c *Cell) matchReservations(reference string) []*Reservation {
	if id, ok := jobNumber(reference); ok {
		if r := c.reservations.find(id); r != nil {
			return []*Reservation{r}
		}
		return nil
	}
	e, err := expression.Compile(expression.String, reference)
	if err != nil {
		return nil
	}
	var list []*Reservation
	for _, r := range c.reservations.list {
		if r.Request.Name != "" && e.Match(r.Request.Name) {
			list = append(list, r)
		}
	}
	return list
}

// reservationDue begins or ends a reservation whose time has come.
func (c *Cell) reservationDue(id uint32) {
	switch r := c.reservations.find(id); {
	case r == nil:
	case c.now >= r.End:
		c.endReservation(r)
	default:
		c.refreshReservation(r)
	}
}

// endReservation deletes the jobs of a reservation, and then the reservation.
func (c *Cell) endReservation(r *Reservation) {
	r.Deleted = true
	for _, id := range slices.Clone(r.jobs) {
		if j := c.jobs[id]; j != nil {
			c.remove(c.now, j, nil)
		}
	}
	c.forgetReservation(r)
}

// forgetReservation takes a reservation away when the last of its jobs has left.
func (c *Cell) forgetReservation(r *Reservation) {
	if r.Deleted && len(r.jobs) == 0 {
		c.state.RemoveReservation(r.sched)
		c.leftBehind(r.sched.Grants)
		c.reservations.list = slices.DeleteFunc(c.reservations.list, func(x *Reservation) bool { return x == r })
	}
}

func (c *Cell) refreshReservation(r *Reservation) {
	for _, id := range r.jobs {
		if j := c.jobs[id]; j != nil {
			c.refresh(j)
		}
	}
}

// enterReservation and leaveReservation keep the jobs of a reservation.
func (c *Cell) enterReservation(j *Job) {
	if r := c.reservations.find(uint32(j.Request.Reservation)); r != nil {
		r.jobs = sortedInsert(r.jobs, j.ID())
	}
}

func (c *Cell) leaveReservation(j *Job) {
	if r := c.reservations.find(uint32(j.Request.Reservation)); r != nil {
		r.jobs = sortedRemove(r.jobs, j.ID())
		c.forgetReservation(r)
	}
}

// reservationUsable reports whether a job may take part in scheduling as far as the
// reservation that it asks for goes. That its time has come, and that it is not in error,
// is looked at by the scheduler: such jobs have priorities (tested).
func (c *Cell) reservationUsable(j *Job) bool {
	id := uint32(j.Request.Reservation)
	if id == 0 {
		return true
	}
	r := c.reservations.find(id)
	return r != nil && !r.Deleted
}

// checkReservation checks that a user may use the reservation of -ar: its owner, or whom
// it names (qrsub(1), -u).
func (c *Cell) checkReservation(by Caller, j *Job) error {
	id := j.Request.Reservation
	if id == 0 {
		return nil
	}
	r := c.reservations.find(uint32(id))
	if r == nil || r.Deleted {
		return denied("the advance reservation id %d is invalid", id)
	}
	if len(r.Request.Users) == 0 && r.Owner == by.User {
		return nil
	}
	for _, u := range r.Request.Users {
		if name, isSet := strings.CutPrefix(u, "@"); isSet {
			if set, err := c.cluster.UserSet(name); err == nil && set.Contains(by.User, by.Group) {
				return nil
			}
		} else if u == by.User {
			return nil
		}
	}
	return denied("error: no suitable queues")
}

// unusable are the states of a queue instance in which a reservation cannot use it
// (qrsub(1), -he).
const unusable = scheduler.Unknown | scheduler.Failed | scheduler.DisabledByUser | scheduler.DisabledByCalendar | scheduler.Suspended

// statusChanged looks again at the reservations of a queue instance.
func (r *reservations) statusChanged(c *Cell, id scheduler.InstanceID) {
	for _, x := range r.list {
		if slices.ContainsFunc(x.sched.Grants, func(g scheduler.Grant) bool { return g.Instance == id }) {
			c.lookAtReservation(x)
		}
	}
}

// lookAtReservation finds out whether a reservation is broken.
func (c *Cell) lookAtReservation(r *Reservation) {
	broken := slices.ContainsFunc(r.sched.Grants, func(g scheduler.Grant) bool { return c.state.Status(g.Instance)&unusable != 0 })
	if broken == r.Broken {
		return
	}
	r.Broken, r.sched.Failed = broken, broken && r.Request.HardError
	c.refreshReservation(r)
}
