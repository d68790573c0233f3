package calendar

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the rules of zones must not depend on the host

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, year, week string) *Calendar {
	t.Helper()
	c, err := Parse(year, week)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOriginal checks the calendars of queues of a real cluster, and the states that they gave the
// queues at one moment.
func TestOriginal(t *testing.T) {
	now := time.Date(2026, time.November, 20, 22, 24, 15, 0, time.UTC) // a Friday
	for name, c := range map[string]struct {
		year, week string
		want       State
	}{
		"alloff":    {"NONE", "off", Off},
		"notnow":    {"NONE", "23-0=off", On},
		"nowoff":    {"NONE", "21-23=off", Off},
		"otherday":  {"NONE", "sun=off", On},
		"overon":    {"NONE", "0-24 fri=21-23=on", On},
		"oversusp":  {"NONE", "0-24=off fri=suspended", Suspended},
		"ranges":    {"NONE", "mon-tue,fri=0-1,21:30-23:00:30", Off},
		"todayoff":  {"20.11.2026", "NONE", Off},
		"todaysusp": {"20.11.2026=suspended", "NONE", Suspended},
		"tomorrow":  {"21.11.2026=off", "NONE", On},
		"wdayoff":   {"NONE", "fri=off", Off},
		"wrap":      {"NONE", "21-22=off", On},
		"wrap2":     {"NONE", "fri-mon=21-23=suspended", Suspended},
		"yearon":    {"20.11.2026=on", "off", On},
		"yearpart":  {"20.11.2026=23-0=off", "off", Off},
		"yearpart2": {"20.11.2026=23-0=off", "mon-sun=on", On},
		"yrange":    {"1.1.1970-31.12.2037=21-23", "NONE", Off},
		// Not of that cluster: an entry of the year that is weaker than one of the week.
		"yearoff":  {"20.11.2026", "fri=on", Off},
		"yearoff2": {"20.11.2026=22-23", "fri=suspended", Off},
	} {
		if got := mustParse(t, c.year, c.week).State(now, time.UTC); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	var none *Calendar
	if _, _, ok := none.Next(now, time.UTC); ok || none.State(now, time.UTC) != On {
		t.Error("no calendar is not on for ever")
	}
}

// TestParse checks the texts that qconf -Acal of 8.1.9 accepts.
func TestParse(t *testing.T) {
	for _, week := range []string{
		"NONE", "none", "fri-mon", "22-6", "0-24:00:00", "mon", "mond", "MONDAY", "sunday-saturday", "08:00:00-9:5:5", "24-5", "24:00:00-5",
		"5-24", "5-24:0", "5-0", "23:59:59-0:0:0", "on", "off", "sus", "susp", "suspend", "SUSPENDED", "ON", "on mon=off", "mon 8-9", "010-11",
		"008-9", "8:005-9", "monday-frid", "Mon-FRI=08:00-17:00=SUSPENDED", "mon,tue=8-9,8:30-10=off 8-9=on", "mon-fri=20-6 sat-sun",
	} {
		if c, err := Parse("NONE", week); err != nil || c.Week() != week || c.Year() != "NONE" {
			t.Errorf("week %q: %v", week, err)
		}
	}
	for _, year := range []string{
		"None", "1.1.2026", "1.jan.2026", "1.january.2026", "1.Jan.2026", "1.JANU.2026", "1.may.2026", "01.01.2026", "31.2.2026", "29.2.2024",
		"1.1.1970", "1.1.2037", "1.1.2026-2.1.2026", "1.1.2026-1.1.2026", "1.1.2026-3.1.2026,2.1.2026", "1.1.2026,1.1.2026", "1.1.2026=8-9",
		"1.1.2026=8-9=on", "1.1.2026=on", "1.1.2026=22-6=suspended", "on", "off", "1.1.2026 2.1.2026=on", "31.12.2026-1.1.2027=on", "1.1.2026 off",
		"1.1.2026=24-1", "1.1.02026", "29.2.2023-1.3.2023", "1.3.2023-31.2.2024",
	} {
		if c, err := Parse(year, "NONE"); err != nil || c.Year() != year {
			t.Errorf("year %q: %v", year, err)
		}
	}
	if c := mustParse(t, "", " "); c.Year() != "NONE" || c.Week() != "NONE" {
		t.Errorf("empty is printed %q, %q", c.Year(), c.Week())
	}
	if c := mustParse(t, " 1.1.2026   2.2.2026 ", "  mon    tue  "); c.Year() != "1.1.2026 2.2.2026" || c.Week() != "mon tue" {
		t.Errorf("printed %q, %q", c.Year(), c.Week())
	}
}

// TestErrors checks the texts that qconf -Acal of 8.1.9 refuses.
func TestErrors(t *testing.T) {
	for week, want := range map[string]string{
		"mon-mon":          `cannot read the week entry "mon-mon": "mon-mon" is not a range, expected a single day, or different ones`,
		"12-12":            `cannot read the week entry "12-12": "12-12" begins when it ends, expected 0-24 for the whole day`,
		"0-0":              "begins when it ends",
		"0-24:01":          `"24:01" is later than 24:00:00`,
		"25-26":            `"25" is no hour, expected 0 to 24`,
		"8:60-9":           `"60" is no minute, expected 0 to 59`,
		"8:0:60-9":         `"60" is no second, expected 0 to 59`,
		"mon=":             `"" is not a state`,
		"foo":              `"foo" is not a weekday`,
		"m":                "is not a weekday",
		"mo":               "is not a weekday",
		"mondayx":          "is not a weekday",
		"of":               "is not a weekday",
		"o":                "is not a weekday",
		"su":               "is not a weekday",
		"suspendedx":       "is not a weekday",
		"mon , tue":        `the week entry ",": "" is not a weekday`,
		"mon= 8-9":         `the week entry "mon=": "" is not a state`,
		"mon=8-9 8=on":     `"8" is not a range of times`,
		"8":                `"8" is not a range of times`,
		"8-":               `"" is no hour`,
		"-8":               `"" is not a weekday`,
		"8:-9":             `"" is no minute`,
		"8-9:":             `"" is no minute`,
		"8-9-10":           `"9-10" is no hour`,
		"8:0:0:0-9":        `"8:0:0:0" is not a time`,
		"NONE mon":         `"NONE" is not a weekday`,
		"mon NONE":         `"NONE" is not a weekday`,
		"mon=on=off":       `"off" follows the state, expected nothing`,
		"mon=8-9=on=off":   "follows the state",
		"mon=8-9=9-10":     `"9-10" is not a state`,
		"8-9=mon":          `"mon" is not a state`,
		"off=8-9":          "follows the state",
		"mon-wed-fri":      `"wed-fri" is not a weekday`,
		"mon-":             `"" is not a weekday`,
		"-mon":             `"" is not a weekday`,
		"mon,":             `"" is not a weekday`,
		"mon,,tue":         `"" is not a weekday`,
		"8-9,":             `"" is not a range of times`,
		"8-9,off":          `"off" is not a range`,
		"mon,8-9":          `"8" is not a weekday`,
		"mon=8-x":          `"x" is no hour`,
		"=off":             `"" is not a weekday`,
		"=":                `"" is not a weekday`,
		"8.5-9":            `"8.5" is no hour`,
		"1.1.2026":         "is not a range of times",
		"+8-9":             "is not a weekday",
		"0x8-9":            `"0x8" is no hour`,
		"8-9;":             `"9;" is no hour`,
		"mon!":             `"mon!" is not a weekday`,
		"9999999999999-10": "is no hour",
	} {
		if _, err := Parse("NONE", week); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot read the week ") {
			t.Errorf("%q: %v, want %s", week, err, want)
		}
	}
	for year, want := range map[string]string{
		"1.ja.2026":                  `"ja" is not a month, expected 1 to 12 or jan to dec`,
		"1.ma.2026":                  "is not a month",
		"1.januaryx.2026":            "is not a month",
		"1.0.2026":                   "is not a month",
		"1.13.2026":                  "is not a month",
		"1.+1.2026":                  "is not a month",
		"1..2026":                    "is not a month",
		"0.1.2026":                   `"0" is not a day of a month, expected 1 to 31`,
		"32.1.2026":                  "is not a day of a month",
		"1.1.1969":                   `"1969" is not a year, expected 1970 to 2037`,
		"1.1.2038":                   "is not a year",
		"1.1.26":                     "is not a year",
		"1.1":                        `"1.1" is not a date, expected day.month.year`,
		"1":                          "is not a date",
		"8-9":                        `"8" is not a date`,
		"8-9=on":                     "is not a date",
		"2.1.2026-1.1.2026":          "ends before it begins",
		"1.1.2026=":                  "is not a state",
		"1.1.2026=12-12":             "begins when it ends",
		"mon":                        `"mon" is not a date`,
		"1.1.2026=8-9=s":             `"s" is not a state`,
		"1.1.2026-2.2.2026-3.3.2026": "is not a date",
		"1.1.2026-":                  "is not a date",
		"-1.1.2026":                  "is not a date",
		"NONE 1.1.2026":              "is not a date",
		"1.1.2026 NONE":              "is not a date",
		"1-1-2026":                   "is not a date",
		"1.1.2026=off=on":            "follows the state",
		"1 .1.2026":                  "is not a date",
	} {
		if _, err := Parse(year, "NONE"); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot read the year ") {
			t.Errorf("%q: %v, want %s", year, err, want)
		}
	}
}

