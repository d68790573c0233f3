package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/test/gridengine"
)

// printed is the result of a command line.
type printed struct {
	Stdout, Stderr string
	Exit           int
}

// ours is a cell of this project with the configuration of the real one.
type ours struct {
	t     *testing.T
	cell  *cell.Cell
	dir   fstest.MapFS
	files map[string][]byte
	now   int64
}

const host = "cellhost"

// ids maps users to their user and group IDs.
var ids = map[string]int{"alice": gridengine.AliceUID, "bob": gridengine.BobUID}

// copyCell creates a cell like the real one: with its configuration and the load report of its
// host.
func copyCell(t *testing.T, original *gridengine.Cell, files map[string]string) *ours {
	t.Helper()
	o := &ours{t: t, dir: fstest.MapFS{}, files: map[string][]byte{}, now: time.Now().Unix()}
	show := func(name string, args ...string) string {
		text, err := original.Root(append([]string{"qconf"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			o.dir[name] = &fstest.MapFile{Data: []byte(text)}
		}
		return text
	}
	show("conf/global", "-sconf")
	show("complexes", "-sc")
	show("sched_conf", "-ssconf")
	for list, where := range map[string][2]string{
		"-sql": {"queues", "-sq"}, "-sel": {"hosts", "-se"}, "-spl": {"pes", "-sp"}, "-sul": {"usersets", "-su"},
	} {
		for name := range strings.FieldsSeq(show("", list)) {
			show(where[0]+"/"+name, where[1], name)
		}
	}
	for _, folder := range []string{"ckpts", "calendars", "projects", "hostgroups", "users"} {
		o.dir[folder] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	cluster, err := qconf.Load(o.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.cell = cell.New(o.now, cluster, cell.Options{Managers: []string{"sgeadmin"}})
	values := map[string]string{"arch": "lx-amd64", "num_proc": "2", "load_avg": "0.5", "np_load_avg": "0.25", "m_topology": "SCC", "m_socket": "1", "m_core": "2", "m_thread": "2"}
	if _, err := o.cell.HostReport(o.now, host, values); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		o.files[name] = []byte(text)
	}
	return o
}

// run runs a command line in this cell.
func (o *ours) run(user string, words []string) printed {
	o.t.Helper()
	home := "/home/" + user
	group := user
	if user == "root" {
		home = "/root"
	}
	in := &command.Input{
		Name: words[0], Args: words[1:], By: cell.Caller{User: user, Group: group, Host: host, Origin: &cell.Origin{UID: ids[user], GID: ids[user]}}, Dir: home, Home: home, Host: host,
		Files: o.files, Unreadable: map[string]string{}, Environment: []string{"SGE_SINGLE_LINE=1", "HOME=" + home, "LOGNAME=" + user, "PATH=/usr/lib/gridengine:/usr/bin:/bin", "SHELL=/bin/bash"},
	}
	for files, _ := command.Needs(in); len(files) > 0; files, _ = command.Needs(in) {
		for _, f := range files {
			in.Unreadable[f.Name] = "no such file or directory"
		}
	}
	r := command.Run(o.cell, o.now, in)
	for _, w := range r.Writes {
		o.dir[path.Dir(w.Path)] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		if w.Remove {
			delete(o.dir, w.Path)
		} else {
			o.dir[w.Path] = &fstest.MapFile{Data: w.Text}
		}
	}
	delete(o.dir, ".")
	if r.Cluster != nil {
		next, err := qconf.Load(o.dir, nil)
		if err == nil {
			_, err = o.cell.Reconfigure(o.now, next)
		}
		if err != nil {
			o.t.Errorf("%q leaves a configuration that cannot be read: %v", words, err)
		}
	}
	return printed{r.Stdout, r.Stderr, r.Exit}
}

// runReal runs a command line in the real cell.
func runReal(t *testing.T, original *gridengine.Cell, user string, words []string) printed {
	t.Helper()
	// Both streams go through files, because the test sees standard error only in errors.
	const script = `"$@" >/tmp/out 2>/tmp/err </dev/null; echo $? >/tmp/exit; chmod 666 /tmp/out /tmp/err /tmp/exit 2>/dev/null; cat /tmp/out; echo; echo "=== 2"; cat /tmp/err; echo; echo "=== 3"; cat /tmp/exit; rm -f /tmp/out /tmp/err /tmp/exit`
	args := append([]string{"sh", "-c", script, "sh"}, words...)
	run := func() (string, error) {
		if user == "root" {
			return original.Root(args...)
		}
		return original.User(user, args...)
	}
	text, err := run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	stdout, rest, _ := strings.Cut(text, "\n=== 2\n")
	stderr, status, _ := strings.Cut(rest, "\n=== 3\n")
	p := printed{Stdout: stdout, Stderr: stderr}
	if _, err := fmt.Sscan(status, &p.Exit); err != nil {
		t.Fatalf("%q: %q: %v", words, text, err)
	}
	return p
}

// usage matches the original's list of options, which differs from this project's.
var (
	usage     = regexp.MustCompile(`(?ms)^SGE 8\.1\.9\nusage: .*?\n((?:ERROR!|error:|invalid|-).*|\z)`)
	temporary = regexp.MustCompile(`/tmp/pid-[^"]*`)
	date      = regexp.MustCompile(`\d\d/\d\d/\d{4} \d\d:\d\d:\d\d|(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}`)
	nearest   = regexp.MustCompile(`(?m)^did you mean .*\n`)
	load      = regexp.MustCompile(`(?m)(\d+/\d+/\d+ +)(?:\d+\.\d+|-NA-) +`)
)

func normal(p printed) printed {
	for _, s := range []*string{&p.Stdout, &p.Stderr} {
		*s = usage.ReplaceAllString(*s, "usage\n$1")
		*s = temporary.ReplaceAllString(*s, "FILE")
		*s = date.ReplaceAllString(*s, "DATE")
		*s = nearest.ReplaceAllString(*s, "")
		*s = load.ReplaceAllString(*s, "${1}LOAD ")
	}
	return p
}

func difference(want, got printed) string {
	split := func(p printed) map[string]any {
		return map[string]any{"stdout": strings.Split(p.Stdout, "\n"), "stderr": strings.Split(p.Stderr, "\n"), "exit": p.Exit}
	}
	return cmp.Diff(split(want), split(got))
}

func itoa(n int) string { return fmt.Sprint(n) }
