package jobdir

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// user returns the owner of the tests' TMPDIR: another user if the tests run as root.
func user() int {
	if os.Geteuid() == 0 {
		return alice
	}
	return os.Geteuid()
}

func makeTmp(t testing.TB, queueTmpdir, name string) Tmpdir {
	t.Helper()
	gid := user()
	if os.Geteuid() != 0 {
		gid = os.Getegid()
	}
	tmp, err := MakeTmpdir(queueTmpdir, name, user(), gid)
	must(t, err)
	return tmp
}

func TestMakeTmpdir(t *testing.T) {
	mask := 0o077
	if os.Geteuid() == 0 {
		mask = 0o777
	}
	defer syscall.Umask(syscall.Umask(mask))
	base := publicDir(t, 0o777|os.ModeSticky|os.ModeSetgid)
	tmp := makeTmp(t, base+"/", "1.1.all.q")
	if tmp.Path != base+"/1.1.all.q" {
		t.Error(tmp.Path)
	}
	mode, uid, gid := stat(t, tmp.Path)
	if mode != os.ModeDir|0o700 || uid != user() || (os.Geteuid() == 0 && gid != alice) {
		t.Error(mode, uid, gid)
	}
	var st unix.Stat_t
	must(t, unix.Stat(tmp.Path, &st))
	if st.Ino != tmp.Ino || st.Dev != tmp.Dev {
		t.Error(st.Ino, st.Dev, tmp)
	}
	must(t, RemoveTmpdir(tmp, RemoveOptions{UID: user()}))
	if exists(tmp.Path) {
		t.Error("it is still there")
	}
	must(t, RemoveTmpdir(tmp, RemoveOptions{UID: user()}))
}

// TestExistingTmpdirIsNotUsed plants a directory. The original uses an existing directory: one with
// planted files, or the target of a link, which it gives to the user and empties at the end.
func TestExistingTmpdirIsNotUsed(t *testing.T) {
	name := "1.1.all.q"
	for what, plant := range map[string]func(path, canary string) error{
		"link to a directory":      func(p, c string) error { return os.Symlink(c, p) },
		"dangling link":            func(p, c string) error { return os.Symlink(c+"/missing", p) },
		"file":                     func(p, _ string) error { return os.WriteFile(p, nil, 0o666) },
		"fifo":                     func(p, _ string) error { return syscall.Mkfifo(p, 0o666) },
		"empty directory":          func(p, _ string) error { return os.Mkdir(p, 0o777) },
		"directory with a program": func(p, _ string) error { return errors.Join(os.Mkdir(p, 0o777), os.WriteFile(p+"/id", nil, 0o777)) },
	} {
		t.Run(what, func(t *testing.T) {
			base, canary := publicDir(t, 0o777|os.ModeSticky), publicDir(t, 0o755)
			must(t, os.WriteFile(canary+"/file", nil, 0o644))
			put := func() { must(t, plant(base+"/"+name, canary)) }
			if os.Geteuid() == 0 {
				as(t, bob, put)
			} else {
				put()
			}
			before, owner, _ := stat(t, base+"/"+name)
			tmp := makeTmp(t, base, name)
			suffix, ok := strings.CutPrefix(tmp.Path, base+"/"+name+".")
			if !ok || !isSuffix(suffix) {
				t.Error(tmp.Path)
			}
			if entries, err := os.ReadDir(tmp.Path); len(entries) > 0 || err != nil {
				t.Error(entries, err)
			}
			must(t, RemoveTmpdir(tmp, RemoveOptions{UID: user()}))
			if after, uid, _ := stat(t, base+"/"+name); after != before || uid != owner {
				t.Error("what was there has changed:", after, uid)
			}
			if mode, uid, _ := stat(t, canary); mode != os.ModeDir|0o755 || uid != os.Geteuid() || !exists(canary+"/file") || exists(canary+"/missing") {
				t.Error("the target of the link has changed:", mode, uid)
			}
		})
	}
}

