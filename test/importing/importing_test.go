// Package importing tests execd import with the configuration of a real cell.
package importing

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/test/gridengine"
)

// show makes the original print all its objects, to the paths that they have in a configuration
// directory.
const show = `
mkdir -p /tmp/shown; cd /tmp/shown
each() { mkdir -p $1; for name in $(qconf $2 2>/dev/null) $4; do qconf $3 $name >$1/$name; done; }
each queues -sql -sq; each pes -spl -sp; each ckpts -sckptl -sckpt; each calendars -scall -scal
each usersets -sul -su; each users -suserl -suser; each projects -sprjl -sprj; each hostgroups -shgrpl -shgrp
each hosts -sel -se global; each conf -sconfl -sconf global
qconf -sc >complexes; qconf -ssconf >sched_conf; qconf -sstree >sharetree; qconf -srqs >rqs
mkdir -p $SGE_ROOT/util
`

func TestImport(t *testing.T) {
	need, qconf81, backup := testenv.GridEngine, "/usr/lib/gridengine/qconf", "/usr/share/gridengine/util/upgrade_modules/save_sge_config.sh"
	installation := os.Getenv(testenv.OCSEnv)
	if installation != "" {
		need, qconf81, backup = testenv.OCS, installation+"/bin/lx-amd64/qconf", installation+"/util/upgrade_modules/save*config.sh"
	}
	testenv.Require(t, testenv.Root, need)
	cell := gridengine.Start(t, gridengine.Config{Classic: true, Users: []string{"carol"}, Installation: installation})
	configure(t, cell)
	if installation != "" {
		configureNewer(t, cell)
	}
	if out, err := cell.Root("sh", "-c", show+"sh "+backup+" /tmp/backup\n"); err != nil {
		t.Fatal(err, out)
	}
	want := shown(t, cell.Path("/tmp/shown"))
	bin := t.TempDir()
	if err := testenv.Build(bin, ""); err != nil {
		t.Fatal(err)
	}
	testenv.LetIn(t, bin)
	execd := filepath.Join(bin, "execd")
	t.Attr("objects", fmt.Sprint(len(want)))
	for name, args := range map[string][]string{
		"a running cell":     {"--live", "--qconf", program(t, cell, qconf81)},
		"a backup":           {"--from", cell.Path("/tmp/backup")},
		"classic spooling":   {"--from", cell.Path("/var/spool/gridengine/qmaster"), "--from", cell.Path("/var/lib/gridengine/default/common")},
		"what qconf printed": {"--from", cell.Path("/tmp/shown")},
		"files of qconf":     files(t, cell.Path("/tmp/shown")),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "conf")
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), execd, append([]string{"import", "--conf", dir}, args...)...)
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			t.Logf("%s%s", &out, &errs)
			if err != nil || out.Len() > 0 {
				t.Errorf("%v, and something is left out:\n%s", err, &out)
			}
			if c := must(qconf.Load(os.DirFS(dir), nil)); name != "what qconf printed" && name != "files of qconf" {
				if !slices.Contains(c.Managers(), "alice") || !slices.Contains(c.Operators(), "bob") || !slices.Contains(c.SubmitHosts(), "otherhost") {
					t.Errorf("managers %q, operators %q, submit hosts %q", c.Managers(), c.Operators(), c.SubmitHosts())
				}
			}
			got := imported(t, dir)
			if name == "a backup" || name == "classic spooling" { // a file for each object, so the order is lost
				got["rqs"] = want["rqs"]
				if sets := must(qconf.Load(os.DirFS(dir), nil)).ResourceQuotas(); len(sets) != 2 {
					t.Errorf("%d resource quota sets", len(sets))
				}
			}
			if installation != "" { // attributes of 8.1.9 that it lacks have their defaults, and columns are wider
				for path := range got {
					got[path] = only(got[path], want[path])
				}
				for path := range want {
					want[path] = only(want[path], want[path])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what qconf prints, and what is imported: -theirs +ours\n%s", diff)
			}
			if problems, err := exec.CommandContext(t.Context(), execd, "config", "check", dir).CombinedOutput(); err != nil {
				t.Errorf("execd config check: %v %s", err, problems)
			}
			if name == "a running cell" && !t.Failed() {
				startOn(t, execd, dir)
			}
		})
	}
}

// only returns the lines of an object whose attributes another text of the object has, with single
// blanks.
func only(text, other string) string {
	has := map[string]bool{}
	for line := range strings.Lines(other) {
		if words := strings.Fields(line); len(words) > 0 {
			has[words[0]] = true
		}
	}
	var kept []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && has[words[0]] {
			kept = append(kept, strings.Join(words, " ")+"\n")
		}
	}
	return strings.Join(kept, "")
}

// files returns the options for every single file below a directory.
func files(t *testing.T, dir string) (args []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			args = append(args, "--from", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// program returns a qconf that runs in the cell.
func program(t *testing.T, cell *gridengine.Cell, qconf string) string {
	t.Helper()
	pid := strings.Split(cell.Proc(1), "/")[2]
	script := "#!/bin/sh\nSGE_ROOT=/var/lib/gridengine SGE_CELL=default exec nsenter -t " + pid + " -m -u -n -p -- " + qconf + " \"$@\"\n"
	path := filepath.Join(t.TempDir(), "qconf")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// shown returns the original's output, without values that a host has reported.
func shown(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = dropped(string(text), "load_values", "processors")
		if strings.HasPrefix(name, "queues/") {
			all[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// imported returns every object of a configuration directory in the format of this project's qconf.
func imported(t *testing.T, dir string) map[string]string {
	t.Helper()
	c, err := qconf.Load(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	object := func(folder string, name string, o interface{ Format(qconf.Style) string }) {
		all[folder+"/"+name] = o.Format(qconf.SingleLine)
	}
	for _, name := range c.QueueNames() {
		object("queues", name, must(c.Queue(name)))
	}
	for _, name := range c.PENames() {
		object("pes", name, must(c.PE(name)))
	}
	for _, name := range c.CheckpointNames() {
		object("ckpts", name, must(c.Checkpoint(name)))
	}
	for _, name := range c.CalendarNames() {
		object("calendars", name, must(c.Calendar(name)))
	}
	for _, name := range c.UserSetNames() {
		object("usersets", name, must(c.UserSet(name)))
	}
	for _, name := range c.UserNames() {
		object("users", name, must(c.User(name)))
	}
	for _, name := range c.ProjectNames() {
		object("projects", name, must(c.Project(name)))
	}
	for _, name := range c.HostNames() {
		object("hosts", name, must(c.Host(name)))
	}
	for _, name := range c.LocalNames() {
		object("conf", name, must(c.Local(name)))
	}
	for _, name := range c.HostGroups().Names() {
		object("hostgroups", name, c.HostGroups().Group(name))
	}
	object("hosts", "global", c.GlobalHost())
	object("conf", "global", c.Global())
	all["sched_conf"] = c.Scheduler().Format(qconf.SingleLine)
	all["complexes"] = c.Complexes().Format()
	all["sharetree"] = c.ShareTree().Format()
	all["rqs"] = qconf.FormatResourceQuotas(c.ResourceQuotas(), qconf.SingleLine)
	return all
}

func must[O any](o *O, err error) *O {
	if err != nil {
		panic(err)
	}
	return o
}
