package cell

import (
	"fmt"
	"slices"
	"time"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/calendar"
	"github.com/execd-project/execd/scheduler/diagram"
)

// calendarState is the current state of a calendar of queue instances.
type calendarState struct {
	name      string
	calendar  *calendar.Calendar
	instances []scheduler.InstanceID
	state     calendar.State
	turns     bool  // its state will change again
	next      int64 // time of the next change
	// closing is the time at which the calendar next closes the instances, or closed them if they
	// are closed. closed is the end of that period.
	closing, closed int64
}

// compileCalendars reads the calendars of all instances and applies their states.
func (w *world) compileCalendars(now int64, zone *time.Location) {
	byName := map[string]*calendarState{}
	for i := range w.instances {
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

// look finds the state at a time, and the time of its next change.
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

// reopening returns when a calendar that is closed at t opens again.
func (cal *calendarState) reopening(t time.Time, zone *time.Location) int64 {
	// Some calendars alternately suspend and disable, and never open.
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

// closes reports whether it suspends or disables its instances at any time between from and until.
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

// closedFor returns the first events of qrsub(1)'s answer: queue instances that the reservation
// could use but that a calendar closes during its time (tested).
func (c *Cell) closedFor(category *scheduler.Category, r *Reservation) []Event {
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
	var events []Event
	for _, id := range closed {
		events = append(events, Event{Kind: QueueClosed, Name: c.model.InstanceName(id)})
	}
	return events
}

// tell gives a scheduler the state of the instances, and the time when they close.
func (cal *calendarState) tell(state *scheduler.State, id scheduler.InstanceID) {
	state.SetClosing(id, cal.closing, cal.closed)
}

const byCalendar = scheduler.DisabledByCalendar | scheduler.SuspendedByCalendar

// status returns the state that the calendar gives its instances (queue_conf(5), calendar).
func (cal *calendarState) status() scheduler.Status {
	switch cal.state {
	case calendar.Off:
		return scheduler.DisabledByCalendar
	case calendar.Suspended:
		return scheduler.SuspendedByCalendar
	}
	return 0
}

// turnCalendars updates the calendars whose state has changed.
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

// Opens returns when a queue instance that is closed by its calendar opens again. ok is false if
// the calendar does not close the instance, or never opens it.
func (c *Cell) Opens(id scheduler.InstanceID) (at int64, ok bool) {
	for _, cal := range c.calendars {
		if slices.Contains(cal.instances, id) {
			return cal.closed, cal.state != calendar.On && cal.closed < diagram.Forever
		}
	}
	return 0, false
}
