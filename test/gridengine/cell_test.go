package gridengine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestCell runs a few jobs in a whole cell, and checks the guarantees of the package: jobs run as
// the cell's users, results can be read, an execd can be restarted while a job runs, and no
// processes or files are left afterwards.
func TestCell(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	hostname, passwd := hostState(t)
	var id string
	t.Run("alive", func(t *testing.T) {
		cell := gridengine.Start(t, gridengine.Config{Env: []string{"FROM_EXECD=yes"}})
		id = namespace(t, cell)
		if len(members(t, id)) < 3 {
			t.Fatalf("processes of the cell: %v, want process 1, sge_qmaster, sge_execd", members(t, id))
		}
		if err := cell.AddQueues(gridengine.Queue{Name: "all.q", Attributes: map[string]string{"shell_start_mode": "unix_behavior"}}); err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\nid -un\necho $FROM_EXECD\nexit 3\n"
		if err := cell.AddFile("/home/alice/job.sh", script, 0o755); err != nil {
			t.Fatal(err)
		}
		job := submit(t, cell, "job.sh")
		array := submit(t, cell, "-t", "1-2", "-b", "y", "/bin/true")
		if err := cell.Wait(map[int]int{job: 1, array: 2}, time.Minute); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(cell.Path("/home/alice/job.sh.o" + strconv.Itoa(job)))
		if err != nil || string(text) != "alice\nyes\n" {
			t.Errorf("the job printed %q (%v)", text, err)
		}
		records, err := cell.Accounting(job, 0)
		if err != nil || len(records) != 1 || records[0]["exit_status"] != "3" || records[0]["failed"] != "0" {
			t.Errorf("accounting %v (%v), want one record with exit status 3", records, err)
		}
		qacct, err := cell.Root("qacct", "-j", strconv.Itoa(job))
		if err != nil || !strings.Contains(qacct, "exit_status  3") {
			t.Errorf("qacct says %v %q", err, qacct)
		}
		if records, err := cell.Accounting(array, 2); err != nil || len(records) != 1 {
			t.Errorf("accounting of task 2: %v (%v), want one record", records, err)
		}
		restartExecd(t, cell)
	})
	if left := members(t, id); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
	if h, p := hostState(t); h != hostname || p != passwd {
		t.Errorf("the machine's host name or passwd file changed: %q", h)
	}
}

// restartExecd stops and starts sge_execd while a job runs: the job must exist afterwards. It does
// not wait for the job's end, since execd checks for the end of a shepherd that it did not start
// only once a minute.
func restartExecd(t *testing.T, cell *gridengine.Cell) {
	job := submit(t, cell, "-b", "y", "/bin/sleep", "600")
	pid, err := cell.JobPID(job, 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := cell.StopExecd(); err != nil {
		t.Fatal(err)
	}
	if err := cell.StartExecd(); err != nil {
		t.Fatal(err)
	}
	if err := cell.Poll(time.Minute, "the master says that the job runs", func() (bool, error) {
		states, err := cell.JobStates()
		return states[job] == "r", errors.Join(err, fmt.Errorf("state %q", states[job]))
	}); err != nil {
		t.Error(err)
	}
	if state := cell.ProcessState(pid); state != "S" {
		t.Errorf("the job's process is in state %q, want S", state)
	}
}

func submit(t *testing.T, cell *gridengine.Cell, args ...string) int {
	t.Helper()
	job, err := cell.Submit("alice", args...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// hostState returns the state of the machine that a cell must not change.
func hostState(t *testing.T) (hostname, passwd string) {
	t.Helper()
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	return hostname, string(text)
}

// namespace identifies the process namespace of a cell.
func namespace(t *testing.T, cell *gridengine.Cell) string {
	t.Helper()
	id, err := os.Readlink(cell.Proc(1) + "/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// members lists the processes of a process namespace.
func members(t *testing.T, id string) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, name := range names {
		if target, _ := os.Readlink(name); target == id {
			pids = append(pids, name)
		}
	}
	return pids
}
