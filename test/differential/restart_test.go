package differential

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/execd-project/execd/test/gridengine"
)

// TestRestartOfExecd stops and starts sge_execd while a job runs under this project's shepherd.
// sge_execd recognizes its shepherds by the name that ps prints. Under another name it declares the
// job dead, and puts the host into error state, while the job continues.
func TestRestartOfExecd(t *testing.T) {
	require(t)
	cell := gridengine.Start(t, gridengine.Config{Shepherd: shepherdUnderTest(t)})
	if err := cell.AddQueues(gridengine.Queue{Name: "all.q"}); err != nil {
		t.Fatal(err)
	}
	job, err := cell.Submit("alice", "-b", "y", "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := cell.JobPID(job, 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	running := func() {
		t.Helper()
		if err := cell.Poll(time.Minute, "the master says that the job runs", func() (bool, error) {
			states, err := cell.JobStates()
			return states[job] == "r", errors.Join(err, fmt.Errorf("state %q", states[job]))
		}); err != nil {
			t.Fatalf("%v\n%s", err, complaints(cell.Messages()))
		}
	}
	running()
	for range 2 {
		if err := cell.StopExecd(); err != nil {
			t.Fatal(err)
		}
		if err := cell.StartExecd(); err != nil {
			t.Fatalf("%v\n%s", err, cell.Messages())
		}
	}
	running()
	// A job that was declared dead has a record, and is started again.
	records, err := cell.Accounting(job, 0)
	if again, _ := cell.JobPID(job, 0, time.Minute); err != nil || len(records) > 0 || again != pid || cell.ProcessState(pid) == "" {
		t.Errorf("after the restart there are the records %v (%v) and process %d (%q); want none and process %d\n%s",
			records, err, again, cell.ProcessState(pid), pid, complaints(cell.Messages()))
	}
	// The new execd must reach the shepherd that it did not start. It notices the end of the job
	// only with a check once a minute.
	if _, err := cell.User("alice", "qdel", strconv.Itoa(job)); err != nil {
		t.Fatal(err)
	}
	if err := cell.Poll(time.Minute, "the job's process has ended", func() (bool, error) {
		return cell.ProcessState(pid) == "", nil
	}); err != nil {
		t.Error(err)
	}
}
