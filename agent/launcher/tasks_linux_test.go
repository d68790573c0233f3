package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// parallelJob prepares a parallel job of a master, and returns its ID.
func (w *world) parallelJob(number int) job.ID {
	w.Helper()
	id := job.ID{Job: number}
	p := w.plan(id)
	p.Description.PE = &job.ParallelEnvironment{Name: "p", Slots: 1, HostFile: jobdir.Area(w.spool.Path()).JobPath(id) + "/" + jobdir.FilePEHosts}
	if err := w.ask(kindPrepare, &prepareBody{Plan: p, Script: true}, w.script()); err != nil {
		w.Fatal(err)
	}
	return id
}

// task returns the order for a task of a job.
func task(of job.ID, name string) *taskBody {
	of.PETask = name
	return &taskBody{ID: of, Command: []string{"/bin/echo", "\xff"}, Env: []string{"A=b"}, Record: []byte("{}\n")}
}

// TestTasksOfMasters checks that the launcher prepares tasks of the parallel jobs of a master. Orders about a task do not affect the
// job, and the job's removal removes its tasks.
func TestTasksOfMasters(t *testing.T) {
	w := newOrderedWorld(t)
	id := w.parallelJob(7)
	one, two := task(id, "1.host"), task(id, "2.host")
	for _, body := range []*taskBody{one, two} {
		var a jobAnswer
		w.must(kindPrepareTask, body, &a)
		if d := a.Description; d.ID != body.ID || d.Owner != "nobody" || d.Prolog != "" || string(a.State.Record) != "{}\n" {
			t.Errorf("the task is %+v", d)
		}
	}
	config, err := os.ReadFile(filepath.Join(jobdir.Area(w.spool.Path()).JobPath(one.ID), jobdir.FileConfig))
	if err != nil || !strings.Contains(string(config), "\xff") {
		t.Errorf("the arguments of the task: %v\n%s", err, config)
	}
	if err := w.ask(kindPrepareTask, one); err == nil || err.Code != "exists" {
		t.Errorf("a task again: %v", err)
	}
	if err := w.ask(kindRemove, &removeBody{ID: one.ID}); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(kindRemove, &removeBody{ID: id}); err != nil {
		t.Fatal(err)
	}
	for _, of := range []job.ID{one.ID, two.ID, id} {
		w.refusedWith("a removed job", w.ask(kindLaunch, &ofJob{of}), "neither prepared nor opened")
	}
	if err := w.ask(kindRemoveScript, &scriptBody{7}); err != nil {
		t.Fatal(err)
	}
	w.nothingIsHere()
}

// TestForgedTasks checks that a captured front starts only tasks of jobs of a trusted master, and cannot choose where the
// directory of a task is.
func TestForgedTasks(t *testing.T) {
	w := newOrderedWorld(t)
	id := w.parallelJob(7)
	serial := job.ID{Job: 8}
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(serial), Script: true}, w.script()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		forge func(b *taskBody)
		want  string
	}{
		"no task":                       {func(b *taskBody) { b.ID.PETask = "" }, "is not a task"},
		"a name that leads up":          {func(b *taskBody) { b.ID.PETask = "1./../../8.1" }, "is not a name"},
		"a name without a number":       {func(b *taskBody) { b.ID.PETask = "config" }, "expected a name of the form"},
		"a name without a host":         {func(b *taskBody) { b.ID.PETask = "1." }, "expected a name of the form"},
		"a name that is a directory":    {func(b *taskBody) { b.ID.PETask = ".." }, "expected a name of the form"},
		"a name of two lines":           {func(b *taskBody) { b.ID.PETask = "1.a\nb" }, "is not a name"},
		"a job that is not here":        {func(b *taskBody) { b.ID.Job = 9 }, "neither prepared nor opened"},
		"a record of two lines":         {func(b *taskBody) { b.Record = []byte("{}\nfile launch 7\nboot=x\n\n") }, "is not one line"},
		"a task of a serial job":        {func(b *taskBody) { b.ID.Job = 8 }, "not a parallel job"},
		"no command":                    {func(b *taskBody) { b.Command = nil }, "there is no command"},
		"a relative directory":          {func(b *taskBody) { b.Dir = "x" }, "not an absolute path"},
		"a variable that is none":       {func(b *taskBody) { b.Env = []string{"x"} }, "is not a variable"},
		"a command of two lines":        {func(b *taskBody) { b.Command[0] = "a\nqueue=x" }, ""},
		"a directory with a line break": {func(b *taskBody) { b.Dir = "/a\nqueue=x" }, ""},
	} {
		b := task(id, "1.host")
		c.forge(b)
		got := w.ask(kindPrepareTask, b)
		if got == nil || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: %v, expected an error with %q", name, got, c.want)
		}
	}
	for _, of := range []job.ID{id, serial} {
		if list, err := os.ReadDir(filepath.Join(jobdir.Area(w.spool.Path()).JobPath(of))); err != nil {
			t.Error(err)
		} else {
			for _, e := range list {
				if e.IsDir() {
					t.Errorf("job %s has the directory %s", of, e.Name())
				}
			}
		}
	}

	strict, _ := newStrictWorld(t)
	strict.refusedWith("a task without a master", strict.ask(kindPrepareTask, task(id, "1.host")), "needs a trusted master")
	p := strict.plan(id)
	p.Slave = true
	strict.refusedWith("a slave job without a master", strict.ask(kindPrepare, &prepareBody{Plan: p, Script: true}, strict.script()), "on one host only")
	p = strict.plan(id)
	p.Description.Relayed = true
	strict.refusedWith("a session of another client", strict.ask(kindPrepare, &prepareBody{Plan: p, Script: true}, strict.script()), "terminal of another kind")
}
