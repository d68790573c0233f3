package configdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
)

// tree returns everything below a directory: files with their text, folders with a slash.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if e.IsDir() {
			found[name+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func open(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func builtin(t *testing.T) *qconf.Cluster {
	t.Helper()
	c, err := qconf.BuiltinOn("n1", 4)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(path, text string) Change { return Change{Path: path, Text: []byte(text)} }

func TestApply(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	if err := d.Apply(nil, put("queues/a.q", "qname a.q\n"), put("queues/b.q", "qname b.q\n"), put("sched_conf", "algorithm default\n")); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(nil, put("queues/a.q", "qname a.q\nslots 2\n"), Change{Path: "queues/b.q", Remove: true}, Change{Path: "pes/none", Remove: true}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"queues/": "", "queues/a.q": "qname a.q\nslots 2\n", "sched_conf": "algorithm default\n"}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestApplyKeepsTheMode(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	file := filepath.Join(dir, "sched_conf")
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(nil, put("sched_conf", "x y\n"), put("users/alice", "name alice\n")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"sched_conf": 0o640, "users/alice": 0o644, "users": fs.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, expected %v", name, info.Mode(), err, want)
		}
	}
}

// TestApplyWritesWhatWasBuiltIn checks that objects of a kind that the directory lacks come from
// the base configuration, and stay after a change.
func TestApplyWritesWhatWasBuiltIn(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	base := builtin(t)
	if err := d.Apply(base, put("queues/long.q", "qname long.q\nhostlist @allhosts\n"), put("users/alice", "name alice\n")); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(base, Change{Path: "pes/make", Remove: true}); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(func(yield func(string) bool) {
		for name := range tree(t, dir) {
			yield(name)
		}
	})
	if diff := cmp.Diff([]string{"conf/", "conf/global", "pes/", "pes/smp", "queues/", "queues/all.q", "queues/long.q", "users/", "users/alice"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := qconf.Load(d.FS(), base); err == nil || !strings.Contains(err.Error(), `"make" does not exist`) {
		t.Errorf("the queue that names the removed parallel environment: %v", err)
	}
}

func TestQuotaSetsInOneFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	set := func(name, limit string) string {
		return "{\n   name         " + name + "\n   description  NONE\n   enabled      TRUE\n   limit        to slots=" + limit + "\n}\n"
	}
	if err := d.Apply(nil, put("rqs", set("b", "1")+set("a", "2"))); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(nil, put("rqs/b", set("b", "3")), put("rqs/c", set("c", "4"))); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		c, err := qconf.Load(d.FS(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range c.ResourceQuotas() {
			all = append(all, q.Name)
		}
		return all
	}
	if diff := cmp.Diff([]string{"b", "a", "c"}, names()); diff != "" {
		t.Error(diff)
	}
	if err := d.Apply(nil, Change{Path: "rqs/b", Remove: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, names()); diff != "" {
		t.Error(diff)
	}
}

// TestQuotaSetsInAFolder replaces all quota sets at once, as qconf -Arqs and -Mrqs do, in a
// directory that has a file for each set.
func TestQuotaSetsInAFolder(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	set := func(name, limit string) string {
		return "{\n   name         " + name + "\n   description  NONE\n   enabled      TRUE\n   limit        to slots=" + limit + "\n}\n"
	}
	if err := d.Apply(nil, put("rqs/a", set("a", "1")), put("rqs/b", set("b", "1"))); err != nil {
		t.Fatal(err)
	}
	former, err := d.Read("rqs")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(nil, put("rqs", set("b", "2")+set("c", "3"))); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"rqs/": "", "rqs/b": set("b", "2"), "rqs/c": set("c", "3")}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := d.Apply(nil, put("rqs", string(former))); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"rqs/": "", "rqs/a": set("a", "1"), "rqs/b": set("b", "1")}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("what was read does not bring back what was there: %s", diff)
	}
	if err := d.Apply(nil, Change{Path: "rqs", Remove: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"rqs/": ""}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedNames(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	for _, name := range []string{
		"", "queues", "queues/", "queue/x", "queues/../x", "../../x", "queues/a/b", "/etc/passwd", "queues/.x", "queues/x~", "queues/a\nb", "passwd", "queues/..",
	} {
		if err := d.Apply(nil, put("users/bob", "name bob\n"), put(name, "x\n")); err == nil {
			t.Errorf("%q is taken", name)
		}
		if err := d.Apply(nil, Change{Path: name, Remove: true}); err == nil {
			t.Errorf("%q is removed", name)
		}
	}
	// Nothing was changed beside it.
	if diff := cmp.Diff(map[string]string{}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestLinks checks that a link that leads out of the directory is not followed.
func TestLinks(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	d := open(t, dir)
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"queues": outside, "sched_conf": secret, "complexes": "../../../etc/passwd"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Apply(nil, put("queues/secret", "x")); err == nil {
		t.Error("a folder outside is written to")
	}
	if err := d.Apply(nil, Change{Path: "queues/secret", Remove: true}); err == nil {
		t.Error("a file outside is removed")
	}
	if err := d.Apply(nil, put("sched_conf", "x"), Change{Path: "complexes", Remove: true}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"secret": "kept"}, tree(t, outside)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Lstat(filepath.Join(dir, "sched_conf")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v %v", info, err)
	}
}

func TestWriteCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "conf")
	c := builtin(t)
	if err := WriteCluster(dir, c, false); err != nil {
		t.Fatal(err)
	}
	again, err := qconf.Load(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Files(c), Files(again)); diff != "" {
		t.Error(diff)
	}
	for _, f := range qconf.Check(os.DirFS(dir), qconf.Options{}).Missing {
		t.Error(f)
	}
	if err := WriteCluster(dir, c, false); !errors.Is(err, ErrExists) {
		t.Errorf("over a directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := WriteCluster(dir, c, true); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "mine")); err == nil {
			t.Error("the former directory is still there")
		}
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 2 {
		t.Errorf("%v %v", entries, err)
	}
}

func TestWriteIsAllOrNothing(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "conf")
	if err := Write(dir, map[string][]byte{"queues/a.q": []byte("x"), "queues/.b": []byte("x")}, nil, false); err == nil {
		t.Error("a bad name is taken")
	}
	if diff := cmp.Diff(map[string]string{}, tree(t, parent)); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, nil, nil, true); err == nil {
		t.Error("a file is replaced")
	}
}
