package launch

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// parallel returns an order for a parallel job of two slots.
func (p *place) parallel(t testing.TB, command string) *Assignment {
	t.Helper()
	o := must(p.order(command, "-v", "OF_JOB=1,BOTH=job"))
	o.PE, o.Slots = &qconf.ParallelEnvironment{Name: "mpi", Start: "/bin/false", Stop: "/bin/false", ControlSlaves: true}, 2
	return o
}

func taskOf(t testing.TB, parent *Job, name string, command ...string) *Job {
	t.Helper()
	id := parent.Description.ID
	id.PETask = name
	task, err := PrepareTask(parent, id, command, "", []string{"OF_TASK=2", "BOTH=task", "JOB_ID=9", "PE_HOSTFILE=/x"}, []byte("task\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = task.Close() })
	return task
}

// TestTask goes through a task of a job whose master task is on another host.
func TestTask(t *testing.T) {
	p := newPlace(t)
	o := p.parallel(t, "true")
	o.Record = []byte("slave\n")
	slave, err := PrepareSlave(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	if err := slave.Launch(realSupervisor(t)); err == nil {
		t.Fatal("it was launched")
	}
	_ = slave.Close()
	slave = p.reopen(t, seven, Slave)
	if b, _, err := slave.Dir.Start(); string(b) != "slave\n" {
		t.Errorf("the record is %q, %v", b, err)
	}
	// As a prolog does. A line that is not a variable is no reason to forget the job.
	edited, err := os.OpenFile(slave.Dir.Path()+"/"+jobdir.FileEnvironment, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = edited.WriteString("EDITED=1\nBOTH=prolog\nno variable\nLAST=2")
	if err := errors.Join(err, edited.Close(), slave.Dir.WriteNumber(jobdir.FilePID, 1<<30), slave.Close()); err != nil {
		t.Fatal(err)
	}
	slave = p.reopen(t, seven, Slave)
	task := taskOf(t, slave, "1.host", "sh", "-c", "{ pwd; env; } > "+p.dir+"/out/a; echo > $TMPDIR/of-task; exit 6")
	if names, err := slave.Dir.PETasks(); len(names) != 1 || names[0] != "1.host" {
		t.Errorf("tasks %q, %v", names, err)
	}
	if _, err := PrepareTask(slave, task.Description.ID, []string{"true"}, "", nil, nil); !errors.Is(err, jobdir.ErrExists) {
		t.Errorf("the same task again: %v", err)
	}
	launched(t, task)
	waited(t, task)
	_ = task.Close()
	task = p.reopen(t, task.Description.ID, Over)
	if b, _, err := task.Dir.Start(); string(b) != "task\n" {
		t.Errorf("the record of the task is %q, %v", b, err)
	}
	if out := task.Collect(0); out.ExitStatus != 6 || out.Failed != 0 {
		_, text, _ := task.Dir.FirstError()
		t.Errorf("outcome %+v, %s", out, text)
	}
	tmpdir := slave.Description.Tmpdir
	b, err := os.ReadFile(p.dir + "/out/a")
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, want := range []string{
		"/", "OF_JOB=1", "OF_TASK=2", "BOTH=task", "EDITED=1", "LAST=2", "JOB_ID=7", "JOB_NAME=petask", "TMPDIR=" + tmpdir, "NSLOTS=2", "PE=mpi",
		"SGE_JOB_SPOOL_DIR=" + task.Dir.Path(),
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the task does not see %s: %q, %v", want, lines, err)
		}
	}
	if strings.Contains(string(b), "PE_HOSTFILE") {
		t.Error("the task sees PE_HOSTFILE")
	}
	if err := task.Remove(false); err != nil {
		t.Error(err)
	}
	if !exists(tmpdir + "/of-task") {
		t.Error("the TMPDIR went with the task")
	}
	if err := slave.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
}

// TestTasksGoWithTheirJob checks that the directory of a job is not removed while one of its tasks
// runs, and that it is removed with the directories of its tasks.
func TestTasksGoWithTheirJob(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	p := newPlace(t)
	o := p.parallel(t, "sleep 1000")
	o.PE.Start, o.PE.Stop = "", ""
	o.Groups = p.groups(t, o)
	if os.Getuid() == 0 {
		o.Privileged, o.Config.GIDRange = true, []qconf.Range{{First: 54420, Last: 54429}}
	}
	parent, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, parent)
	until(t, "the job", parent.Running)
	_ = parent.Close()
	// As after a restart: what tasks need is in the directory.
	if parent, _, err = Open(p.spool, o.Groups, nil, seven); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Close() })
	task := taskOf(t, parent, "1.host", "sh", "-c", spread(p.dir+"/out"))
	if task.group == nil || parent.group == nil || task.group.Dirs[0] == parent.group.Dirs[0] {
		t.Errorf("groups %+v and %+v", task.group, parent.group)
	}
	if a, b := task.Description.AddGroupID, parent.Description.AddGroupID; o.Privileged && (a == 0 || a == b) {
		t.Errorf("group ids %d and %d", a, b)
	}
	launched(t, task)
	var pids []int
	for _, name := range []string{"first", "session", "inner"} {
		pids = append(pids, pidIn(t, p.dir+"/out/"+name))
	}
	unfinished := taskOf(t, parent, "2.host", "true")
	if err := unfinished.Dir.Remove(jobdir.FileConfig); err != nil {
		t.Fatal(err)
	}
	prepared := taskOf(t, parent, "3.host", "true")
	_ = prepared.Close()

	parent.Destroy()
	status := waited(t, parent)
	parent.Collect(status)
	for _, pid := range pids {
		if !alive(pid) {
			t.Error("a process of the task has ended with the job")
		}
	}
	if err := parent.Remove(false); !errors.Is(err, ErrSupervised) {
		t.Errorf("removed with a task that runs: %v", err)
	}
	task.Destroy()
	task.Collect(waited(t, task))
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d of the task lives", pid)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if err := parent.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
}