const layout = "2006-01-02 15:04:05"

// TestChanges follows calendars from a moment on: "time state" for each change.
func TestChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		year, week, from string
		zone             *time.Location
		want             []string
	}{
		"ends belong to their ranges": {"NONE", "8-18", "2026-11-20 07:00:00", time.UTC, []string{
			"2026-11-20 08:00:00 off", "2026-11-20 18:00:01 on", "2026-11-21 08:00:00 off",
		}},
		"at the moment of the change it has happened": {"NONE", "8-18", "2026-11-20 08:00:00", time.UTC, []string{
			"2026-11-20 18:00:01 on",
		}},
		"working days": {"NONE", "mon-fri=6-20", "2026-11-20 12:00:00", time.UTC, []string{
			"2026-11-20 20:00:01 on", "2026-11-23 06:00:00 off",
		}},
		"nights, both ends of the same day": {"NONE", "mon-fri=20-6 sat-sun", "2026-11-20 12:00:00", time.UTC, []string{
			"2026-11-20 20:00:00 off", "2026-11-23 06:00:01 on", "2026-11-23 20:00:00 off", "2026-11-24 06:00:01 on",
		}},
		// The original keeps the queue off until midnight when the next day, too, begins
		// with the entry.
		"nights from midnight on": {"NONE", "mon-fri=0-6", "2026-11-20 05:00:00", time.UTC, []string{
			"2026-11-20 06:00:01 on", "2026-11-23 00:00:00 off", "2026-11-23 06:00:01 on", "2026-11-24 00:00:00 off",
		}},
		"on before off": {"NONE", "12-18 tue=13-17=on", "2026-11-24 00:00:00", time.UTC, []string{
			"2026-11-24 12:00:00 off", "2026-11-24 13:00:00 on", "2026-11-24 17:00:01 off", "2026-11-24 18:00:01 on", "2026-11-25 12:00:00 off", "2026-11-25 18:00:01 on",
		}},
		"whole days leave no gap": {"NONE", "mon,tue", "2026-11-20 00:00:00", time.UTC, []string{
			"2026-11-23 00:00:00 off", "2026-11-25 00:00:00 on", "2026-11-30 00:00:00 off",
		}},
		"suspended before off": {"NONE", "8-12=off 10-14=suspended", "2026-11-20 00:00:00", time.UTC, []string{
			"2026-11-20 08:00:00 off", "2026-11-20 10:00:00 suspended", "2026-11-20 14:00:01 on",
		}},
		"a single day, years ahead": {"24.12.2036", "NONE", "2026-11-20 00:00:00", berlin, []string{
			"2036-12-24 00:00:00 off", "2036-12-25 00:00:00 on", "never",
		}},
		"a holiday among the weeks": {"25.12.2026,26.12.2026=on", "mon-fri=6-20", "2026-12-24 12:00:00", time.UTC, []string{
			"2026-12-24 20:00:01 on", "2026-12-28 06:00:00 off",
		}},
		"the week goes on beside the times of a day of the year": {"20.11.2026=12-14=on", "fri", "2026-11-20 00:00:00", time.UTC, []string{
			"2026-11-20 12:00:00 on", "2026-11-20 14:00:01 off", "2026-11-21 00:00:00 on",
		}},
		"hidden for years by the year": {"1.1.2027-31.12.2036=on", "sun=off", "2027-01-01 00:00:00", berlin, []string{
			"2037-01-04 00:00:00 off", "2037-01-05 00:00:00 on",
		}},
		"a year that is reached slowly": {"1.1.2027-31.12.2030=on 10.12.2026", "sun=off", "2026-12-08 00:00:00", berlin, []string{
			"2026-12-10 00:00:00 off", "2026-12-11 00:00:00 on", "2026-12-13 00:00:00 off", "2026-12-14 00:00:00 on", "2026-12-20 00:00:00 off",
			"2026-12-21 00:00:00 on", "2026-12-27 00:00:00 off", "2026-12-28 00:00:00 on", "2031-01-05 00:00:00 off",
		}},
		"a turn near the end of two quiet weeks": {"1.1.2027-14.1.2027=on", "thu=off", "2027-01-01 00:00:00", time.UTC, []string{"2027-01-21 00:00:00 off"}},
		"a day that does not exist":              {"30.2.2026", "NONE", "2026-01-01 00:00:00", time.UTC, []string{"never"}},
		"until a day that does not exist":        {"27.2.2026-31.2.2026", "NONE", "2026-01-01 00:00:00", time.UTC, []string{"2026-02-27 00:00:00 off", "2026-03-01 00:00:00 on", "never"}},
		"since a day that does not exist":        {"30.2.2026-2.3.2026", "NONE", "2026-01-01 00:00:00", time.UTC, []string{"2026-03-01 00:00:00 off", "2026-03-03 00:00:00 on", "never"}},
		"a leap day":                             {"29.2.2028", "NONE", "2026-01-01 00:00:00", time.UTC, []string{"2028-02-29 00:00:00 off", "2028-03-01 00:00:00 on", "never"}},
		"always off":                             {"NONE", "off", "2026-01-01 00:00:00", berlin, []string{"never"}},
		"always on":                              {"NONE", "NONE", "2026-01-01 00:00:00", berlin, []string{"never"}},
		"on anyway":                              {"1.1.2030=on", "mon=on", "2026-01-01 00:00:00", berlin, []string{"never"}},
		"the year is off":                        {"off", "on", "2026-01-01 00:00:00", berlin, []string{"never"}},
		"after the last year of calendars":       {"31.12.2037", "sun=0-1", "2037-12-30 00:00:00", time.UTC, []string{"2037-12-31 00:00:00 off", "2038-01-01 00:00:00 on", "2038-01-03 00:00:00 off"}},

		// 2026-03-29 02:00 is 03:00 in Berlin, and 2026-10-25 03:00 is 02:00 again.
		"begins in the hour that is left out": {"NONE", "2:30-4", "2026-03-29 00:00:00", berlin, []string{
			"2026-03-29 03:00:00 off", "2026-03-29 04:00:01 on",
		}},
		"ends in the hour that is left out": {"NONE", "1-2:30", "2026-03-29 00:00:00", berlin, []string{
			"2026-03-29 01:00:00 off", "2026-03-29 03:00:00 on", "2026-03-30 01:00:00 off",
		}},
		"is in the hour that is left out": {"NONE", "sun=2:10-2:50", "2026-03-28 00:00:00", berlin, []string{
			"2026-04-05 02:10:00 off", "2026-04-05 02:50:01 on",
		}},
		"is in the hour that comes twice": {"NONE", "2:10-2:50", "2026-10-25 00:00:00", berlin, []string{
			"2026-10-25 02:10:00 off", "2026-10-25 02:50:01 on", "2026-10-25 02:10:00 off", "2026-10-25 02:50:01 on", "2026-10-26 02:10:00 off",
		}},
		"begins in the hour that comes twice": {"NONE", "2:30-4", "2026-10-25 00:00:00", berlin, []string{
			"2026-10-25 02:30:00 off", "2026-10-25 02:00:00 on", "2026-10-25 02:30:00 off", "2026-10-25 04:00:01 on",
		}},
	} {
		t.Run(what, func(t *testing.T) {
			calendar := mustParse(t, c.year, c.week)
			at, err := time.ParseInLocation(layout, c.from, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				got := "never"
				next, state, ok := calendar.Next(at, c.zone)
				if ok {
					got = next.Format(layout) + " " + state.String()
					if !next.After(at) || calendar.State(next, c.zone) != state || calendar.State(at, c.zone) == state {
						t.Fatalf("%s after %s: it is %s", got, at, calendar.State(next, c.zone))
					}
				}
				if got != want {
					t.Fatalf("after %s: %s, want %s", at.Format(layout), got, want)
				}
				at = next
			}
		})
	}
}

