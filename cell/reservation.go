package cell

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/cell/requests"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/submit"
)

// Reservation is a granted advance reservation (qrsub(1)). Callers must not change it.
type Reservation struct {
	ID           uint32
	Request      *submit.Reservation
	Owner, Group string
	Submitted    int64
	Start, End   int64
	// Deleted is set if the reservation's time has ended, or it was deleted, while it still has
	// jobs.
	Deleted bool
	// Broken is set while one of its queue instances cannot be used.
	Broken bool

	sched *scheduler.Reservation
	jobs  []uint32 // that request it, ascending
	kept  int64    // size of the record in bytes
}

// Scheduled returns the scheduler's object of the reservation.
func (r *Reservation) Scheduled() *scheduler.Reservation { return r.sched }

// State returns the letter of qrstat(1): waiting, running, a warning while it waits or an error
// while it runs, or deleted.
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

// times determines the start and the end of a reservation (qrsub(1), -a, -d, -e).
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
		return denied(Event{Kind: NoDuration})
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
		return denied(Event{Kind: DurationDiffers})
	case r.End <= r.Start:
		return denied(Event{Kind: EndBeforeStart})
	case r.Start < now:
		return denied(Event{Kind: StartInPast})
	}
	return nil
}

func requestsOf(by Caller, r *submit.Reservation) *scheduler.Requests {
	q := &scheduler.Requests{
		User: by.User, Group: by.Group, Checkpoint: r.Checkpoint, Immediate: r.Immediate,
		Queues: strings.Join(r.Queues, ","), MasterQueues: strings.Join(r.MasterQueues, ","),
	}
	for _, u := range r.Users {
		if !strings.HasPrefix(u, "!") {
			q.Audience = append(q.Audience, u)
		}
	}
	for _, l := range r.Resources {
		q.Hard = append(q.Hard, qconf.Setting{Name: l.Name, Value: l.Value})
	}
	if r.PE != nil {
		q.PE, q.Slots = r.PE.Name, requests.Slots(r.PE.Ranges)
	}
	return q
}

// unusable are the states of a queue instance in which a reservation cannot use it (qrsub(1), -he).
const unusable = scheduler.Unknown | scheduler.Failed | scheduler.DisabledByUser | scheduler.DisabledByCalendar | scheduler.Suspended

// broken reports whether one of the reservation's queue instances cannot be used.
func (r *Reservation) broken(state *scheduler.State) bool {
	return slices.ContainsFunc(r.sched.Grants, func(g scheduler.Grant) bool { return state.Status(g.Instance)&unusable != 0 })
}

// reservations holds the advance reservations of a cell, with their jobs.
type reservations struct {
	last uint32         // the last number
	list []*Reservation // by number
}

func (r *reservations) find(id uint32) *Reservation {
	if i, ok := slices.BinarySearchFunc(r.list, id, func(x *Reservation, id uint32) int { return cmp.Compare(x.ID, id) }); ok {
		return r.list[i]
	}
	return nil
}

// number returns the number of the next reservation. A refused request uses one as well.
func (r *reservations) number() uint32 {
	r.last++
	return r.last
}

func (r *reservations) add(x *Reservation) { r.list = append(r.list, x) }

func (r *reservations) remove(x *Reservation) {
	r.list = slices.DeleteFunc(r.list, func(y *Reservation) bool { return x == y })
}

// match returns the reservations that match a reference: a number, or a pattern of names.
func (r *reservations) match(reference string) []*Reservation {
	if id, ok := jobNumber(reference); ok {
		if x := r.find(id); x != nil {
			return []*Reservation{x}
		}
		return nil
	}
	pattern := expression.CompilePattern(false, reference).ForMany()
	return r.which(func(x *Reservation) bool { return x.Request.Name != "" && pattern.Match(x.Request.Name) })
}

// which returns the reservations with a property.
func (r *reservations) which(is func(*Reservation) bool) []*Reservation {
	var list []*Reservation
	for _, x := range r.list {
		if is(x) {
			list = append(list, x)
		}
	}
	return list
}

// with returns the reservations that have slots of a queue instance.
func (r *reservations) with(id scheduler.InstanceID) []*Reservation {
	return r.which(func(x *Reservation) bool {
		return slices.ContainsFunc(x.sched.Grants, func(g scheduler.Grant) bool { return g.Instance == id })
	})
}

// enter adds a job to the reservation that it requests, if there is one.
func (r *reservations) enter(j *Job) {
	if x := r.find(uint32(j.asked.Reservation)); x != nil {
		x.jobs = sortedInsert(x.jobs, j.ID())
	}
}

// leave removes a job from the reservation that it requests, and returns the reservation; nil if
// there is none.
func (r *reservations) leave(j *Job) *Reservation {
	x := r.find(uint32(j.asked.Reservation))
	if x != nil {
		x.jobs = sortedRemove(x.jobs, j.ID())
	}
	return x
}

// usable reports whether the reservation of a job allows the job to take part in scheduling. The
// scheduler itself checks the reservation's time and error state: such jobs have priorities
// (tested).
func (r *reservations) usable(j *Job) bool {
	id := uint32(j.asked.Reservation)
	if id == 0 {
		return true
	}
	x := r.find(id)
	return x != nil && !x.Deleted
}

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

// checkTimeInReservation checks that the requested time limit of a submitted job fits into its reservation.
func (c *Cell) checkTimeInReservation(j *Job) error {
	r := c.reservations.find(uint32(j.asked.Reservation))
	limit, requested := requestedLimit(j.asked)
	switch {
	case r == nil || !requested:
		return nil
	case limit > uint64(r.End-r.Start):
		return denied(Event{Kind: LongerThanReservation, Number: int64(r.ID)})
	case max(c.now, j.Start, r.Start)+int64(limit) > r.End:
		return denied(Event{Kind: BeyondReservation, Number: int64(r.ID)})
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
