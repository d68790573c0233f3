package qclient

import (
	"bytes"
	"testing"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/job"
)

// TestEndsInRecords reads the records of a job of which tasks have run more than once, with one of an
// earlier job of the same number. A task that was rescheduled, and then deleted, has no end.
func TestEndsInRecords(t *testing.T) {
	since := time.Unix(1000, 500)
	begun := time.Unix(1010, 0)
	var text []byte
	for _, r := range []accounting.Record{
		{Job: 7, Task: 1, Submitted: time.Unix(900, 0), Start: begun, ExitStatus: 1},
		{Job: 7, Task: 1, Submitted: time.Unix(1000, 0), Start: begun, ExitStatus: 99, Failed: job.FailedReschedule},
		{Job: 7, Task: 2, Submitted: time.Unix(1000, 0), Start: begun, ExitStatus: 4},
		{Job: 7, Task: 3, Submitted: time.Unix(1000, 0), Start: begun, ExitStatus: 99, Failed: job.FailedReschedule},
		{Job: 7, Task: 4, Submitted: time.Unix(1000, 0), Start: begun, Failed: job.FailedMigrate},
		{Job: 8, Task: 1, Submitted: time.Unix(1000, 0), Start: begun, ExitStatus: 5},
		{Job: 7, Task: 1, Submitted: time.Unix(1000, 0), Start: begun, ExitStatus: 3},
	} {
		text = accounting.AppendClassic(text, &r)
	}
	ends, err := endsIn(t.Context(), bytes.NewReader(text), 7, since)
	if err != nil {
		t.Fatal(err)
	}
	status := map[uint32]int{}
	for _, e := range ends {
		status[e.Task] = e.ExitStatus
	}
	if len(ends) != 2 || status[1] != 3 || status[2] != 4 {
		t.Errorf("%+v", ends)
	}
}
