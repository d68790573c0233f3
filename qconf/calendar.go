package qconf

import (
	"fmt"
	"strings"
)

// Calendar is an object of calendar_conf(5). The package does not interpret year and week: it
// stores them as text, after a check for characters that no calendar contains.
type Calendar struct {
	Text
	Name       string
	Year, Week string // empty for NONE
}

var calendarTable = table[Calendar]{
	object: "calendar",
	manual: "calendar_conf(5)",
	layout: layout{column: 17},
	rows: []attribute[Calendar]{
		{name: "calendar_name", required: true, kind: name(func(c *Calendar) *string { return &c.Name })},
		row("year", none, calendarEntries(func(c *Calendar) *string { return &c.Year })),
		row("week", none, calendarEntries(func(c *Calendar) *string { return &c.Week })),
	},
}

// calendarEntries returns a list of entries with blanks between them, or NONE. A blank after a comma
// does not separate entries: qconf breaks long lines there.
func calendarEntries(field func(*Calendar) *string) kind[Calendar] {
	return orNone(kind[Calendar]{breaks: betweenItems, read: func(c *Calendar, s string) (string, error) {
		if bad := strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789.,:=- \t"); bad != "" {
			return s, fmt.Errorf("%q is in no calendar, expected entries like mon-fri=8-18=off or 24.12.2030", bad[:1])
		}
		s = strings.Join(strings.Fields(s), " ")
		s = strings.ReplaceAll(s, ", ", ",")
		if strings.Trim(s, ", ") != s || strings.Contains(s, " ,") {
			return s, fmt.Errorf("%q has a comma next to a blank, expected entries like mon-fri=8-18=off or 24.12.2030", s)
		}
		*field(c) = s
		return s, nil
	}}, field)
}

// ParseCalendar reads a calendar in the notation of calendar_conf(5). file is
// only used in errors, which are all *Error, joined.
func ParseCalendar(file string, data []byte) (*Calendar, error) {
	return whole(newCalendar(calendarTable.parse(file, data)))
}

// With returns the object with one attribute changed, or the reason why it
// cannot have that value.
func (c *Calendar) With(attribute, value string) (*Calendar, error) {
	return whole(newCalendar(calendarTable.with(c.Text, attribute, value)))
}

func newCalendar(text Text, c Calendar, err error) (*Calendar, error) {
	c.Text = text
	return &c, err
}
