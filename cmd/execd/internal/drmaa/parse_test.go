package drmaa

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// TestParseStart checks that a drmaa_start_time with omitted parts means the next time that matches.
func TestParseStart(t *testing.T) {
	zone := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 23, 12, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"13:00":                      time.Date(2026, 11, 23, 13, 0, 0, 0, zone),
		"12:00":                      time.Date(2026, 11, 24, 12, 0, 0, 0, zone),
		"12:30:01":                   time.Date(2026, 11, 23, 12, 30, 1, 0, zone),
		"24 01:00":                   time.Date(2026, 11, 24, 1, 0, 0, 0, zone),
		"22 01:00":                   time.Date(2026, 12, 22, 1, 0, 0, 0, zone),
		"31 01:00":                   time.Date(2026, 12, 31, 1, 0, 0, 0, zone),
		"12/24 01:00":                time.Date(2026, 12, 24, 1, 0, 0, 0, zone),
		"01/24 01:00":                time.Date(2027, 1, 24, 1, 0, 0, 0, zone),
		"27/01/24 01:00":             time.Date(2027, 1, 24, 1, 0, 0, 0, zone),
		"2001/01/24 01:00":           time.Date(2001, 1, 24, 1, 0, 0, 0, zone),
		"2026/12/24 12:00:00 -07:00": time.Date(2026, 12, 24, 19, 0, 0, 0, time.UTC),
		"11:45 +00:00":               time.Date(2026, 11, 23, 11, 45, 0, 0, time.UTC),
		"02/29 01:00":                time.Date(2028, 2, 29, 1, 0, 0, 0, zone),
		"2027/02/29 01:00":           {},
		"13/01 01:00":                {},
		"25:00":                      {},
		"10:60":                      {},
		"10:00 +15:00":               {},
		"1/2 3:4":                    {},
		"01/01:00":                   {},
		"":                           {},
	} {
		got, err := parseStart(text, now)
		switch {
		case want.IsZero() && err == nil:
			t.Errorf("%q is %s, expected an error", text, got)
		case want.IsZero():
		case err != nil || !got.Equal(want):
			t.Errorf("%q is %s, %v, expected %s", text, got, err, want)
		}
	}
}

func FuzzParseStart(f *testing.F) {
	for _, text := range []string{"12:00", "31 01:00", "27/02/29 01:00:61 -01:30", "9999/12/31 23:59"} {
		f.Add(text, int64(1795425041))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		at := time.Unix(now%(1<<40), 0).UTC()
		got, err := parseStart(text, at)
		if err == nil && len(text) < 14 && !got.After(at) { // the text contains no year
			t.Errorf("%q at %s is %s, which has been", text, at, got)
		}
	})
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "90": 90, "1:30": 90, "1:00:01": 3601, "0:0:5": 5, "": -1, "1h": -1, "-1": -1, "1:2:3:4": -1, ":1": -1} {
		got, err := seconds(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, expected %d", text, got, want)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(appendMessage(nil, []string{"wait", "", "-1"}))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte("\x01\x00\x00\x00x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		words, err := readMessage(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := readMessage(bytes.NewReader(appendMessage(nil, words)))
		if err != nil || !slices.Equal(again, words) {
			t.Errorf("%q becomes %q, %v", words, again, err)
		}
	})
}

func FuzzCheck(f *testing.F) {
	for name := range choices {
		f.Add(name, "y")
	}
	f.Add(outputPath, "host:/a")
	f.Add(environment, "A=1")
	f.Add(native, `-l h="a b" -o x`)
	f.Fuzz(func(t *testing.T, name, value string) {
		around := &surroundings{home: "/home/u", now: time.Unix(1795425041, 0)}
		if check(name, []string{value}) != nil {
			return
		}
		args, _, e := template{name: {value}, remoteCommand: {"/bin/true"}, arguments: {"last"}}.commandLine(around, "", "")
		if e == nil && len(args) < 6 {
			t.Errorf("%s=%q becomes %q", name, value, args)
		}
	})
}
