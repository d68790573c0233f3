package standalone

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWaitAndEfficiency waits for jobs that end in all ways, also over a restart of the daemon, and
// looks at what seff says of one of them.
func TestWaitAndEfficiency(t *testing.T) {
	m := newMachine(t, 4)
	u := someUsers(t, 1)[0]
	m.start()
	dir := m.open("tmp")
	m.write("tmp/job.sh", "#!/bin/sh\nexit ${SGE_TASK_ID#undefined}\n")
	m.write("tmp/gate.sh", "#!/bin/sh\nread line <gate\nexit 7\n")
	submit := func(words ...string) {
		t.Helper()
		if r := m.as(u, "qsub", append([]string{"-wd", dir, "-j", "y", "-o", "/dev/null"}, words...)...); r.status != 0 {
			t.Fatalf("qsub %v: %+v", words, r)
		}
	}
	waits := func(status int, text string, jobs ...string) {
		t.Helper()
		if r := m.as(u, "../execd", append([]string{"wait"}, jobs...)...); r.status != status || !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("execd wait %v: %+v, expected status %d and %q", jobs, r, status, text)
		}
	}

	submit("-l", "h_vmem=2G,h_rt=1:0:0", "-b", "y", "true")
	waits(0, "Job 1 exited with status 0", "1")
	submit("-t", "1-3", dir+"/job.sh")
	waits(1, "Job 2 finished: 3 of 3 tasks failed, the first is task 1: exited with status 1", "1", "2")
	submit("-h", "-b", "y", "true")
	if r := m.as(u, "qdel", "3"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	waits(1, "Job 3 is unknown", "3") // it has left without a trace
	waits(1, "Job 9 is unknown", "9")
	waits(2, `invalid job "0"`, "0")

	// The daemon is killed and started again while a command waits.
	gate := filepath.Join(dir, "gate")
	if err := errors.Join(unix.Mkfifo(gate, 0o666), os.Chmod(gate, 0o666)); err != nil {
		t.Fatal(err)
	}
	door, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	submit(dir + "/gate.sh")
	ended := make(chan result, 1)
	go func() { ended <- m.as(u, "../execd", "wait", "4") }()
	m.until("the job runs", func() bool { return strings.Contains(m.as(u, "qstat", "-s", "r").stdout, "gate.sh") })
	m.daemon.Kill()
	m.start()
	if _, err := door.WriteString("go on\n"); err != nil {
		t.Fatal(err)
	}
	if r := <-ended; r.status != 7 || !strings.Contains(r.stderr, "Job 4 exited with status 7") {
		t.Errorf("a command that waited while the daemon was killed: %+v", r)
	}

	var seen struct {
		Job, Records, Failed, Slots int
		TimeLimit                   int
		MemoryRequested             int64
		Request                     string
	}
	r := m.as(u, "../execd", "seff", "--json", "1")
	if err := json.Unmarshal([]byte(r.stdout), &seen); r.status != 0 || err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	if got, want := fmt.Sprintf("%+v", seen), "{Job:1 Records:1 Failed:0 Slots:1 TimeLimit:3600 MemoryRequested:2147483648 Request:h_vmem=2G}"; got != want {
		t.Errorf("execd seff --json 1: %s, expected %s", got, want)
	}
	if r := m.as(u, "../execd", "report", "--by", "queue"); r.status != 0 || !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), " all.q 5 4 ") {
		t.Errorf("execd report: %+v", r)
	}
	if r := m.as(u, "../execd", "seff", "2", "2.3", "9"); r.status != 1 || !strings.Contains(r.stdout, "3 of 3 runs failed") ||
		!strings.Contains(r.stdout, "finished with exit status 3") || !strings.Contains(r.stderr, "job 9 has no accounting record") {
		t.Errorf("execd seff 2 2.3 9: %+v", r)
	}
}
