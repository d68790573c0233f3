package calendar

import (
	"fmt"
	"strings"
	"time"
)

// The grammar is that of the original: the grammar of calendar_conf(5) with two exceptions:
// a year entry cannot begin with times, and any prefix of three letters is a name.
// No blanks are allowed within an entry.
//
//	year  = NONE | entry { " " entry }    entry = days [ "=" times ] [ "=" state ] | state
//	week  = NONE | entry { " " entry }    entry = days [ "=" times ] [ "=" state ]
//	                                            | times [ "=" state ] | state
//	days  = day [ "-" day ] { "," day [ "-" day ] }
//	times = time "-" time { "," time "-" time }
//	time  = hour [ ":" minute [ ":" second ] ]

var allDay = []span{{0, daySeconds}}

const everyWeekday = 1<<7 - 1

// parseEntries reads a whole attribute. days reads the days of an entry.
func parseEntries(attribute, text string, days func(*entry, string) error) ([]entry, error) {
	if strings.EqualFold(text, "none") {
		return nil, nil
	}
	var entries []entry
	for item := range strings.FieldsSeq(text) {
		e, err := parseEntry(item, attribute == "week", days)
		if err != nil {
			return nil, fmt.Errorf("cannot read the %s entry %q: %w", attribute, item, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// parseEntry reads one entry. Without a state it switches off, without times it is
// about whole days.
func parseEntry(item string, week bool, days func(*entry, string) error) (entry, error) {
	e := entry{weekdays: everyWeekday, times: allDay, state: Off}
	parts := strings.Split(item, "=")
	var err error
	_, isState := parseState(parts[0])
	switch {
	case isState:
	case week && startsWithDigit(parts[0]):
	default:
		if err = days(&e, parts[0]); err != nil {
			return entry{}, err
		}
		parts = parts[1:]
	}
	if len(parts) > 0 && startsWithDigit(parts[0]) {
		if e.times, err = parseTimes(parts[0]); err != nil {
			return entry{}, err
		}
		parts = parts[1:]
	}
	if len(parts) > 0 {
		var ok bool
		if e.state, ok = parseState(parts[0]); !ok {
			return entry{}, fmt.Errorf("%q is not a state, expected on, off or suspended", parts[0])
		}
		parts = parts[1:]
	}
	if len(parts) > 0 {
		return entry{}, fmt.Errorf("%q follows the state, expected nothing", strings.Join(parts, "="))
	}
	return e, nil
}

func startsWithDigit(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }

func parseState(s string) (State, bool) {
	for _, state := range []State{On, Off, Suspended} {
		if isName(s, state.String()) {
			return state, true
		}
	}
	return On, false
}

// isName reports whether s is a name, or three or more of its first letters, in any
// case.
func isName(s, name string) bool {
	if len(s) > len(name) || len(s) < min(3, len(name)) {
		return false
	}
	return strings.EqualFold(s, name[:len(s)])
}

func parseTimes(text string) ([]span, error) {
	var spans []span
	for item := range strings.SplitSeq(text, ",") {
		from, to, ok := strings.Cut(item, "-")
		if !ok {
			return nil, fmt.Errorf("%q is not a range of times, expected one like 8-17:30", item)
		}
		first, err := parseTime(from)
		if err != nil {
			return nil, err
		}
		last, err := parseTime(to)
		switch {
		case err != nil:
			return nil, err
		case first == last:
			return nil, fmt.Errorf("%q begins when it ends, expected 0-24 for the whole day", item)
		case first < last:
			spans = append(spans, span{first, last})
		default: // at both ends of the same day
			spans = append(spans, span{first, daySeconds}, span{0, last})
		}
	}
	return spans, nil
}

// parseTime reads a time of the day in seconds, 24:00:00 included.
func parseTime(text string) (int, error) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return 0, fmt.Errorf("%q is not a time, expected hour:minute:second", text)
	}
	seconds := 0
	for i, unit := range []struct {
		name         string
		size, values int
	}{{"hour", 3600, 25}, {"minute", 60, 60}, {"second", 1, 60}}[:len(parts)] {
		v, ok := number(parts[i])
		if !ok || v >= unit.values {
			return 0, fmt.Errorf("%q is no %s, expected 0 to %d", parts[i], unit.name, unit.values-1)
		}
		seconds += v * unit.size
	}
	if seconds > daySeconds {
		return 0, fmt.Errorf("%q is later than 24:00:00", text)
	}
	return seconds, nil
}

// number reads decimal digits. Text that is too long for any day or year is not a number.
func number(s string) (int, bool) {
	if s == "" {
		return 0, false
	}
	v := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || v > 9999 {
			return 0, false
		}
		v = v*10 + int(s[i]-'0')
	}
	return v, true
}

func parseWeekdays(e *entry, text string) error {
	e.weekdays = 0
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, err := parseWeekday(from)
		if err != nil {
			return err
		}
		last, err := parseWeekday(to)
		switch {
		case err != nil:
			return err
		case isRange && first == last:
			return fmt.Errorf("%q is not a range, expected a single day, or different ones", item)
		}
		for d := first; ; d = (d + 1) % 7 { // fri-mon is over the weekend
			e.weekdays |= 1 << d
			if d == last {
				break
			}
		}
	}
	return nil
}

func parseWeekday(s string) (time.Weekday, error) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if isName(s, d.String()) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is not a weekday, expected mon to sun, or a time of the day", s)
}

func parseYearDays(e *entry, text string) error {
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, err := parseDate(from)
		if err != nil {
			return err
		}
		last, err := parseDate(to)
		switch {
		case err != nil:
			return err
		case last.before(first):
			return fmt.Errorf("%q ends before it begins", item)
		}
		// A day that does not exist, as in 1.2.2026-31.2.2026, ends the range at the last existing
		// day. Alone, it is not a day.
		e.days = append(e.days, span{first.number(false), last.number(true)})
	}
	return nil
}

type date struct{ day, month, year int }

func (d date) before(o date) bool {
	return d.year < o.year || d.year == o.year && (d.month < o.month || d.month == o.month && d.day < o.day)
}

// number returns the day as a number. For a day that does not exist it is the number of the
// previous or the next day.
func (d date) number(before bool) int {
	if next := dayNumber(d.year, d.month+1, 1); dayNumber(d.year, d.month, d.day) >= next {
		if before {
			return next - 1
		}
		return next
	}
	return dayNumber(d.year, d.month, d.day)
}

func dayNumber(year, month, day int) int {
	return int(time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds)
}

func parseDate(s string) (date, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return date{}, fmt.Errorf("%q is not a date, expected day.month.year", s)
	}
	var d date
	var ok bool
	if d.day, ok = number(parts[0]); !ok || d.day < 1 || d.day > 31 {
		return date{}, fmt.Errorf("%q is not a day of a month, expected 1 to 31", parts[0])
	}
	if d.month, ok = number(parts[1]); !ok {
		for m := time.January; m <= time.December; m++ {
			if isName(parts[1], m.String()) {
				d.month = int(m)
			}
		}
	}
	if d.month < 1 || d.month > 12 {
		return date{}, fmt.Errorf("%q is not a month, expected 1 to 12 or jan to dec", parts[1])
	}
	if d.year, ok = number(parts[2]); !ok || d.year < 1970 || d.year > 2037 {
		return date{}, fmt.Errorf("%q is not a year, expected 1970 to 2037", parts[2])
	}
	return d, nil
}
