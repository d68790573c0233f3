package command

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
)

const start = 1_700_000_000 // 2023-11-14 22:13:20 UTC

// files are those of a configuration directory, by name and text in turn, on top of a
// small one.
func files(t testing.TB, pairs ...string) *qconf.Cluster {
	t.Helper()
	fsys := fstest.MapFS{}
	for i := 0; i+1 < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	c, err := qconf.Load(fsys, base(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func base(t testing.TB) *qconf.Cluster {
	t.Helper()
	c, err := qconf.BuiltinOn("node1", 4)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a cell and what commands are typed in.
type world struct {
	t    testing.TB
	cell *cell.Cell
	now  int64
	in   Input        // but for the command line
	dir  fstest.MapFS // the configuration directory
}

func newWorld(t testing.TB, pairs ...string) *world {
	t.Helper()
	w := &world{t: t, now: start, dir: fstest.MapFS{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		w.dir[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	w.cell = cell.New(start, files(t, pairs...), cell.Options{Up: []string{"node1"}, Operators: []string{"olga"}})
	return w
}

// run runs a command line as a user.
func (w *world) run(user, name string, args ...string) *Result {
	w.t.Helper()
	in := w.in
	in.Name, in.Args, in.By = name, args, cell.Caller{User: user, Group: "users", Host: "node1"}
	if in.Dir == "" {
		in.Dir, in.Home = "/work", "/home/"+user
	}
	if in.Files == nil {
		in.Files = map[string][]byte{"job.sh": []byte("#!/bin/sh\ntrue\n")}
	}
	for files, _ := Needs(&in); len(files) > 0; files, _ = Needs(&in) {
		if in.Unreadable == nil {
			in.Unreadable = map[string]string{}
		}
		for _, f := range files {
			in.Unreadable[f.Name] = "No such file or directory"
		}
	}
	r := Run(w.cell, w.now, &in)
	w.take(r)
	return r
}

// take writes what a command has changed, and has the cell read the directory again. What
// the command has made of the configuration must be the same.
func (w *world) take(r *Result) {
	w.t.Helper()
	if (r.Cluster != nil) != (len(r.Writes) > 0) {
		w.t.Fatalf("a configuration with %d files to write", len(r.Writes))
	}
	if r.Cluster == nil {
		return
	}
	for _, x := range r.Writes {
		if folder, _, ok := strings.Cut(x.Path, "/"); ok {
			w.dir[folder] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		}
		if x.Remove {
			delete(w.dir, x.Path)
		} else {
			w.dir[x.Path] = &fstest.MapFile{Data: x.Text}
		}
	}
	next, err := qconf.Load(w.dir, base(w.t))
	if err != nil {
		w.t.Fatalf("what was written cannot be read: %v", err)
	}
	if d := cmp.Diff(plain(r.Cluster), plain(next)); d != "" {
		w.t.Errorf("what was written is another configuration (-promised +written):\n%s", d)
	}
	if _, err := w.cell.Reconfigure(w.now, r.Cluster); err != nil {
		w.t.Fatal(err)
	}
}

func plain(c *qconf.Cluster) map[string]string {
	all := map[string]string{}
	for name, t := range texts(c) {
		all[name] = string(t.text)
	}
	return all
}

// line calls run for a command line whose words have no blanks.
func (w *world) line(user, text string) *Result {
	w.t.Helper()
	words := strings.Fields(text)
	return w.run(user, words[0], words[1:]...)
}

// says fails the test if a command line prints anything else, or its exit status is
// another one.
func (w *world) says(user, text, stdout, stderr string, exit int) {
	w.t.Helper()
	r := w.line(user, text)
	if d := cmp.Diff(stdout, r.Stdout); d != "" {
		w.t.Errorf("%s: %s prints otherwise (-want +got):\n%s", user, text, d)
	}
	if d := cmp.Diff(stderr, r.Stderr); d != "" {
		w.t.Errorf("%s: %s complains otherwise (-want +got):\n%s", user, text, d)
	}
	if r.Exit != exit {
		w.t.Errorf("%s: %s exits with %d, not %d", user, text, r.Exit, exit)
	}
}

// schedule makes a scheduling run, whose tasks start at once.
func (w *world) schedule() {
	w.t.Helper()
	r := w.cell.Schedule(w.now)
	for _, a := range r.Actions {
		if a.Kind == cell.StartTask {
			if err := w.cell.TaskStarted(w.now, a.Task.Job.ID(), a.Task.Number, a.Attempt); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}
