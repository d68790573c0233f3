package jobdir

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asUser calls f as alice, or without root's rights as the user of the tests.
func asUser(t testing.TB, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		as(t, alice, f)
	} else {
		f()
	}
}

// guarded returns a directory outside, full of entries that a user could reach from a TMPDIR
// through links. verify fails the test if they have changed.
func guarded(t testing.TB) (dir string, verify func()) {
	dir = publicDir(t, 0o755)
	want := map[string]string{}
	record := func(path string) string {
		fi, err := os.Lstat(path)
		if err != nil {
			return err.Error()
		}
		st := fi.Sys().(*syscall.Stat_t)
		return fmt.Sprint(fi.Mode(), st.Uid, st.Gid, fi.Size())
	}
	put := func() {
		own := "own"
		if os.Geteuid() == 0 && unix.Geteuid() == 0 {
			own = "root"
		}
		for _, d := range []string{own, own + "/sub", own + "/sub/sub"} {
			must(t, os.MkdirAll(dir+"/"+d, 0o755))
			must(t, os.WriteFile(dir+"/"+d+"/file", []byte("canary"), 0o644))
		}
		must(t, os.Mkdir(dir+"/"+own+"/closed", 0o100))
	}
	put()
	if os.Geteuid() == 0 {
		must(t, os.Mkdir(dir+"/alice", 0o755))
		must(t, os.Chown(dir+"/alice", alice, alice))
		as(t, alice, func() {
			must(t, os.Mkdir(dir+"/alice/sub", 0o755))
			must(t, os.WriteFile(dir+"/alice/sub/file", []byte("canary"), 0o644))
			must(t, os.Mkdir(dir+"/alice/closed", 0o100))
		})
	}
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		want[path] = record(path)
		if err != nil && errors.Is(err, os.ErrPermission) {
			return nil
		}
		return err
	}))
	return dir, func() {
		t.Helper()
		for path, was := range want {
			if is := record(path); is != was {
				t.Errorf("outside: %s: was %s, is %s", path, was, is)
			}
		}
	}
}

func openDescriptors(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestRemoveEverything(t *testing.T) {
	outside, verify := guarded(t)
	base := publicDir(t, 0o777|os.ModeSticky)
	tmp := makeTmp(t, base, "x")
	in := tmp.Path
	asUser(t, func() {
		for i := range 300 {
			must(t, os.WriteFile(fmt.Sprintf("%s/file%d", in, i), []byte("x"), 0o000))
		}
		for _, name := range []string{"new\nline", strings.Repeat("l", 255), "-rf", "*", "\xff\xfe", ".rm1", ".rm2", " "} {
			must(t, os.MkdirAll(in+"/names/"+name, 0o755))
			must(t, os.WriteFile(in+"/names/"+name+"/f", nil, 0o644))
		}
		for _, to := range []string{outside, outside + "/own/file", "/", ".", "..", "/nowhere", "link"} {
			d, err := os.MkdirTemp(in, "links") //nolint:usetesting // it is part of what is removed
			must(t, err)
			must(t, os.Symlink(to, d+"/link"))
		}
		must(t, syscall.Mkfifo(in+"/fifo", 0o600))
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: in + "/socket", Net: "unix"})
		must(t, err)
		l.SetUnlinkOnClose(false)
		l.Close()
		for i := range 4 {
			must(t, os.MkdirAll(fmt.Sprintf("%s/closed%d/a/b/c", in, i), 0o755))
			must(t, os.WriteFile(fmt.Sprintf("%s/closed%d/a/b/c/f", in, i), nil, 0o600))
		}
		for _, d := range []string{"closed1/a/b/c", "closed1/a/b", "closed1/a", "closed1", "closed2/a/b", "closed3/a"} {
			must(t, os.Chmod(in+"/"+d, 0o000))
		}
		must(t, os.Chmod(in+"/closed0/a", 0o444))
	})
	if os.Geteuid() == 0 {
		must(t, os.Link(outside+"/root/file", in+"/hardlink"))
		must(t, syscall.Mknod(in+"/device", syscall.S_IFBLK|0o600, 1<<8))
		// A prolog of root leaves things in the directory, too.
		must(t, os.MkdirAll(in+"/of root/a/b", 0o700))
		must(t, os.WriteFile(in+"/of root/a/b/f", nil, 0o600))
		must(t, os.MkdirAll(in+"/of bob, empty", 0o700))
		must(t, os.Chown(in+"/of bob, empty", bob, bob))
	}
	asUser(t, func() { must(t, os.Chmod(in, 0o000)) })
	before := openDescriptors(t)
	must(t, RemoveTmpdir(tmp, RemoveOptions{UID: user(), GID: user()}))
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if exists(in) {
		t.Error("it is still there")
	}
	verify()
}