// TestTaskRefused checks that invalid tasks are refused.
func TestTaskRefused(t *testing.T) {
	p := newPlace(t)
	serial := p.prepare(t, job.ID{Job: 8}, "true")
	parent, err := Prepare(p.spool, p.parallel(t, "true"), seven)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Close() })
	for name, c := range map[string]struct {
		parent  *Job
		id      job.ID
		command []string
		dir     string
		env     []string
		want    string
	}{
		"of a serial job":         {serial, job.ID{Job: 8, PETask: "1.host"}, []string{"true"}, "", nil, "it is not a parallel job"},
		"of another job":          {parent, job.ID{Job: 8, PETask: "1.host"}, []string{"true"}, "", nil, "8/1.host is not a task of this job"},
		"without a name":          {parent, seven, []string{"true"}, "", nil, "7 is not a task of this job"},
		"a name that leads away":  {parent, job.ID{Job: 7, PETask: "../x.y"}, []string{"true"}, "", nil, "is not the ID of a task"},
		"without a command":       {parent, job.ID{Job: 7, PETask: "1.host"}, nil, "", nil, "there is no command"},
		"in a relative directory": {parent, job.ID{Job: 7, PETask: "1.host"}, []string{"true"}, "x", nil, `"x" is not an absolute path`},
		"a variable without name": {parent, job.ID{Job: 7, PETask: "1.host"}, []string{"true"}, "", []string{"=x"}, `"=x" is not a variable`},
		"a NUL in a variable":     {parent, job.ID{Job: 7, PETask: "1.host"}, []string{"true"}, "", []string{"A=\x00"}, "NUL"},
		"a NUL in an argument":    {parent, job.ID{Job: 7, PETask: "1.host"}, []string{"true", "\x00"}, "", nil, "NUL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := PrepareTask(c.parent, c.id, c.command, c.dir, c.env, nil)
			if _, ok := errors.AsType[*TaskError](err); !ok && !strings.Contains(c.want, "not the ID of a task") {
				t.Errorf("%T", err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %s", err, c.want)
			}
			if names, err := c.parent.Dir.PETasks(); len(names) > 0 {
				t.Errorf("left: %q, %v", names, err)
			}
		})
	}
}
