package client

import (
	"testing"
	"time"
)

// FuzzRecords reads any text as the output of qacct -j.
func FuzzRecords(f *testing.F) {
	f.Add("==============\nqname        all.q               \ntaskid       3\nfailed       100 : assumedly after job\n" +
		"exit_status  137                  (Killed)\nru_wallclock 1s\ncpu          0.235s\nmem          3.896MBs\nmaxvmem      16.605MB\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range parseRecords(text) {
			if r.Signal < 0 || r.Signal > 0 && r.ExitStatus != r.Signal+128 {
				t.Errorf("signal %d, exit status %d", r.Signal, r.ExitStatus)
			}
		}
	})
}

// TestRecord reads a record of a task that was killed.
func TestRecord(t *testing.T) {
	list := parseRecords("==============================================================\nqname        all.q               \nhostname     node1               \n" +
		"taskid       3                   \nstart_time   Mon Nov 23 12:40:52 2026\nslots        4                   \nfailed       100 : assumedly after job\n" +
		"exit_status  137                  (Killed)\nru_wallclock 1.5s\ncpu          0.235s\nmem          3.896MBs\nio           2.000GB\nmaxvmem      16.605MB\n")
	if len(list) != 1 {
		t.Fatalf("%d records", len(list))
	}
	r := list[0]
	if r.Task != 3 || r.Usage.Task != 3 || r.Slots != 4 || r.Failed != 100 || r.FailedText != "assumedly after job" || r.ExitStatus != 137 || r.Signal != 9 ||
		r.WallClock != 1500*time.Millisecond || r.CPU != 235*time.Millisecond || r.IO != 2 || r.MaxVMem != 17411604 || r.Start.Year() != 2026 || !r.End.IsZero() {
		t.Errorf("%+v", r)
	}
}

func TestClock(t *testing.T) {
	for text, want := range map[string]time.Duration{"00:01:02": 62 * time.Second, "2:00:00:01": 48*time.Hour + time.Second, "N/A": 0, "": 0} {
		if got := clock(text); got != want {
			t.Errorf("clock(%q) = %v, want %v", text, got, want)
		}
	}
}
