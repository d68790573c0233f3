package submit

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// DateTime is a date_time of sge_types(5), [[CC]YY]MMDDhhmm[.SS]. Its meaning depends on the time
// zone and, if it has no year, on the current date. The zero DateTime means none.
type DateTime struct {
	Year                             int // 0 for the current year
	Month, Day, Hour, Minute, Second int // minimum 1, 1, 0, 0, 0
}

// ParseDateTime reads a date_time. A year of two digits is in 20YY if it is below 70, otherwise in
// 19YY (sge_types(5)).
func ParseDateTime(s string) (DateTime, error) {
	text, seconds, hasSeconds := strings.Cut(s, ".")
	n := len(text)
	if n != 8 && n != 10 && n != 12 {
		return DateTime{}, errors.New("expected [[CC]YY]MMDDhhmm[.SS]")
	}
	if hasSeconds && len(seconds) != 2 {
		return DateTime{}, errors.New("expected two digits of seconds after the dot")
	}
	var d DateTime
	first := 0
	if n == 12 {
		first = 1970 // the first second of Unix time
	}
	fields := []struct {
		name      string
		text      string
		low, high int
		to        *int
	}{
		{"month", text[n-8 : n-6], 1, 12, &d.Month},
		{"day", text[n-6 : n-4], 1, 31, &d.Day},
		{"hour", text[n-4 : n-2], 0, 23, &d.Hour},
		{"minute", text[n-2:], 0, 59, &d.Minute},
		{"year", "0" + text[:n-8], first, 9999, &d.Year},
		{"second", "0" + seconds, 0, 60, &d.Second},
	}
	for _, f := range fields {
		v, err := digits(f.text, 9999)
		if err != nil || v < f.low || v > f.high {
			return DateTime{}, errors.New("the " + f.name + " is not between " + strconv.Itoa(f.low) + " and " + strconv.Itoa(f.high))
		}
		*f.to = v
	}
	if n == 10 {
		if d.Year += 1900; d.Year < 1970 {
			d.Year += 100
		}
	}
	return d, nil
}

// IsZero reports whether there is no date_time.
func (d DateTime) IsZero() bool { return d == DateTime{} }

// Time returns the time in the time zone of now, with the year of now if there is none. A day
// beyond the end of its month counts into the next month, as with mktime(3).
func (d DateTime) Time(now time.Time) time.Time {
	year := d.Year
	if year == 0 {
		year = now.Year()
	}
	return time.Date(year, time.Month(d.Month), d.Day, d.Hour, d.Minute, d.Second, 0, now.Location())
}

// String returns the date_time in the notation that ParseDateTime reads.
func (d DateTime) String() string {
	var b strings.Builder
	pad := func(n, width int) {
		s := strconv.Itoa(n)
		b.WriteString(strings.Repeat("0", max(width-len(s), 0)) + s)
	}
	if d.Year != 0 {
		pad(d.Year, 4)
	}
	for _, n := range []int{d.Month, d.Day, d.Hour, d.Minute} {
		pad(n, 2)
	}
	if d.Second != 0 {
		b.WriteByte('.')
		pad(d.Second, 2)
	}
	return b.String()
}
