package cell

import (
	"fmt"
	"slices"
	"time"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/calendar"
	"github.com/execd-project/execd/scheduler/diagram"
)

// calendarState is a calendar that queue instances have, and the state that it is in.
type calendarState struct {
	name      string
	calendar  *calendar.Calendar
	instances []scheduler.InstanceID
	state     calendar.State
	turns     bool  // it changes again
	next      int64 // when
	// closing is when it closes the instances next, or since when it does, and closed until
	// when.
	closing, closed int64
}

// compileCalendars reads the calendars of all instances, and puts these into their states.
func (w *world) compileCalendars(now int64, zone *time.Location) {
	byName := map[string]*calendarState{}
	for i := range w.places {
		id := scheduler.InstanceID(i)
		name := w.model.Settings(id).Calendar
		if name == "" {
			continue
		}
		cal := byName[name]
		if cal == nil {
			cal = &calendarState{name: name}
			byName[name] = cal
			w.calendars = append(w.calendars, cal)
			object, err := w.cluster.Calendar(name)
			if err == nil {
				cal.calendar, err = calendar.Parse(object.Year, object.Week)
			}
			if err != nil {
				w.problems = append(w.problems, fmt.Errorf("calendar %q: %w", name, err))
			}
		}
		cal.instances = append(cal.instances, id)
	}
	for _, cal := range w.calendars {
		cal.look(now, zone)
		for _, id := range cal.instances {
			w.state.SetStatus(id, w.state.Status(id)|cal.status())
			cal.tell(w.state, id)
		}
	}
}

// look finds the state at a time, and when it changes next.
func (cal *calendarState) look(now int64, zone *time.Location) {
	t := time.Unix(now, 0)
	cal.state = cal.calendar.State(t, zone)
	at, _, ok := cal.calendar.Next(t, zone)
	cal.turns, cal.next = ok, at.Unix()
	cal.closing, cal.closed = 0, 0
	switch {
	case cal.state != calendar.On && ok:
		cal.closing, cal.closed = now, cal.reopening(at, zone)
	case cal.state != calendar.On:
		cal.closing, cal.closed = now, diagram.Forever
	case ok:
		cal.closing, cal.closed = cal.next, cal.reopening(at, zone)
	}
}

// reopening returns when a calendar opens again that does not at a time.
func (cal *calendarState) reopening(t time.Time, zone *time.Location) int64 {
	// Some calendars suspend and disable in turn, and never open.
	for range 60 {
		if cal.calendar.State(t, zone) == calendar.On {
			return t.Unix()
		}
		next, _, ok := cal.calendar.Next(t, zone)
		if !ok {
			break
		}
		t = next
	}
	return diagram.Forever
}

// closes reports whether it suspends or disables its instances at some time of a span.
func (cal *calendarState) closes(from, until int64, zone *time.Location) bool {
	t := time.Unix(from, 0)
	for range 60 {
		if cal.calendar.State(t, zone) != calendar.On {
			return true
		}
		next, _, ok := cal.calendar.Next(t, zone)
		if !ok || next.Unix() >= until {
			return false
		}
		t = next
	}
	return false
}

// closedFor returns what qrsub(1) says, before all else, of the queue instances that a
// reservation may be looked for in and that a calendar closes meanwhile (tested).
func (c *Cell) closedFor(category *scheduler.Category, r *Reservation) []string {
	var closed []scheduler.InstanceID
	for _, cal := range c.calendars {
		if !cal.closes(r.Start, r.End, c.zone) {
			continue
		}
		for _, id := range cal.instances {
			if c.state.Considered(category, id) {
				closed = append(closed, id)
			}
		}
	}
	slices.Sort(closed)
	var texts []string
	for _, id := range closed {
		texts = append(texts, fmt.Sprintf("queue %q is calendar disabled in selected time frame", c.model.InstanceName(id)))
	}
	return texts
}

// tell tells a scheduler the state of the instances, and when they close.
func (cal *calendarState) tell(state *scheduler.State, id scheduler.InstanceID) {
	state.SetClosing(id, cal.closing, cal.closed)
}

const byCalendar = scheduler.DisabledByCalendar | scheduler.SuspendedByCalendar

// status returns what the calendar does to its instances (queue_conf(5), calendar).
func (cal *calendarState) status() scheduler.Status {
	switch cal.state {
	case calendar.Off:
		return scheduler.DisabledByCalendar
	case calendar.Suspended:
		return scheduler.SuspendedByCalendar
	}
	return 0
}

// turnCalendars looks at the calendars that have turned.
func (c *Cell) turnCalendars(now int64) {
	for _, cal := range c.calendars {
		if !cal.turns || cal.next > now {
			continue
		}
		cal.look(now, c.zone)
		for _, id := range cal.instances {
			cal.tell(c.state, id)
			c.setStatus(id, c.state.Status(id)&^byCalendar|cal.status())
		}
	}
}

// Opens returns when a queue instance that its calendar keeps closed opens again. ok is false
// for one that it does not close, or never opens.
func (c *Cell) Opens(id scheduler.InstanceID) (at int64, ok bool) {
	for _, cal := range c.calendars {
		if slices.Contains(cal.instances, id) {
			return cal.closed, cal.state != calendar.On && cal.closed < diagram.Forever
		}
	}
	return 0, false
}