func TestTmpdirNames(t *testing.T) {
	base := publicDir(t, 0o755)
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a\x00", strings.Repeat("x", 256)} {
		if tmp, err := MakeTmpdir(base, name, user(), user()); err == nil {
			t.Errorf("%q: %v", name, tmp)
		}
	}
	long := strings.Repeat("x", 250)
	makeTmp(t, base, long)
	if _, err := MakeTmpdir(base, long, user(), user()); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Error(err)
	}
	if _, err := MakeTmpdir("relative", "x", user(), user()); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Error(err)
	}
	for _, path := range []string{"relative/x", "x", "", "/", base + "/.."} {
		if err := RemoveTmpdir(Tmpdir{Path: path}, RemoveOptions{UID: user()}); err == nil {
			t.Errorf("%q was removed", path)
		}
	}
}

func TestTmpdirOfQueue(t *testing.T) {
	base := publicDir(t, 0o755)
	tmp := makeTmp(t, base+"/a/b", "x") // created, as by the original
	if mode, uid, _ := stat(t, base+"/a/b"); mode != os.ModeDir|0o755 || uid != os.Geteuid() {
		t.Error(mode, uid)
	}
	must(t, os.Symlink(base+"/a", base+"/link")) // of the administrator
	must(t, RemoveTmpdir(Tmpdir{base + "/link/b/x", tmp.Dev, tmp.Ino}, RemoveOptions{UID: user()}))
	if exists(tmp.Path) {
		t.Error("not removed through the link")
	}
	if tmp = makeTmp(t, base+"/link/b", "y"); tmp.Path != base+"/link/b/y" || !exists(base+"/a/b/y") {
		t.Error(tmp.Path)
	}
	refused := func(dir, why string) {
		t.Helper()
		if _, err := MakeTmpdir(dir, "z", user(), user()); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), base) {
			t.Error(dir, err)
		}
	}
	must(t, os.Mkdir(base+"/open", 0o755))
	must(t, os.Chmod(base+"/open", 0o777))
	refused(base+"/open", "sticky")
	refused(base+"/open/below", "sticky")
	must(t, os.WriteFile(base+"/file", nil, 0o644))
	refused(base+"/file", "not a directory")
	refused(base+"/file/below", "not a directory")
	if os.Geteuid() != 0 {
		return
	}
	must(t, os.Mkdir(base+"/alice", 0o755))
	must(t, os.Chown(base+"/alice", alice, alice))
	refused(base+"/alice", "20001")
	must(t, os.Mkdir(base+"/sticky", 0o755))
	must(t, os.Chmod(base+"/sticky", 0o777|os.ModeSticky))
	as(t, alice, func() { must(t, os.Symlink(base+"/a", base+"/sticky/link")) })
	refused(base+"/sticky/link", "20001")
	trusted, err := MakeTmpdir(base+"/alice", "z", bob, bob, alice)
	must(t, err)
	must(t, RemoveTmpdir(trusted, RemoveOptions{UID: bob, GID: bob, Trusted: []int{alice}}))
}

func TestRemoveTmpdirOnlyOurs(t *testing.T) {
	base, canary := publicDir(t, 0o777|os.ModeSticky), publicDir(t, 0o755)
	must(t, os.WriteFile(canary+"/file", nil, 0o644))
	for what, replace := range map[string]func(path string) error{
		"another directory":  func(p string) error { return os.MkdirAll(p+"/full", 0o755) },
		"link":               func(p string) error { return os.Symlink(canary, p) },
		"link to moved":      func(p string) error { return os.Symlink(p+".moved", p) },
		"file":               func(p string) error { return os.WriteFile(p, nil, 0o644) },
		"fifo":               func(p string) error { return syscall.Mkfifo(p, 0o644) },
		"an empty directory": func(p string) error { return os.Mkdir(p, 0o755) },
	} {
		tmp := makeTmp(t, base, "x")
		must(t, os.Rename(tmp.Path, tmp.Path+".moved"))
		must(t, replace(tmp.Path))
		if err := RemoveTmpdir(tmp, RemoveOptions{UID: user()}); !errors.Is(err, ErrNotOurs) {
			t.Error(what, err)
		}
		if !exists(tmp.Path) || !exists(canary+"/file") || !exists(tmp.Path+".moved") {
			t.Error(what, "was removed")
		}
		must(t, os.RemoveAll(tmp.Path))
		must(t, os.RemoveAll(tmp.Path+".moved"))
	}
}

