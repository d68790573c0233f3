package calendar

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// State is the effect of a calendar on a queue.
type State uint8

// The states of calendar_conf(5).
const (
	On        State = iota
	Off             // disabled: no job starts, running jobs continue
	Suspended       // no job starts, running jobs are suspended
)

// String returns the keyword of the state.
func (s State) String() string {
	switch s {
	case Off:
		return "off"
	case Suspended:
		return "suspended"
	}
	return "on"
}

// Calendar says in which state a queue is when. A nil one is always On.
type Calendar struct {
	yearText, weekText string
	year, week         []entry
	points             []int // seconds of a day at which the state may change, ascending, the first is 0
	turns              []int // days at which the entries of the year that matter may change, ascending
}

const daySeconds = 24 * 3600

// entry is one of the entries of a year or week; their order does not matter.
type entry struct {
	days     []span // days since 1970; of a year, nil for all
	weekdays uint8  // 1<<time.Weekday; of a week
	times    []span // seconds of the day
	state    State
}

// span is a range with both ends.
type span struct{ first, last int }

func (s span) has(v int) bool { return s.first <= v && v <= s.last }

func anyHas(spans []span, v int) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.has(v) })
}

// Parse reads the attributes year and week of a calendar (calendar_conf(5), FORMAT).
// An empty one is NONE.
func Parse(year, week string) (*Calendar, error) {
	c := &Calendar{yearText: normalize(year), weekText: normalize(week)}
	var err error
	if c.year, err = parseEntries("year", c.yearText, parseYearDays); err != nil {
		return nil, err
	}
	if c.week, err = parseEntries("week", c.weekText, parseWeekdays); err != nil {
		return nil, err
	}
	c.points = []int{0}
	for _, e := range slices.Concat(c.year, c.week) {
		for _, t := range e.times {
			// Ends belong to their ranges, to the second.
			c.points = append(c.points, t.first, t.last+1)
		}
		for _, d := range e.days {
			c.turns = append(c.turns, d.first, d.last+1)
		}
	}
	c.points = sorted(slices.DeleteFunc(c.points, func(p int) bool { return p >= daySeconds }))
	c.turns = sorted(c.turns)
	return c, nil
}

func normalize(text string) string {
	return cmp.Or(strings.Join(strings.Fields(text), " "), "NONE")
}

func sorted(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// Year returns the attribute year as it was written, with single blanks, as qconf prints it.
func (c *Calendar) Year() string { return c.yearText }

// Week returns the attribute week as it was written, with single blanks.
func (c *Calendar) Week() string { return c.weekText }

// State returns the state at a time, which is looked up in a time zone.
//
// Entries of the year that contain the time decide; if there is none, entries of the week that
// contain it; if there is none either, it is On. Of several, on has precedence over suspended, and
// suspended over off (calendar_conf(5), SEMANTICS). According to the manual, the week does not
// count on a day that an entry of the year names; in Grid Engine it does, at the times that the
// entry does not name. One behaviour of Grid Engine is not reproduced: entries that begin at
// midnight hold after their last time of a day until midnight if they also name the next day.
func (c *Calendar) State(t time.Time, zone *time.Location) State {
	if c == nil {
		return On
	}
	_, offset := t.In(zone).Zone()
	return c.at(t.Unix() + int64(offset))
}

// at returns the state at a local time, in seconds since 1970 without regard to zones.
func (c *Calendar) at(local int64) State {
	day, second := split(local)
	return c.on(day, second)
}

// split splits a local time into the day and the second of the day.
func split(local int64) (day, second int) {
	day, second = int(local/daySeconds), int(local%daySeconds)
	if second < 0 {
		day, second = day-1, second+daySeconds
	}
	return day, second
}

func (c *Calendar) on(day, second int) State {
	var found [Suspended + 1]bool
	matched := false
	for i := range c.year {
		if e := &c.year[i]; (e.days == nil || anyHas(e.days, day)) && anyHas(e.times, second) {
			found[e.state], matched = true, true
		}
	}
	if !matched {
		today := uint8(1) << ((day%7 + 7 + int(time.Thursday)) % 7) // 1970 began on a Thursday
		for i := range c.week {
			if e := &c.week[i]; e.weekdays&today != 0 && anyHas(e.times, second) {
				found[e.state] = true
			}
		}
	}
	switch {
	case found[On]:
		return On
	case found[Suspended]:
		return Suspended
	case found[Off]:
		return Off
	}
	return On
}

// settled is the number of days after which an unchanged state will never change again: two weeks,
// because a change to summer time may have skipped an hour of the first week.
const settled = 15

// Next returns when the state changes next after a time, and the new state. ok is false
// if it never does.
func (c *Calendar) Next(t time.Time, zone *time.Location) (at time.Time, to State, ok bool) {
	if c == nil {
		return time.Time{}, On, false
	}
	s := search{c: c, before: c.State(t, zone)}
	// Between two changes of the zone, local time is the time and an offset. At such
	// a change, local time jumps, and the state may change with it.
	for from := t.Unix(); ; {
		instant := time.Unix(from, 0).In(zone)
		_, offset := instant.Zone()
		local := from + int64(offset)
		if from == t.Unix() {
			s.quietSince, _ = split(local)
		} else if to := c.at(local); to != s.before {
			return instant, to, true
		}
		end := int64(math.MaxInt64)
		if _, e := instant.ZoneBounds(); !e.IsZero() {
			end = e.Unix() + int64(offset)
		}
		at, to, outcome := s.period(local, end)
		switch outcome {
		case changes:
			return time.Unix(at-int64(offset), 0).In(zone), to, true
		case never:
			return time.Time{}, s.before, false
		}
		from = end - int64(offset)
	}
}

// search is a search for the next change of the state.
type search struct {
	c          *Calendar
	before     State
	quietSince int // the day since which only the week decides
}

type outcome uint8

const (
	changes outcome = iota
	goesOn          // beyond the period
	never
)

// period searches a period without a change of the zone, in local time: after from and before end.
func (s *search) period(from, end int64) (at int64, to State, o outcome) {
	day, second := split(from)
	for ; ; day, second = day+1, 0 {
		if next, isTurn := slices.BinarySearch(s.c.turns, day); isTurn {
			s.quietSince = day
		} else if day > s.quietSince+settled {
			if next == len(s.c.turns) {
				return 0, s.before, never
			}
			if day = s.c.turns[next]; int64(day)*daySeconds >= end {
				return 0, s.before, goesOn
			}
			second, s.quietSince = 0, day
		}
		for _, p := range s.c.points {
			at := int64(day)*daySeconds + int64(p)
			switch {
			case p < second:
				continue
			case at >= end:
				return 0, s.before, goesOn
			}
			if to := s.c.on(day, p); to != s.before {
				return at, to, changes
			}
		}
	}
}
