package scheduler

import (
	"fmt"
	"iter"
	"math"

	"github.com/execd-project/execd/scheduler/value"
)

// booking is the amount of a consumable that is in use at a place.
type booking struct {
	amount value.Amount
	// others is the number of slots of jobs that do not request an exclusive attribute. amount
	// counts the jobs that do.
	others int32
}

// bookings holds the usage by layer and attribute, then by place. Lists are allocated when the
// first job uses a resource.
type bookings struct {
	model  *Model
	global []booking
	hosts  [][]booking
	queues [][]booking
}

func (b *bookings) init(m *Model) {
	b.model = m
	n := len(m.attributes)
	b.global, b.hosts, b.queues = make([]booking, n), make([][]booking, n), make([][]booking, n)
}

// at returns the booking of an attribute at a place. The caller must not change it.
func (b *bookings) at(p Place, a AttributeID) booking {
	switch p.layer {
	case atGlobal:
		return b.global[a]
	case atHost:
		if b.hosts[a] != nil {
			return b.hosts[a][p.index]
		}
	default:
		if b.queues[a] != nil {
			return b.queues[a][p.index]
		}
	}
	return booking{}
}

// mutable returns the booking of an attribute at a place for a change.
func (b *bookings) mutable(p Place, a AttributeID) *booking {
	switch p.layer {
	case atGlobal:
		return &b.global[a]
	case atHost:
		if b.hosts[a] == nil {
			b.hosts[a] = make([]booking, len(b.model.hosts))
		}
		return &b.hosts[a][p.index]
	default:
		if b.queues[a] == nil {
			b.queues[a] = make([]booking, len(b.model.instances))
		}
		return &b.queues[a][p.index]
	}
}

// layerAt returns the configuration of a place.
func (m *Model) layerAt(p Place) *layer {
	switch p.layer {
	case atGlobal:
		return &m.global.layer
	case atHost:
		return &m.hosts[p.index].layer
	default:
		return &m.instances[p.index].layer
	}
}

// use is the amount of a consumable that a job takes at a place.
type use struct {
	attribute AttributeID
	each      float64
	perJob    bool // once, at the place of the master task
	perHost   bool // once for each host
	exclusive bool
	others    bool // for an exclusive attribute: the job does not request it
}

// portion is the part of a task's grants at one place.
type portion struct {
	grant  int // index of the first one
	slots  int
	hosts  int // hosts that this grant adds: 0 for a further instance on the same host
	master bool
}

// times returns the factor by which a task multiplies the amount of a use: its slots, its hosts, or
// 1 at the master task's place.
func (u *use) times(p portion) int {
	switch {
	case !u.perJob && !u.perHost:
		return p.slots
	case u.perHost:
		return p.hosts
	case p.master:
		return 1
	}
	return 0
}

// portions yields the places where a task uses resources: the instance and its host for each grant,
// and at the end the cluster.
func (m *Model) portions(grants []Grant, away Away) iter.Seq2[Place, portion] {
	return func(yield func(Place, portion) bool) {
		all := portion{master: true, slots: away.Slots}
		for i := range grants {
			host := m.instances[grants[i].Instance].host
			part := portion{grant: i, slots: grants[i].Slots, hosts: 1, master: i == 0 && !away.Master}
			if !yield(AtInstance(grants[i].Instance), part) {
				return
			}
			for k := range i {
				if m.instances[grants[k].Instance].host == host {
					part.hosts = 0
					break
				}
			}
			if !yield(AtHost(host), part) {
				return
			}
			all.slots += part.slots
			all.hosts += part.hosts
		}
		yield(AtGlobal(), all)
	}
}

// uses calls each for the amount that a job takes of each consumable configured at a place: the
// requested amount, or else the default (complex(5), consumable). Each job takes one of the
// consumable slots for each of its slots.
func (c *Category) uses(p Place, each func(use) error) error {
	m := c.model
	l := m.layerAt(p)
	if p.layer == atQueue && m.slots != None {
		if err := each(use{attribute: m.slots, each: 1}); err != nil {
			return err
		}
	}
	for i := range l.settings {
		id := l.settings[i].attribute
		a := &m.attributes[id]
		if !a.consumable() || id == m.slots && p.layer == atQueue {
			continue
		}
		u := use{attribute: id, perJob: a.perJob(), perHost: a.perHost(), exclusive: a.exclusive()}
		switch r := c.hardRequest(id); {
		case id == m.slots:
			u.each = 1
		case u.exclusive:
			if u.others = r == nil || r.amount == 0; !u.others {
				u.each = 1
			}
		case r != nil:
			u.each = r.amount
		default:
			u.each = a.Default.Number()
		}
		if u.each == 0 && !u.others {
			continue
		}
		if err := each(u); err != nil {
			return err
		}
	}
	return nil
}

// book books or releases a task and marks its instances and its parallel environment as modified.
func (s *State) book(r *Running, sign int) error {
	if err := s.bookTask(r, sign); err != nil {
		return err
	}
	for _, g := range r.Grants {
		s.touch(g.Instance)
	}
	if r.PE != None {
		s.order++
		s.peOrder[r.PE] = s.order
	}
	return nil
}

// bookTask adds (sign 1) or removes (-1) the usage of a task everywhere. A task in an advance
// reservation uses resources that the reservation has already booked.
func (s *State) bookTask(r *Running, sign int) error {
	if err := s.bookAmounts(r, sign); err != nil {
		return err
	}
	s.bookElements(r.Grants, sign)
	s.bookCores(r.Grants, sign)
	return nil
}

func (s *State) bookAmounts(r *Running, sign int) error {
	if id := r.Job.Category.requests.Reservation; id != 0 {
		if ar := s.reservation(id); ar != nil {
			return s.bookInReservation(ar, r.Job.Category, r.Grants, sign)
		}
	}
	done, err := s.bookGrants(r, sign, math.MaxInt)
	// Quotas apply neither to a reservation nor to tasks in one (sge_resource_quota(5)).
	if err == nil && r.Job.Category.requests.Reservation == 0 {
		err = s.quotas.book(r, sign)
	}
	if err != nil {
		// Removing amounts that were just added cannot fail.
		_, _ = s.bookGrants(r, -sign, done)
		return fmt.Errorf("task %d.%d: %w", r.Job.ID, r.Task, err)
	}
	if r.PE != None {
		s.peUsed[r.PE] += sign * (r.Slots() + r.Away.Slots)
	}
	return nil
}

// bookGrants books at most this many consumables. It returns the number of booked ones.
func (s *State) bookGrants(r *Running, sign, most int) (done int, err error) {
	for p, part := range s.model.portions(r.Grants, r.Away) {
		if err := s.bookAt(r.Job.Category, p, part, &r.Grants[part.grant], sign, most, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (s *State) bookAt(c *Category, p Place, part portion, g *Grant, sign, most int, done *int) error {
	return c.uses(p, func(u use) error {
		n := u.times(part)
		if n == 0 || *done == most {
			return nil
		}
		b := s.used.mutable(p, u.attribute)
		if u.others {
			b.others += int32(sign * n)
		} else if n, each := s.model.counted(g, p, &u, n); n > 0 {
			if err := b.amount.Add(sign*n, each); err != nil {
				return fmt.Errorf("%s: %w", s.model.attributes[u.attribute].Name, err)
			}
		}
		*done++
		return nil
	})
}

// UsedSlots returns the number of slots of a queue instance that are in use.
func (s *State) UsedSlots(id InstanceID) int {
	if s.model.slots == None {
		return 0
	}
	return int(s.used.at(AtInstance(id), s.model.slots).amount.Float())
}
