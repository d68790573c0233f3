package cluster

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/test/gridengine"
)

// TestProcedures checks that a host with a file of permitted procedures runs no other program of its
// cell as another user, and refuses the job before any part of it has run. Without such a file it runs
// all programs, as sge_execd does.
func TestProcedures(t *testing.T) {
	const (
		procedures = "/home/cell/procedures"
		seen       = "/home/cell/seen" // a line for each program that has run
		program    = gridengine.BinDir + "/procedure"
	)
	c := start(t, gridengine.Config{})
	if err := c.AddFile(program, "#!/bin/sh\necho $1 $(id -u) >>"+seen+"\n", 0o755); err != nil {
		t.Fatal(err)
	}
	c.queue("all.q", map[string]string{"prolog": "root@" + program + " prolog", "epilog": "root@" + program + " epilog $job_id"})
	job := func() int {
		return c.qsub("-o", "/home/alice/out", "-j", "y", c.script("job.sh", "echo job $JOB_ID\n"))
	}
	text := func(path string) string {
		b, err := os.ReadFile(c.Path(path))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	c.ended(job(), 0, 1)
	if got := text(seen); got != "prolog 0\nepilog 0\n" {
		t.Fatalf("without the file %q has run", got)
	}

	// The file permits one of the two programs.
	write := func(lines string) {
		t.Helper()
		if err := c.AddFile(procedures, lines, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("root " + program + " prolog\n")
	c.anotherAgent("--procedures", procedures)
	id := job()
	refused := func(id int, reason string) {
		t.Helper()
		c.until("the queue is in error state", func() bool {
			return strings.Contains(c.root("qstat", "-f", "-explain", "E"), "QERROR as result of job "+strconv.Itoa(id))
		})
		if !strings.Contains(c.Messages(), reason) {
			t.Errorf("the master does not know the reason: %s", reason)
		}
	}
	refused(id, "epilog: this host does not run")
	if state := c.root("qstat", "-u", "*", "-s", "p"); !strings.Contains(state, " qw ") {
		t.Errorf("the job is held responsible:\n%s", state)
	}
	if got := text(seen); strings.Count(got, "\n") != 2 {
		t.Errorf("has run: %q", got)
	}
	if out := text("/home/alice/out"); strings.Contains(out, strconv.Itoa(id)) {
		t.Errorf("the job has run: %q", out)
	}

	// A line for the other program takes effect at once.
	write("root " + program + " prolog\nroot " + program + " epilog *\n")
	c.root("qmod", "-cq", "all.q")
	c.until("the job has run with both", func() bool { return text(seen) == "prolog 0\nepilog 0\nprolog 0\nepilog 0\n" })

	// A file that everybody can write permits nothing.
	if err := os.Chmod(c.Path(procedures), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(job(), "may be written by everybody")
	if got := text(seen); strings.Count(got, "\n") != 4 {
		t.Errorf("has run: %q", got)
	}
}