// deep makes nested directories, deeper than any path can be.
func deep(t testing.TB, dir string, depth int) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, "directory", 0o755))
		next, err := unix.Openat(fd, "directory", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	unix.Close(file)
	unix.Close(fd)
}

func TestRemoveDeep(t *testing.T) {
	for _, free := range []int{6, 12, 30} {
		t.Run(fmt.Sprintf("with %d descriptors left", free), func(t *testing.T) {
			base := publicDir(t, 0o777|os.ModeSticky)
			tmp := makeTmp(t, base, "x")
			asUser(t, func() {
				deep(t, tmp.Path, 5000)
				must(t, os.Mkdir(tmp.Path+"/wide", 0o755))
				for i := range 500 {
					must(t, os.MkdirAll(fmt.Sprintf("%s/wide/%d/x", tmp.Path, i), 0o755))
				}
			})
			release := leaveDescriptors(t, free)
			start := time.Now()
			err := RemoveTmpdir(tmp, RemoveOptions{UID: user(), GID: user(), Timeout: 5 * time.Minute})
			release()
			must(t, err)
			t.Log("took", time.Since(start))
			if exists(tmp.Path) {
				t.Error("it is still there")
			}
		})
	}
}

// leaveDescriptors occupies all but free descriptors until release is called.
func leaveDescriptors(t testing.TB, free int) (release func()) {
	t.Helper()
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	few := was
	few.Cur = uint64(highestDescriptor(t) + 1 + free)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	var taken []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	for _, fd := range taken[len(taken)-free:] {
		unix.Close(fd)
	}
	return func() {
		for _, fd := range taken[:len(taken)-free] {
			unix.Close(fd)
		}
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	}
}

// TestRemoveLeavesWhatUserCouldNotRemove checks that a directory of another user stays, because a user
// may have moved it here without having the right to remove it.
func TestRemoveLeavesWhatUserCouldNotRemove(t *testing.T) {
	needRoot(t)
	base := publicDir(t, 0o777|os.ModeSticky)
	tmp := makeTmp(t, base, "x")
	home := publicDir(t, 0o755)
	must(t, os.Chown(home, alice, alice))
	must(t, os.MkdirAll(home+"/shared/bob/data", 0o755))
	must(t, os.WriteFile(home+"/shared/bob/data/file", nil, 0o644))
	for _, p := range []string{"", "/data", "/data/file"} {
		must(t, os.Chown(home+"/shared/bob"+p, bob, bob))
	}
	must(t, os.Chown(home+"/shared", alice, alice))
	as(t, alice, func() {
		must(t, os.Rename(home+"/shared", tmp.Path+"/shared"))
		must(t, os.WriteFile(tmp.Path+"/mine", nil, 0o644))
	})
	err := RemoveTmpdir(tmp, RemoveOptions{UID: alice, GID: alice})
	var left *LeftError
	if !errors.As(err, &left) || !slices.Equal(left.Names, []string{"shared"}) || !strings.Contains(err.Error(), "20002") || !strings.Contains(err.Error(), "bob") {
		t.Error(err)
	}
	if !exists(tmp.Path+"/shared/bob/data/file") || exists(tmp.Path+"/mine") {
		t.Error("wrong things were removed")
	}
	must(t, RemoveTmpdir(tmp, RemoveOptions{UID: alice, GID: alice, Owners: []int{bob}}))
	if exists(tmp.Path) {
		t.Error("it is still there")
	}
}

