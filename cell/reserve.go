package cell

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/cell/requests"
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
	// Deleted is set when the reservation's time has ended, or it was deleted, while jobs of it are
	// left.
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

// reservations are the advance reservations of the cell.
type reservations struct {
	last uint32
	list []*Reservation // by number
}

func (r *reservations) find(id uint32) *Reservation {
	if i, ok := slices.BinarySearchFunc(r.list, id, func(x *Reservation, id uint32) int { return cmp.Compare(x.ID, id) }); ok {
		return r.list[i]
	}
	return nil
}

// Reservations returns the advance reservations, by their numbers.
func (c *Cell) Reservations() []*Reservation { return slices.Clone(c.reservations.list) }

// Reserve executes qrsub(1): it grants an advance reservation, or refuses it with a *DeniedError.
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
	for _, u := range r.Users {
		if name, isSet := strings.CutPrefix(strings.TrimPrefix(u, "!"), "@"); isSet {
			if _, err := c.cluster.UserSet(name); err != nil {
				return nil, &DeniedError{Text: "Userset \"" + name + "\" does not exist", Err: err}
			}
		}
	}
	if err := c.checkCheckpoint(r.Checkpoint); err != nil {
		return nil, err
	}
	category, err := c.model.Category(requestsOf(by, r))
	if err != nil {
		err := requestDenied(err)
		if d, ok := errors.AsType[*DeniedError](err); ok && strings.HasPrefix(d.Text, `"job" denied`) {
			d.Text = `"advance_reservation"` + strings.TrimPrefix(d.Text, `"job"`)
		}
		return nil, err
	}
	c.reservations.last++ // a refused request uses the number as well
	c.touchCounters()
	closed := c.closedFor(category, x)
	pe, grants, ok := c.state.FindReservation(category, x.Start, x.End, now)
	verify := r.Validation == submit.ValidateVerify
	if !ok {
		err := denied("advance_reservation: no suitable queues")
		if verify {
			err = denied("verification: no suitable queues")
		}
		err.Report = closed
		return nil, err
	}
	a := &Answer{}
	for _, text := range closed {
		a.say("%s", text)
	}
	if verify {
		text := "verification: found suitable queue(s)"
		if category.Parallel() {
			slots := 0
			for _, g := range grants {
				slots += g.Slots
			}
			text = fmt.Sprintf("verification: found possible assignment with %d slots", slots)
		}
		a.say("%s", text)
		return c.done(a), nil
	}
	if err := c.admitReservation(x); err != nil {
		return nil, err
	}
	x.ID = c.reservations.last
	x.sched = &scheduler.Reservation{ID: x.ID, Start: x.Start, End: x.End, Category: category, PE: pe, Grants: grants}
	if err := c.state.AddReservation(x.sched); err != nil {
		return nil, err
	}
	c.reservations.list = append(c.reservations.list, x)
	c.timers.add(timer{at: x.Start, kind: reservationDue, id: x.ID})
	c.timers.add(timer{at: x.End, kind: reservationDue, id: x.ID})
	c.touchReservation(x.ID)
	c.lookAtReservation(x)
	a.ID = x.ID
	a.say("Your advance reservation %d has been granted", x.ID)
	return c.done(a), nil
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
		return denied("missing value for \"end time or duration\" in advance reservation request")
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
		a.deny("denied: %q must be manager to modify all advance reservations", by.User)
		return c.done(a)
	}
	owned := func(r *Reservation) bool {
		return len(q.Users) == 0 || slices.ContainsFunc(q.Users, func(u string) bool {
			return u == r.Owner || !expression.PlainPattern(u) && expression.CompilePattern(false, u).Match(r.Owner)
		})
	}
	if len(q.References) == 0 && len(q.Users) > 0 {
		found := slices.DeleteFunc(slices.Clone(c.reservations.list), func(r *Reservation) bool { return !owned(r) })
		if len(found) == 0 {
			a.deny("There is no advance_reservation registered for the following users: %s", strings.Join(q.Users, ", "))
		}
		c.deleteReservations(by, found, q.Force, a)
	}
	for _, ref := range q.References {
		found := slices.DeleteFunc(c.matchReservations(ref), func(r *Reservation) bool { return !owned(r) })
		if len(found) == 0 {
			a.deny("denied: advance_reservation %q does not exist", ref)
		}
		c.deleteReservations(by, found, q.Force, a)
	}
	return c.done(a)
}

func (c *Cell) deleteReservations(by Caller, list []*Reservation, force bool, a *Answer) {
	for _, r := range list {
		if r.Owner != by.User && !c.isOperator(by.User) {
			a.deny("%s - you do not have the necessary privileges to delete the advance_reservation \"%d\"", by.User, r.ID)
			continue
		}
		if force {
			c.dropJobs(r)
		}
		c.endReservation(r)
		if c.reservations.find(r.ID) != nil {
			a.say("%s has registered the advance_reservation %d for deletion", by.User, r.ID)
		} else {
			a.say("%s has deleted advance_reservation %d", by.User, r.ID)
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

func (c *Cell) matchReservations(reference string) []*Reservation {
	if id, ok := jobNumber(reference); ok {
		if r := c.reservations.find(id); r != nil {
			return []*Reservation{r}
		}
		return nil
	}
	pattern := expression.CompilePattern(false, reference)
	var list []*Reservation
	for _, r := range c.reservations.list {
		if r.Request.Name != "" && pattern.Match(r.Request.Name) {
			list = append(list, r)
		}
	}
	return list
}

// reservationDue starts or ends a reservation at its time.
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

// enterReservation and leaveReservation maintain the list of a reservation's jobs.
func (c *Cell) enterReservation(j *Job) {
	if r := c.reservations.find(uint32(j.asked.Reservation)); r != nil {
		r.jobs = sortedInsert(r.jobs, j.ID())
	}
}

func (c *Cell) leaveReservation(j *Job) {
	if r := c.reservations.find(uint32(j.asked.Reservation)); r != nil {
		r.jobs = sortedRemove(r.jobs, j.ID())
		c.forgetReservation(r)
	}
}

// reservationUsable reports whether the reservation of a job allows the job to take part in
// scheduling. The scheduler itself checks the reservation's time and error state: such jobs have
// priorities (tested).
func (c *Cell) reservationUsable(j *Job) bool {
	id := uint32(j.asked.Reservation)
	if id == 0 {
		return true
	}
	r := c.reservations.find(id)
	return r != nil && !r.Deleted
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
		return denied("the advance reservation id %d is invalid", id)
	}
	if !c.invited(r, by) {
		return denied("error: no suitable queues")
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

// unusable are the states of a queue instance in which a reservation cannot use it (qrsub(1), -he).
const unusable = scheduler.Unknown | scheduler.Failed | scheduler.DisabledByUser | scheduler.DisabledByCalendar | scheduler.Suspended

// statusChanged checks the reservations of a queue instance after a change of its state.
func (r *reservations) statusChanged(c *Cell, id scheduler.InstanceID) {
	for _, x := range r.list {
		if slices.ContainsFunc(x.sched.Grants, func(g scheduler.Grant) bool { return g.Instance == id }) {
			c.lookAtReservation(x)
		}
	}
}

// lookAtReservation determines whether a reservation is broken.
func (c *Cell) lookAtReservation(r *Reservation) {
	broken := slices.ContainsFunc(r.sched.Grants, func(g scheduler.Grant) bool { return c.state.Status(g.Instance)&unusable != 0 })
	if broken == r.Broken {
		return
	}
	r.Broken, r.sched.Failed = broken, broken && r.Request.HardError
	c.refreshReservation(r)
}
