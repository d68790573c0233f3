package cell

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/submit"
)

// Reservations returns the advance reservations, by their numbers.
func (c *Cell) Reservations() []*Reservation { return slices.Clone(c.reservations.list) }

// Reserve executes qrsub(1): it grants an advance reservation, or refuses it with a *DeniedError.
func (c *Cell) Reserve(now int64, by Caller, r *submit.Reservation) (*Answer, error) {
	c.tick(now)
	if set, err := c.cluster.UserSet(qconf.ARUsers); !c.isManager(by.User) && (err != nil || !set.Contains(by.User, by.Group)) {
		return nil, denied(Event{Kind: NotReservationUser, User: by.User})
	}
	if limit := c.cluster.Global().MaxAdvanceReservations; limit > 0 && len(c.reservations.list) >= limit {
		return nil, denied(Event{Kind: TooManyReservations, Limit: int64(limit), Used: int64(len(c.reservations.list))})
	}
	x := &Reservation{Request: r, Owner: by.User, Group: by.Group, Submitted: now}
	if err := x.times(now, c.zone); err != nil {
		return nil, err
	}
	for _, u := range r.Users {
		if name, isSet := strings.CutPrefix(strings.TrimPrefix(u, "!"), "@"); isSet {
			if _, err := c.cluster.UserSet(name); err != nil {
				return nil, denied(Event{Kind: NoSuchUserSet, Name: name, Err: err})
			}
		}
	}
	if err := c.checkCheckpoint(r.Checkpoint); err != nil {
		return nil, err
	}
	category, err := c.model.Category(requestsOf(by, r))
	if err != nil {
		return nil, denied(Event{Kind: RequestRefused, Subject: NewReservation, Err: err})
	}
	x.ID = c.reservations.number()
	c.touchCounters()
	closed := c.closedFor(category, x)
	pe, grants, ok := c.state.FindReservation(category, x.Start, x.End, now)
	verify := r.Validation == submit.ValidateVerify
	if !ok {
		err := denied(Event{Kind: NoSuitableQueues, Subject: NewReservation, Validation: r.Validation})
		err.Report = closed
		return nil, err
	}
	a := &Answer{Events: closed}
	if verify {
		found := Event{Kind: QueuesFound}
		if category.Parallel() {
			found.Kind = SlotsFound
			for _, g := range grants {
				found.Number += int64(g.Slots)
			}
		}
		a.say(found)
		return c.done(a), nil
	}
	if err := c.admitReservation(x); err != nil {
		return nil, err
	}
	x.sched = &scheduler.Reservation{ID: x.ID, Start: x.Start, End: x.End, Category: category, PE: pe, Grants: grants}
	if err := c.state.AddReservation(x.sched); err != nil {
		return nil, err
	}
	c.reservations.add(x)
	c.timers.add(timer{at: x.Start, kind: reservationDue, id: x.ID})
	c.timers.add(timer{at: x.End, kind: reservationDue, id: x.ID})
	c.touchReservation(x.ID)
	c.lookAtReservation(x)
	a.ID = x.ID
	a.say(Event{Kind: ReservationGranted, Job: x.ID})
	return c.done(a), nil
}

// DeleteReservationsRequest is a qrdel(1) command.
type DeleteReservationsRequest struct {
	// References are numbers, names and patterns. They select reservations of all users (tested),
	// or with Users only those of these users. Users without References selects all their
	// reservations.
	References []string
	Users      []string // -u, with wildcards, which only operators may use
	Force      bool     // -f: without waiting for the execution hosts of jobs
}

// DeleteReservations executes qrdel(1). It deletes the jobs of a reservation first.
func (c *Cell) DeleteReservations(now int64, by Caller, q DeleteReservationsRequest) *Answer {
	c.tick(now)
	a := &Answer{}
	if slices.ContainsFunc(q.Users, func(u string) bool { return strings.ContainsAny(u, "*?[") }) && !c.isOperator(by.User) {
		a.deny(Event{Kind: AllReservationsNeedManager, User: by.User})
		return c.done(a)
	}
	owned := func(r *Reservation) bool {
		return len(q.Users) == 0 || slices.ContainsFunc(q.Users, func(u string) bool {
			return u == r.Owner || !expression.PlainPattern(u) && expression.CompilePattern(false, u).Match(r.Owner)
		})
	}
	if len(q.References) == 0 && len(q.Users) > 0 {
		found := c.reservations.which(owned)
		if len(found) == 0 {
			a.deny(Event{Kind: NoReservationsOfUsers, Names: q.Users})
		}
		c.deleteReservations(by, found, q.Force, a)
	}
	for _, ref := range q.References {
		found := slices.DeleteFunc(c.reservations.match(ref), func(r *Reservation) bool { return !owned(r) })
		if len(found) == 0 {
			a.deny(Event{Kind: NoSuchReservation, Name: ref})
		}
		c.deleteReservations(by, found, q.Force, a)
	}
	return c.done(a)
}

