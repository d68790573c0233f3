package standalone

import (
	"testing"
	"time"
)

// TestZone checks which values of TZ name a time zone.
func TestZone(t *testing.T) {
	at := time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)
	const host = -1
	for name, want := range map[string]int{
		"":                          host,
		"Asia/Tokyo":                9 * 3600,
		":Asia/Tokyo":               9 * 3600,
		"UTC":                       0,
		"JST-9":                     9 * 3600,
		"UTC+5":                     -5 * 3600,
		"EAST05:30":                 -(5*3600 + 30*60),
		"<+0330>-3:30:15":           3*3600 + 30*60 + 15,
		":/etc/localtime":           host,
		"/etc/passwd":               host,
		"../../../../etc/localtime": host,
		"EST5EDT,M3.2.0,M11.1.0":    host,
		"nowhere":                   host,
	} {
		got := zone(name)
		if want == host {
			if got != time.Local {
				t.Errorf("TZ=%s: %v, expected the host's zone", name, got)
			}
		} else if _, offset := at.In(got).Zone(); offset != want || got == time.Local {
			t.Errorf("TZ=%s: %d s, expected %d", name, offset, want)
		}
	}
}
