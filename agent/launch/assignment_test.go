package launch

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// TestDivideCommand checks that a shell gets the command as the user wrote it, except for a blank
// at the end of a line.
func TestDivideCommand(t *testing.T) {
	for command, want := range map[string][]string{
		"make all":                 {"make all"},
		"cd x && make\nls":         {"cd x &&", "make\nls"},
		"echo 'a\nb'\necho c d\n":  {"echo", "'a\nb'\necho c d\n"},
		"ls\ncd x y":               {"ls", "\ncd x y"},
		"\nls":                     {"", "\nls"},
		"x='\ny'":                  {"x='\ny'"},
		"ls\\\n -l":                {"ls\\\n -l"},
		"for i in a b; do\ndone\n": {"for i in a b;", "do\ndone\n"},
	} {
		d := &job.Description{Command: job.Command{File: command, Args: []string{"arg"}, Binary: true}}
		divideCommand(d)
		got := append([]string{d.Command.File}, d.Command.Args...)
		if strings.Join(got, "|") != strings.Join(append(want, "arg"), "|") {
			t.Errorf("%q: %q, expected %q and the argument", command, got, want)
		}
	}
	for name, change := range map[string]func(d *job.Description){
		"a script":              func(d *job.Description) { d.Command.Binary = false },
		"no shell":              func(d *job.Description) { d.Command.NoShell = true },
		"with a starter method": func(d *job.Description) { d.StarterMethod = "/s" },
	} {
		d := &job.Description{Command: job.Command{File: "a b\nc", Binary: true}}
		change(d)
		if divideCommand(d); d.Command.File != "a b\nc" || d.Command.Args != nil {
			t.Errorf("%s: %+v", name, d.Command)
		}
	}
}

// TestTaskIDInPaths checks $TASK_ID in the path of the output: it is the number of the task of an array job. For other
// jobs it is 0, or stays as it is with KeepTaskID.
func TestTaskIDInPaths(t *testing.T) {
	r, err := submit.Parse(submit.Input{Args: []string{"-o", "/tmp/o.$TASK_ID", "-b", "y", "true"}, Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Resolve(qconf.Builtin(1), r, "all.q", "host")
	if err != nil {
		t.Fatal(err)
	}
	o.Owner = &userdb.User{Name: "alice", UID: 2001, GID: 2001, Home: "/home/alice"}
	for _, c := range []struct {
		keep bool
		task int
		want string
	}{{false, 0, "/tmp/o.0"}, {true, 0, "/tmp/o.$TASK_ID"}, {false, 3, "/tmp/o.3"}, {true, 3, "/tmp/o.3"}} {
		o.KeepTaskID = c.keep
		d, err := o.Describe(job.ID{Job: 7, Task: c.task}, "/spool", "")
		if err != nil {
			t.Fatal(err)
		}
		if d.Streams[1].Path != c.want {
			t.Errorf("KeepTaskID %v, task %d: %q, want %q", c.keep, c.task, d.Streams[1].Path, c.want)
		}
	}
}
