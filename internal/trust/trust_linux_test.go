package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/internal/testenv"
)

// The ids of strangers: users and a group that test machines do not have.
const (
	alice = 54321
	bob   = 54322
	staff = 54323
)

// acl returns an access control list that lets alice write; the mask shows in the group bits.
func acl() []byte {
	list := binary.LittleEndian.AppendUint32(nil, 2) // POSIX_ACL_XATTR_VERSION
	const none = 1<<32 - 1
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, none}, {0x02, 7, alice}, {0x04, 5, none}, {0x10, 7, none}, {0x20, 5, none}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

// tree makes folder/sub/file, all of it root's, in a directory that everybody can reach.
func tree(t testing.TB) (dir, file string) {
	t.Helper()
	testenv.Require(t, testenv.Root)
	dir = t.TempDir()
	testenv.LetIn(t, dir)
	must(t, os.MkdirAll(dir+"/folder/sub", 0o755))
	must(t, os.WriteFile(dir+"/folder/sub/file", []byte("text"), 0o644))
	return dir, dir + "/folder/sub/file"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	only := func(uids ...uint32) Users { return Users{UIDs: uids} }
	for name, c := range map[string]struct {
		users   Users
		change  func(dir string) error
		path    string // below the directory; folder/sub/file if it is empty
		problem string // "" if it passes
		at      string // the part that does not pass
	}{
		"root's file passes": {},
		"the file of another user": {
			change: func(d string) error { return os.Chown(d+"/folder/sub/file", alice, 0) }, problem: "belongs to 54321, expected root (owner 54321, group root, mode 0644)", at: "folder/sub/file",
		},
		"the file of a trusted user passes": {
			users: only(alice), change: func(d string) error { return os.Chown(d+"/folder/sub/file", alice, alice) },
		},
		"the file of another one than the trusted user": {
			users: only(alice), change: func(d string) error { return os.Chown(d+"/folder/sub/file", bob, 0) }, problem: "belongs to 54322, expected root or 54321", at: "folder/sub/file",
		},
		"a directory above of another user": {
			change: func(d string) error { return os.Chown(d+"/folder", alice, 0) }, problem: "belongs to 54321", at: "folder",
		},
		"everybody may write": {
			change: func(d string) error { return os.Chmod(d+"/folder/sub/file", 0o666) }, problem: "may be written by everybody (owner root, group root, mode 0666)", at: "folder/sub/file",
		},
		"a directory above that everybody may write to": {
			change: func(d string) error { return os.Chmod(d+"/folder", 0o777) }, problem: "may be written by everybody", at: "folder",
		},
		"a sticky directory above passes, with an entry of root's": {
			change: func(d string) error { return os.Chmod(d+"/folder", 0o777|fs.ModeSticky) },
		},
		"a sticky directory above, with an entry of somebody else": {
			change: func(d string) error {
				return errors.Join(os.Chmod(d+"/folder", 0o777|fs.ModeSticky), os.Chown(d+"/folder/sub", alice, 0))
			}, problem: "belongs to 54321", at: "folder/sub",
		},
		"a sticky directory itself": {
			change: func(d string) error { return os.Chmod(d+"/folder", 0o777|fs.ModeSticky) }, path: "folder", problem: "may be written by everybody", at: "folder",
		},
		"a sticky directory of somebody else, who can replace its entries": {
			change: func(d string) error {
				return errors.Join(os.Chown(d+"/folder", alice, 0), os.Chmod(d+"/folder", 0o777|fs.ModeSticky))
			}, problem: "belongs to 54321", at: "folder",
		},
		"one of several names of a file, in a sticky directory": {
			change: func(d string) error {
				return errors.Join(os.Chmod(d+"/folder", 0o777|fs.ModeSticky), os.Link(d+"/folder/sub/file", d+"/folder/file"))
			}, path: "folder/file", problem: "has several names", at: "folder/file",
		},
		"a group may write": {
			change: func(d string) error {
				return errors.Join(os.Chown(d+"/folder", 0, staff), os.Chmod(d+"/folder", 0o775))
			}, problem: "may be written by group 54323 (owner root, group 54323, mode 0775); run chmod g-w", at: "folder",
		},
		"root's group may write": {
			change: func(d string) error { return os.Chmod(d+"/folder", 0o775) },
		},
		"a trusted group may write": {
			users: Users{GIDs: []uint32{staff}},
			change: func(d string) error {
				return errors.Join(os.Chown(d+"/folder", 0, staff), os.Chmod(d+"/folder", 0o775))
			},
		},
		"an access control list": {
			change: func(d string) error { return unix.Setxattr(d+"/folder", aclAttribute, acl(), 0) }, problem: "access control list", at: "folder",
		},
		"an access control list whose mask lets nobody write passes": {
			change: func(d string) error {
				return errors.Join(unix.Setxattr(d+"/folder", aclAttribute, acl(), 0), os.Chmod(d+"/folder", 0o755))
			},
		},
		"a link of root's passes": {
			change: func(d string) error { return os.Symlink("folder/sub", d+"/link") }, path: "link/file",
		},
		"a link that goes up again passes": {
			change: func(d string) error { return os.Symlink("../folder/./sub/../sub", d+"/folder/link") }, path: "folder/link/file",
		},
		"a link of somebody else": {
			change: func(d string) error {
				return errors.Join(os.Symlink("folder/sub", d+"/link"), os.Lchown(d+"/link", alice, 0))
			}, path: "link/file", problem: "belongs to 54321", at: "link",
		},
		"a link to a file in a directory of somebody else": {
			change: func(d string) error {
				return errors.Join(os.Mkdir(d+"/home", 0o755), os.Chown(d+"/home", alice, alice),
					os.Link(d+"/folder/sub/file", d+"/home/file"), os.Symlink(d+"/home/file", d+"/link"))
			}, path: "link", problem: "belongs to 54321", at: "home",
		},
		"a link that leads through a directory of somebody else and back": {
			change: func(d string) error {
				return errors.Join(os.Mkdir(d+"/home", 0o755), os.Chown(d+"/home", alice, alice), os.Symlink("home/../folder", d+"/link"))
			}, path: "link/sub/file", problem: "belongs to 54321", at: "home",
		},
		"a path that leads through a directory of somebody else and back": {
			change: func(d string) error {
				return errors.Join(os.Mkdir(d+"/home", 0o755), os.Chown(d+"/home", alice, alice))
			}, path: "home/../folder/sub/file", problem: "belongs to 54321", at: "home",
		},
		"links in a circle": {
			change: func(d string) error { return errors.Join(os.Symlink("b", d+"/a"), os.Symlink("a", d+"/b")) }, path: "a", problem: "too many levels of symbolic links",
		},
		"nothing": {path: "folder/none", problem: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := tree(t)
			if c.change != nil {
				must(t, c.change(dir))
			}
			if c.path != "" {
				file = dir + "/" + c.path
			}
			err := c.users.Check(file)
			var e *Error
			switch {
			case c.problem == "" && err != nil:
				t.Error(err)
			case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
				t.Errorf("error %v, want one with %q", err, c.problem)
			case c.at != "" && (!errors.As(err, &e) || e.At != dir+"/"+c.at || e.Path != file):
				t.Errorf("%+v, want the part %q", e, c.at)
			}
			fd, openErr := c.users.Open(file)
			if openErr == nil {
				unix.Close(fd)
			}
			if (err == nil) != (openErr == nil) {
				t.Errorf("Check: %v, Open: %v", err, openErr)
			}
		})
	}
}