func TestSweepTmpdir(t *testing.T) {
	base := publicDir(t, 0o777|os.ModeSticky)
	one, two := makeTmp(t, base, "1.1.q"), makeTmp(t, base, "1.1.q")
	must(t, os.Mkdir(base+"/1.1.q.aaaaaaaaaa", 0o700)) // not handed over yet
	must(t, os.MkdirAll(one.Path+"/a/b", 0o755))
	others := []string{"1.1.q2", "1.1.q.x", "1.1.q.AAAAAAAAAA", "11.1.q", "1.1"}
	for _, n := range others {
		must(t, os.Mkdir(base+"/"+n, 0o755))
	}
	must(t, os.Symlink(base+"/1.1", base+"/1.1.q.bbbbbbbbbb"))
	others = append(others, "1.1.q.bbbbbbbbbb")
	if os.Geteuid() == 0 {
		must(t, os.Mkdir(base+"/1.1.q.cccccccccc", 0o755))
		must(t, os.Chown(base+"/1.1.q.cccccccccc", bob, bob))
		others = append(others, "1.1.q.cccccccccc")
	}
	must(t, SweepTmpdir(base, "1.1.q", RemoveOptions{UID: user()}))
	for _, gone := range []string{one.Path, two.Path, base + "/1.1.q.aaaaaaaaaa"} {
		if exists(gone) {
			t.Error(gone, "is still there")
		}
	}
	for _, n := range others {
		if !exists(base + "/" + n) {
			t.Error(n, "was removed")
		}
	}
	must(t, SweepTmpdir(base+"/missing", "x", RemoveOptions{UID: user()}))
	if exists(base + "/missing") {
		t.Error("it was made")
	}
	if err := SweepTmpdir(base, "..", RemoveOptions{}); err == nil {
		t.Error("taken")
	}
}

func TestIdentityIsRestored(t *testing.T) {
	needRoot(t)
	dir := publicDir(t, 0o755)
	for i := range 50 {
		as(t, alice, func() {
			if err := os.WriteFile(dir+"/x", nil, 0o644); !errors.Is(err, fs.ErrPermission) {
				t.Error(i, err)
			}
		})
		must(t, os.WriteFile(dir+"/y", nil, 0o644))
		if _, uid, _ := stat(t, dir+"/y"); uid != 0 {
			t.Fatal(uid)
		}
		must(t, os.Remove(dir+"/y"))
	}
}

// TestMakeTmpdirAside checks that without root a TMPDIR is created under a name that was recorded
// before, so that it can be found after a crash. It keeps that name if its own is taken.
func TestMakeTmpdirAside(t *testing.T) {
	base := t.TempDir()
	s, err := OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Begin(job.ID{Job: 7}, CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	aside := func(name string) string {
		t.Helper()
		a, err := AsideName(name)
		if err != nil || !strings.HasPrefix(a, name+".") {
			t.Fatalf("%q, %v", a, err)
		}
		return a
	}
	first, second := aside("7.1.all.q"), aside("7.1.all.q")
	tmp, err := d.MakeTmpdir(base, "7.1.all.q", first, user(), user())
	if err != nil || tmp.Path != base+"/7.1.all.q" {
		t.Fatalf("%+v, %v", tmp, err)
	}
	other, err := d.MakeTmpdir(base, "7.1.all.q", second, user(), user())
	if err != nil || other.Path != base+"/"+second {
		t.Fatalf("%+v, %v", other, err)
	}
	if recorded, err := d.Tmpdir(); err != nil || recorded != other {
		t.Errorf("%+v is recorded, %v", recorded, err)
	}
	if err := RemoveAside(base, second, RemoveOptions{}); err != nil {
		t.Error(err)
	}
	if err := RemoveAside(base, second, RemoveOptions{}); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 1 || entries[0].Name() != "7.1.all.q" {
		t.Errorf("%v, %v", entries, err)
	}
	if long, err := AsideName(strings.Repeat("x", mostName)); long != "" || err != nil {
		t.Errorf("%q, %v", long, err)
	}
}