func (c *Cell) deleteReservations(by Caller, list []*Reservation, force bool, a *Answer) {
	for _, r := range list {
		if r.Owner != by.User && !c.isOperator(by.User) {
			a.deny(Event{Kind: MayNotDeleteReservation, User: by.User, Job: r.ID})
			continue
		}
		if force {
			c.dropJobs(r)
		}
		c.endReservation(r)
		if c.reservations.find(r.ID) != nil {
			a.say(Event{Kind: ReservationDeletionRegistered, User: by.User, Job: r.ID})
		} else {
			a.say(Event{Kind: ReservationDeleted, User: by.User, Job: r.ID})
		}
	}
}

// dropJobs deletes the jobs of a reservation as qdel -f does: they leave at once.
func (c *Cell) dropJobs(r *Reservation) {
	for _, id := range slices.Clone(r.jobs) {
		j := c.jobs[id]
		if j == nil {
			continue
		}
		for _, k := range c.remove(c.now, j, nil) {
			c.stop(k)
			c.drop(k)
			c.taskEnded(j, int(k.Number))
		}
		if c.jobs[id] == j && j.gone() {
			c.leave(c.now, j)
		}
	}
}

// reservationDue starts or ends a reservation when its time has come.
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
	c.touchReservation(r.ID)
	for _, id := range slices.Clone(r.jobs) {
		if j := c.jobs[id]; j != nil {
			c.remove(c.now, j, nil)
		}
	}
	c.forgetReservation(r)
}

// forgetReservation removes a reservation when the last of its jobs has left.
func (c *Cell) forgetReservation(r *Reservation) {
	if r.Deleted && len(r.jobs) == 0 {
		c.keep(r.Owner, &r.kept, 0)
		c.state.RemoveReservation(r.sched)
		c.touchReservation(r.ID)
		c.leftBehind(r.sched.Grants)
		c.reservations.remove(r)
	}
}

func (c *Cell) refreshReservation(r *Reservation) {
	for _, id := range r.jobs {
		if j := c.jobs[id]; j != nil {
			c.refresh(j)
		}
	}
}

// checkReservation checks that a user may use the reservation of -ar: the owner and the users of -u
// may (qrsub(1)).
func (c *Cell) checkReservation(by Caller, j *Job) error {
	id := j.asked.Reservation
	if id == 0 {
		return nil
	}
	r := c.reservations.find(uint32(id))
	if r == nil || r.Deleted {
		return denied(Event{Kind: ReservationInvalid, Number: int64(id)})
	}
	if !c.invited(r, by) {
		return denied(Event{Kind: NoSuitableQueues, Validation: submit.ValidateError})
	}
	return nil
}

// invited reports whether a user may submit jobs to a reservation: the owner, or with -u the users
// that it names. If -u only excludes users, all others may (tested).
func (c *Cell) invited(r *Reservation, by Caller) bool {
	if len(r.Request.Users) == 0 {
		return r.Owner == by.User
	}
	is := func(u string) bool {
		name, isSet := strings.CutPrefix(u, "@")
		if !isSet {
			return u == by.User
		}
		set, err := c.cluster.UserSet(name)
		return err == nil && set.Contains(by.User, by.Group)
	}
	named, included := false, false
	for _, u := range r.Request.Users {
		rest, excluded := strings.CutPrefix(u, "!")
		if excluded && is(rest) {
			return false
		}
		if !excluded {
			named, included = true, included || is(u)
		}
	}
	return included || !named
}

// lookAtReservation determines whether a reservation is broken.
func (c *Cell) lookAtReservation(r *Reservation) {
	broken := r.broken(c.state)
	if broken == r.Broken {
		return
	}
	r.Broken, r.sched.Failed = broken, broken && r.Request.HardError
	c.refreshReservation(r)
}

// lookAtReservationsOf determines whether the reservations of a queue instance are broken, after a
// change of its state.
func (c *Cell) lookAtReservationsOf(id scheduler.InstanceID) {
	for _, r := range c.reservations.with(id) {
		c.lookAtReservation(r)
	}
}

// leaveReservation removes a job from its reservation. The reservation leaves with the last of its
// jobs if it was deleted.
func (c *Cell) leaveReservation(j *Job) {
	if r := c.reservations.leave(j); r != nil {
		c.forgetReservation(r)
	}
}