// TestNoDescriptorIsLeftOpen checks that no descriptor is left open, whatever the result of a check
// is.
func TestNoDescriptorIsLeftOpen(t *testing.T) {
	dir, file := tree(t)
	must(t, errors.Join(os.Symlink(dir+"/folder/../folder/sub/file", dir+"/link"), os.Symlink("loop", dir+"/loop")))
	must(t, os.WriteFile(dir+"/of alice", nil, 0o644))
	must(t, os.Chown(dir+"/of alice", alice, alice))
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(names)
	}
	before := open()
	for _, path := range []string{"/", file, dir + "/link", dir + "/loop", dir + "/of alice", dir + "/none", dir + "/folder/..", file + "/x"} {
		for range 3 {
			_ = Users{}.Check(path)
			_ = Users{}.Program(path)
			_ = Users{}.CheckDirectory(path)
		}
	}
	if after := open(); after != before {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
}

func TestRelativePathsAreRefused(t *testing.T) {
	for _, path := range []string{"", "etc/passwd", "./x"} {
		if err := (Users{}).Check(path); err == nil {
			t.Errorf("%q passes", path)
		}
	}
}

// TestOpen checks that only text files are opened, and that opening never waits.
func TestOpen(t *testing.T) {
	dir, file := tree(t)
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	must(t, os.Symlink("/dev/zero", dir+"/zero"))
	for _, path := range []string{dir + "/fifo", dir + "/zero"} {
		if fd, err := (Users{}).Open(path); err == nil {
			unix.Close(fd)
			t.Errorf("%s was opened", path)
		}
	}
	fd, err := (Users{}).Open(file)
	must(t, err)
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	buf := make([]byte, 9)
	if n, err := f.Read(buf); err != nil || string(buf[:n]) != "text" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

func TestProgram(t *testing.T) {
	for name, c := range map[string]struct {
		first   func(dir string) string
		problem string
	}{
		"a script of a shell":                   {first: func(string) string { return "#!/bin/sh -e" }},
		"a script without an interpreter":       {first: func(string) string { return "exit 0" }},
		"an interpreter of somebody else":       {first: func(d string) string { return "#! " + d + "/home/python -u" }, problem: "belongs to 54321"},
		"an interpreter that is such a script":  {first: func(d string) string { return "#!" + d + "/second" }, problem: "belongs to 54321"},
		"an interpreter in the job's directory": {first: func(string) string { return "#!python" }, problem: "not an absolute path"},
		"an interpreter that is not there":      {first: func(d string) string { return "#!" + d + "/none" }, problem: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := tree(t)
			must(t, os.Mkdir(dir+"/home", 0o755))
			must(t, os.WriteFile(dir+"/home/python", []byte("#!/bin/sh\n"), 0o755))
			must(t, os.Chown(dir+"/home", alice, alice))
			must(t, os.WriteFile(dir+"/second", []byte("#!"+dir+"/home/python\n"), 0o755))
			must(t, os.WriteFile(file, []byte(c.first(dir)+"\n"), 0o755))
			err := (Users{}).Program(file)
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("error %v, want %q", err, c.problem)
			}
		})
	}
	if err := (Users{}).Program("/bin/sh"); err != nil {
		t.Errorf("a binary: %v", err)
	}
}

