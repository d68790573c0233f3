package launch

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// TestMigration checks that a job that migrates continues from its checkpoint with the same number,
// and that the directory of its first run is kept.
func TestMigration(t *testing.T) {
	p := newPlace(t)
	order := func(r job.Restart, pid int) *Assignment {
		o := must(p.order("echo $RESTARTED > " + p.dir + "/out/first; exec sleep 1000"))
		o.Ckpt = &qconf.Checkpoint{
			Name: "c", Interface: "hibernator", When: "x", Dir: p.dir + "/out",
			MigrationCommand: "/bin/kill -KILL $job_pid", RestartCommand: "echo $job_pid $RESTARTED > " + p.dir + "/out/again",
		}
		o.Restarted, o.CheckpointPID = r, pid
		return o
	}
	j, err := Prepare(p.spool, order(job.FirstRun, 0), seven)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, j)
	until(t, "the job", j.Running)
	pidIn(t, p.dir+"/out/first")
	if !j.Migrates() {
		t.Error("it does not migrate when it is suspended")
	}
	pid, err := j.Dir.ReadNumber(jobdir.FileJobPID)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Suspend(); err != nil {
		t.Fatal(err)
	}
	out := j.Collect(waited(t, j))
	if out.Failed != job.FailedMigrate || out.Restart != job.RestartedFromCkpt || out.CheckpointPID != pid {
		t.Errorf("outcome %+v, the job was process %d", out, pid)
	}
	next := order(out.Restart, out.CheckpointPID)
	if _, err := Prepare(p.spool, next, seven); !errors.Is(err, jobdir.ErrExists) {
		t.Errorf("prepared while the former run is there: %v", err)
	}
	if err := j.Remove(true); err != nil {
		t.Fatal(err)
	}
	if j, err = Prepare(p.spool, next, seven); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	j = p.reopen(t, seven, Prepared)
	launched(t, j)
	out = j.Collect(waited(t, j))
	b, err := os.ReadFile(p.dir + "/out/again")
	if want := strconv.Itoa(pid) + " 2"; out.Failed != 0 || strings.TrimSpace(string(b)) != want {
		t.Errorf("restarted with %q, %v, expected %q; outcome %+v", b, err, want, out)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	if !exists(p.spool.JobPath(seven) + ".0") {
		t.Error("the directory of the first run is not kept")
	}
}

// TestScriptIsSharedByTasksOfJob checks that the tasks of a job share one script, and that the
// script of another job replaces it.
func TestScriptIsSharedByTasksOfJob(t *testing.T) {
	p := newPlace(t)
	o := must(p.order("true"))
	o.Request.Binary = false
	for _, script := range []string{"#!/bin/sh\nfirst\n", "#!/bin/sh\nfirst\n", "#!/bin/sh\nother\n", "", ""} {
		o.Request.Script = []byte(script)
		if err := StoreScript(p.spool, o, 7); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(p.spool.ScriptPath(7))
		if string(b) != script {
			t.Errorf("the script is %q, %v, expected %q", b, err, script)
		}
	}
	for range 2 {
		if err := RemoveScript(p.spool, o, 7); err != nil {
			t.Error(err)
		}
	}
	p.nothingLeft(t)
}
