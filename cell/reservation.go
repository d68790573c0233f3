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
	pattern := expression.CompilePattern(false, reference)
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