// as calls a function with the rights of another user on files.
func as(uid, gid uint32, groups []uint32, f func()) {
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
		if errno != 0 {
			panic(errno)
		}
		_, _ = unix.SetfsgidRetGid(int(gid))
		_, _ = unix.SetfsuidRetUid(int(uid))
		if now, _ := unix.SetfsuidRetUid(-1); now != int(uid) {
			panic("no rights of another user")
		}
		f()
	}()
	<-done
}

// attack tries to change what a path leads to, as alice, and says how she did it.
func attack(dir, path string) (how string) {
	var parts []string
	for at := path; len(at) >= len(dir); at = filepath.Dir(at) {
		parts = append(parts, at)
	}
	as(alice, alice, []uint32{alice, staff}, func() {
		for _, at := range parts {
			if fd, err := unix.Open(at, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				unix.Close(fd)
				how = "write " + at
			}
			if st, err := os.Lstat(at); err == nil && st.Mode()&fs.ModeSymlink == 0 && os.Chmod(at, st.Mode()) == nil {
				how = "chmod " + at
			}
			if at != dir && os.Rename(at, at+".gone") == nil {
				_ = os.Rename(at+".gone", at)
				how = "replace " + at
			}
		}
	})
	return how
}

// TestTrustedPathsCannotBeChangedByOthers tries owners and modes of all parts of a path: a path
// that alice can change is not trusted.
func TestTrustedPathsCannotBeChangedByOthers(t *testing.T) {
	testenv.Require(t, testenv.Root)
	passed, attacked := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		dir, file := tree(t)
		path := file
		if rapid.Bool().Draw(r, "link") {
			must(t, os.Mkdir(dir+"/other", 0o755))
			must(t, os.Symlink("../folder/sub", dir+"/other/link"))
			if rapid.Bool().Draw(r, "link of alice") {
				must(t, os.Lchown(dir+"/other/link", alice, alice))
			}
			path = dir + "/other/link/file"
			change(t, r, dir+"/other")
		}
		for _, at := range []string{file, dir + "/folder/sub", dir + "/folder"} {
			change(t, r, at)
		}
		how := attack(dir, path)
		if how == "" {
			how = attack(dir, file)
		}
		err := (Users{}).Check(path)
		if err == nil {
			passed++
		}
		if how != "" {
			attacked++
		}
		if how != "" && err == nil {
			r.Fatalf("passes, and alice can %s", how)
		}
	})
	if passed == 0 || attacked == 0 {
		t.Errorf("%d passed, %d were attacked: the test tests nothing", passed, attacked)
	}
}

// change gives a part of a path an owner, a group and a mode.
func change(t testing.TB, r *rapid.T, at string) {
	info, err := os.Lstat(at)
	must(t, err)
	label := filepath.Base(at)
	safe := rapid.IntRange(0, 2).Draw(r, label+" is safe") > 0
	if safe {
		return
	}
	uid := rapid.SampledFrom([]int{0, 0, 0, alice, bob}).Draw(r, label+" uid")
	gid := rapid.SampledFrom([]int{0, alice, staff}).Draw(r, label+" gid")
	mode := rapid.SampledFrom([]fs.FileMode{0o755, 0o775, 0o757, 0o777, 0o750, 0o700}).Draw(r, label+" mode")
	if info.IsDir() && rapid.Bool().Draw(r, label+" sticky") {
		mode |= fs.ModeSticky
	}
	must(t, os.Chown(at, uid, gid))
	if rapid.IntRange(0, 4).Draw(r, label+" acl") == 0 {
		if err := unix.Setxattr(at, aclAttribute, acl(), 0); err != nil {
			panic(fmt.Sprint("the file system of the test has no access control lists: ", err))
		}
	}
	must(t, os.Chmod(at, mode))
}
