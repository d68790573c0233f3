package scheduler

import (
	"fmt"
	"math"

	"github.com/execd-project/execd/scheduler/value"
)

// booking is how much of a consumable is in use at a place.
type booking struct {
	amount value.Amount
	// others are the slots of jobs that do not ask for an exclusive attribute. The
	// amount counts those that do.
	others int32
}

// bookings is what is in use, by layer and attribute, then by place. Lists are made
// when the first job uses something.
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

// at is the booking of an attribute at a place, to be read.
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

// of is the booking of an attribute at a place, to be changed.
func (b *bookings) of(p Place, a AttributeID) *booking {
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

// layerAt is what is configured at a place.
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

// use is what a job takes of a consumable at a place.
type use struct {
	attribute AttributeID
	each      float64
	perJob    bool // once, from the master's place
	exclusive bool
	others    bool // of an exclusive attribute: the job does not ask for it
}

// uses calls each for what a job takes of the consumables that are configured at a
// place: the requested amount or else the default one (complex(5), consumable). Slots
// are a consumable that every job takes one of for each of its slots.
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
		u := use{attribute: id, perJob: a.perJob(), exclusive: a.exclusive()}
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

// book books or takes back a task for good: its instances have been modified.
func (s *State) book(r *Running, sign int) error {
	if err := s.bookTask(r, sign); err != nil {
		return err
	}
	for _, g := range r.Grants {
		s.touch(g.Instance)
	}
	return nil
}

// bookTask adds (sign 1) or takes away (-1) what a task uses everywhere. A task in an
// advance reservation uses what the reservation has booked already.
func (s *State) bookTask(r *Running, sign int) error {
	if err := s.bookAmounts(r, sign); err != nil {
		return err
	}
	s.bookThings(r.Grants, sign)
	s.bookCores(r.Grants, sign)
	return nil
}

func (s *State) bookAmounts(r *Running, sign int) error {
	if id := r.Job.Category.requests.Reservation; id != 0 {
		if ar := s.reservation(id); ar != nil {
			return s.bookInReservation(ar, r.Job.Category, r.Grants, sign)
		}
	}
	done, err := s.bookGrants(r.Job.Category, r.Grants, sign, math.MaxInt)
	if err == nil {
		err = s.quotas.book(r.Job.Category, r.PE, r.Grants, sign)
	}
	if err != nil {
		// What could be added can be taken away.
		_, _ = s.bookGrants(r.Job.Category, r.Grants, -sign, done)
		return fmt.Errorf("task %d.%d: %w", r.Job.ID, r.Task, err)
	}
	if r.PE != None {
		s.peUsed[r.PE] += sign * r.Slots()
	}
	return nil
}

// bookGrants books consumables, so many of them at the most. It returns how many it has
// booked.
func (s *State) bookGrants(c *Category, grants []Grant, sign, most int) (done int, err error) {
	total := 0
	for i, g := range grants {
		total += g.Slots
		for _, p := range [...]Place{AtInstance(g.Instance), AtHost(s.model.instances[g.Instance].host)} {
			if err := s.bookAt(c, p, g.Slots, i == 0, sign, most, &done); err != nil {
				return done, err
			}
		}
	}
	return done, s.bookAt(c, AtGlobal(), total, true, sign, most, &done)
}

func (s *State) bookAt(c *Category, p Place, slots int, master bool, sign, most int, done *int) error {
	return c.uses(p, func(u use) error {
		n := slots
		if u.perJob {
			if !master {
				return nil
			}
			n = 1
		}
		if *done == most {
			return nil
		}
		b := s.used.of(p, u.attribute)
		if u.others {
			b.others += int32(sign * n)
		} else if err := b.amount.Add(sign*n, u.each); err != nil {
			return fmt.Errorf("%s: %w", s.model.attributes[u.attribute].Name, err)
		}
		*done++
		return nil
	})
}

// UsedSlots is the number of slots of a queue instance that are in use.
func (s *State) UsedSlots(id InstanceID) int {
	if s.model.slots == None {
		return 0
	}
	return int(s.used.at(AtInstance(id), s.model.slots).amount.Float())
}