func mount(t testing.TB, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		t.Skip("cannot mount:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
}

func TestRemoveCrossesNoMount(t *testing.T) {
	needRoot(t)
	outside, verify := guarded(t)
	base := publicDir(t, 0o777|os.ModeSticky)
	for _, at := range []string{"bind", "a/b/bind", "a/b/tmpfs", "a/file"} {
		t.Run(at, func(t *testing.T) {
			tmp := makeTmp(t, base, "x")
			target := tmp.Path + "/" + at
			must(t, os.MkdirAll(filepath.Dir(target), 0o755))
			switch filepath.Base(at) {
			case "file":
				must(t, os.WriteFile(target, nil, 0o644))
				mount(t, outside+"/root/file", target, "", syscall.MS_BIND)
			case "tmpfs":
				must(t, os.Mkdir(target, 0o755))
				mount(t, "none", target, "tmpfs", 0)
				must(t, os.WriteFile(target+"/file", nil, 0o644))
			default: // the same device as the directory itself
				must(t, os.Mkdir(target, 0o755))
				mount(t, outside, target, "", syscall.MS_BIND)
			}
			err := RemoveTmpdir(tmp, RemoveOptions{UID: alice, GID: alice})
			var left *LeftError
			if !errors.As(err, &left) || !errors.Is(err, unix.EBUSY) || len(left.Names) != 1 {
				t.Error(err)
			}
			if filepath.Base(at) == "tmpfs" && !exists(target+"/file") {
				t.Error("a file of the mount was removed")
			}
			verify()
			must(t, syscall.Unmount(target, syscall.MNT_DETACH))
			must(t, RemoveTmpdir(tmp, RemoveOptions{UID: alice, GID: alice}))
			if exists(tmp.Path) {
				t.Error("it is still there")
			}
		})
	}
	t.Run("over it", func(t *testing.T) {
		tmp := makeTmp(t, base, "x")
		mount(t, outside, tmp.Path, "", syscall.MS_BIND)
		if err := RemoveTmpdir(tmp, RemoveOptions{UID: alice, GID: alice}); !errors.Is(err, ErrNotOurs) {
			t.Error(err)
		}
		verify()
	})
}

func TestOpenBeneath(t *testing.T) {
	for name, open := range map[string]func(int, string) (int, error){"openat2": openBeneath, "older kernel": openSameMount} {
		t.Run(name, func(t *testing.T) {
			dir := publicDir(t, 0o755)
			must(t, os.MkdirAll(dir+"/d/e", 0o755))
			must(t, os.Symlink("d", dir+"/link"))
			must(t, os.WriteFile(dir+"/file", nil, 0o644))
			fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			must(t, err)
			defer unix.Close(fd)
			for name, want := range map[string]error{
				"d": nil, "link": unix.ENOTDIR, "file": unix.ENOTDIR, "missing": unix.ENOENT, "/etc": unix.EXDEV, "..": unix.EXDEV,
			} {
				got, err := open(fd, name)
				if err == nil {
					unix.Close(got)
				}
				ok := errors.Is(err, want) || (errors.Is(want, unix.ENOTDIR) && errors.Is(err, unix.ELOOP)) || (errors.Is(want, unix.EXDEV) && errors.Is(err, unix.EINVAL))
				if (want == nil) != (err == nil) || (want != nil && !ok) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			}
			if os.Geteuid() != 0 {
				return
			}
			mount(t, "/etc", dir+"/d/e", "", syscall.MS_BIND)
			d, err := open(fd, "d")
			must(t, err)
			defer unix.Close(d)
			if _, err := open(d, "e"); !errors.Is(err, unix.EXDEV) {
				t.Error(err)
			}
		})
	}
}

func highestDescriptor(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	highest := 0
	for _, e := range entries {
		var n int
		_, _ = fmt.Sscan(e.Name(), &n)
		highest = max(highest, n)
	}
	return highest
}