// drawEntry draws entries around the days from 2026-03-26 on, a Thursday, with a change
// of the zone on the 29th.
func drawEntry(t *rapid.T, year bool) string {
	var parts []string
	if days := rapid.Bool().Draw(t, "days"); days || year {
		if year {
			first := rapid.IntRange(26, 29).Draw(t, "first")
			parts = append(parts, fmt.Sprintf("%d.3.2026-%d.mar.2026", first, first+rapid.IntRange(0, 2).Draw(t, "length")))
		} else {
			parts = append(parts, rapid.SampledFrom([]string{"mon", "fri-mon", "sun,tue", "thu-fri", "sat"}).Draw(t, "weekdays"))
		}
	}
	if times := rapid.Bool().Draw(t, "times"); times {
		parts = append(parts, rapid.SampledFrom([]string{"0-24", "0-3", "2:30-4", "22-2:15", "1-2:45,3:30-5", "23:30-24", "24-1", "12-12:00:01"}).Draw(t, "range"))
	}
	if len(parts) == 0 || rapid.Bool().Draw(t, "state") {
		parts = append(parts, rapid.SampledFrom([]string{"on", "off", "sus"}).Draw(t, "state"))
	}
	return strings.Join(parts, "=")
}

// TestNextIsTheNext checks that the state stays the same from a moment until the next change, and
// changes then.
func TestNextIsTheNext(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	zones := []*time.Location{time.UTC, berlin, time.FixedZone("far", 14*3600), time.FixedZone("odd", -(3*3600 + 1234))}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(year bool) string {
			var entries []string
			for range rapid.IntRange(0, 3).Draw(t, "entries") {
				entries = append(entries, drawEntry(t, year))
			}
			if entries == nil {
				return "NONE"
			}
			return strings.Join(entries, " ")
		}
		c, err := Parse(draw(true), draw(false))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(c.Year(), c.Week())
		if err != nil {
			t.Fatal(err)
		}
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		from := time.Date(2026, time.March, 26, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 4*daySeconds).Draw(t, "second")) * time.Second)
		before := c.State(from, zone)
		next, to, ok := c.Next(from, zone)
		if !ok {
			next = from.Add(9 * 24 * time.Hour)
		}
		for minute := from.Truncate(time.Minute); minute.Before(next) && minute.Before(from.Add(9*24*time.Hour)); minute = minute.Add(time.Minute) {
			for _, at := range []time.Time{minute, minute.Add(time.Second)} {
				if at.Before(from) || !at.Before(next) {
					continue
				}
				if got := c.State(at, zone); got != before || again.State(at, zone) != before {
					t.Fatalf("year %s week %s: %s at %s, but from %s on it is %s until %s", c.Year(), c.Week(), got, at.In(zone), from.In(zone), before, next.In(zone))
				}
			}
		}
		if ok && (to == before || c.State(next, zone) != to || c.State(next.Add(-time.Second), zone) != before) {
			t.Fatalf("year %s week %s: no change from %s to %s at %s", c.Year(), c.Week(), before, to, next.In(zone))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range [][2]string{{"1.1.2026-3.mar.2026=8-9:30,22-6=on off", "mon-fri,sun=8-12:0:30=suspended 0-24"}, {"NONE", "off"}} {
		f.Add(s[0], s[1])
	}
	now := time.Unix(1795213439, 0)
	f.Fuzz(func(t *testing.T, year, week string) {
		c, err := Parse(year, week)
		if err != nil {
			return
		}
		again, err := Parse(c.Year(), c.Week())
		if err != nil || again.Year() != c.Year() || again.Week() != c.Week() {
			t.Fatalf("%q, %q: printed as %q, %q: %v", year, week, c.Year(), c.Week(), err)
		}
		next, state, ok := c.Next(now, time.UTC)
		if ok && (c.State(next, time.UTC) != state || state == c.State(now, time.UTC)) {
			t.Fatalf("%q, %q: not %s at %s", year, week, state, next)
		}
	})
}

func BenchmarkState(b *testing.B) {
	c := mustParse(b, "1.1.2026,6.1.2026,28.3.2026=on", "mon-fri=20-6 sat-sun")
	now := time.Unix(1795213439, 0)
	b.ReportAllocs()
	for b.Loop() {
		c.State(now, time.UTC)
	}
}

func BenchmarkNext(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(1795213439, 0)
	for what, c := range map[string]*Calendar{
		"week": mustParse(b, "1.1.2026,6.1.2026,28.3.2026=on", "mon-fri=20-6 sat-sun"),
		"far":  mustParse(b, "24.12.2036", "NONE"),
	} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Next(now, berlin)
			}
		})
	}
}
