package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestFrontTakesOver checks that a daemon of two processes continues with the running and the pending
// jobs of a daemon of one process, and that its launcher believes that users have submitted them.
// There is no way back.
func TestFrontTakesOver(t *testing.T) {
	t.Parallel()
	takesOver(t, "", nil)
}

// TestSoakFrontTakesOver does so with a daemon that is killed at each step.
func TestSoakFrontTakesOver(t *testing.T) {
	testenv.Soak(t)
	mortal := t.TempDir()
	if err := testenv.Build(mortal, "failpoint"); err != nil {
		t.Fatal(err)
	}
	testenv.LetIn(t, mortal)
	takesOver(t, mortal, []string{"divide-confirmed", "divide-confirmed", "divide-numbered", "divide-accounting", "divide-cell.db", "divide-scripts", "divide-given"})
}

func takesOver(t *testing.T, mortal string, points []string) {
	t.Helper()
	m := newFront(t, 4)
	two, usual := m.args, m.bin
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\n#"+strings.Repeat("x", 10_000)+"\necho \"$1 $SGE_TASK_ID $MINE\" >> "+out+"/log\nwhile ! test -e "+out+"/go; do sleep 0.1; done\n") // stored beside its record
	m.args = nil
	m.start()
	u := someUsers(t, 1)[0]
	submit := func(args ...string) string {
		t.Helper()
		r := m.as(u, "qsub", append([]string{"-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "-v", "MINE=a"}, args...)...)
		id, _, _ := strings.Cut(strings.TrimSpace(r.stdout), ".")
		if r.status != 0 || id == "" {
			t.Fatalf("qsub: %+v", r)
		}
		return id
	}
	runs := submit("job.sh", "runs")
	m.until("the job has begun", func() bool { return len(lines(t, out+"/log")) == 1 })
	held, array, short := submit("-h", "job.sh", "held"), submit("-h", "-t", "2-3", "job.sh", "array"), submit("-h", "-b", "y", "-N", "short", "true")
	m.daemon.Kill()
	if err := os.RemoveAll(filepath.Dir(m.socket())); err != nil { // another directory than the default one is not given away
		t.Fatal(err)
	}

	m.args = two
	for _, point := range points {
		m.bin, m.env = mortal, []string{"EXECD_FAILPOINT=" + point}
		m.start()
		m.bin, m.env = usual, nil
		_, gone := m.daemon.Process()
		<-gone
		if strings.Contains(m.log(), "is now for two processes") {
			t.Fatalf("%s was not met:\n%s", point, m.log())
		}
	}
	m.start()
	m.until("the daemon has the jobs", func() bool {
		list := m.root("qstat", "-u", "*").stdout
		return strings.Contains(list, runs+" ") && strings.Contains(list, held+" ") && strings.Contains(list, array+" ") && strings.Contains(list, short+" ")
	})
	if r := m.as(u, "qalter", "-N", "changed", short); r.status != 0 {
		t.Errorf("qalter: %+v", r)
	}
	m.as(u, "qrls", held, array, short)
	m.until("all tasks have begun", func() bool { return len(lines(t, out+"/log")) == 4 })
	testenv.WriteFile(t, out+"/go", "")
	m.until("all tasks are in the accounting", func() bool {
		return len(m.records(runs)) == 1 && len(m.records(held)) == 1 && len(m.records(array)) == 2 && len(m.records(short)) == 1
	})
	said := strings.Join(lines(t, out+"/log"), "|")
	for _, want := range []string{"runs undefined a", "held undefined a", "array 2 a", "array 3 a"} {
		if strings.Count(said, want) != 1 {
			t.Errorf("the jobs have said %q, expected %q once", said, want)
		}
	}
	if to, err := os.Readlink(filepath.Join(m.dir, "spool", "sge", "default", "common", "accounting")); err != nil || to != filepath.Join(m.place(), "accounting") {
		t.Errorf("the accounting file of the cell leads to %q (%v)", to, err)
	}
	m.refusedNothing()

	p, gone := m.daemon.Process()
	_ = p.Signal(syscall.SIGTERM)
	<-gone
	m.args = nil
	m.start()
	_, gone = m.daemon.Process()
	<-gone
	if !strings.Contains(m.log(), "a single process cannot use it") {
		t.Errorf("a daemon of one process: %s", m.log())
	}
	if text, err := os.ReadFile(filepath.Join(m.dir, "spool", "incarnation")); err != nil || !strings.Contains(string(text), "start it with --front-user") {
		t.Errorf("a daemon of an earlier version would read %q (%v)", text, err)
	}
	m.args = two
	m.start()
}
