package command

import (
	"strings"
	"testing"
	"time"
)

// TestDatesAreInTheZoneOfTheUser checks that a date that a user types means the same as with the
// original: the time in the user's own time zone, whatever that of the daemon is.
func TestDatesAreInTheZoneOfTheUser(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*60*60)
	w := configured(t)
	w.in.Zone = tokyo
	shows := func(zone *time.Location, line, want string) {
		t.Helper()
		w.in.Zone = zone
		if r := w.line("alice", line); !strings.Contains(r.Stdout, want) {
			t.Errorf("%s in %v: %q, expected %q; %s", line, zone, r.Stdout, want, r.Stderr)
		}
	}
	shows(tokyo, "qsub -h -N one -a 203001010000 job.sh", "has been submitted")
	shows(tokyo, "qstat -j one", "Tue Jan  1 00:00:00 2030")
	shows(time.UTC, "qstat -j one", "Mon Dec 31 15:00:00 2029")
	shows(tokyo, "qalter -a 203002010800.30 one", "modified start time")
	shows(time.UTC, "qstat -j one", "Thu Jan 31 23:00:30 2030")
	shows(time.UTC, "qresub 1", "Your job 2")
	shows(time.UTC, "qstat -j 2", "Thu Jan 31 23:00:30 2030")
	w.in.Zone = tokyo
	w.line("root", "qrsub -N later -a 203001010000 -d 60")
	shows(time.UTC, "qrstat -u root", "12/31/2029 15:00:00")
}
