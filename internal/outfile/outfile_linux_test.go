package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

const alice = 20001

// place returns a directory of ours with directories that others may change, and files that nothing
// may happen to.
func place(t *testing.T) string {
	t.Helper()
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	for _, err := range []error{
		os.Mkdir(dir+"/own", 0o755), os.Mkdir(dir+"/alice", 0o755), os.Mkdir(dir+"/alice/sub", 0o755), os.Mkdir(dir+"/shared", 0), os.Mkdir(dir+"/group", 0),
		os.Chmod(dir+"/shared", 0o777|fs.ModeSticky), os.Chmod(dir+"/group", 0o775), os.Chown(dir+"/group", 0, alice),
		os.WriteFile(dir+"/precious", []byte("precious"), 0o600), os.Mkdir(dir+"/closed", 0o700),
		os.Symlink("own", dir+"/link"), os.Symlink(dir+"/alice", dir+"/own/home"), os.Symlink("loop", dir+"/loop"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"alice", "alice/sub"} {
		if err := os.Chown(dir+"/"+name, alice, alice); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// plant makes a file of alice's.
func plant(t *testing.T, path string, create func(path string) error) {
	t.Helper()
	if err := errors.Join(create(path), os.Lchown(path, alice, alice)); err != nil {
		t.Fatal(err)
	}
}

// ways are the functions that write a file.
var ways = map[string]func(path string) error{
	"Begin": func(path string) error {
		f, err := Begin(path)
		if err != nil {
			return err
		}
		defer f.Discard()
		return f.Commit([]byte("new"), 0o640)
	},
	"Open": func(path string) error {
		f, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
		if err != nil {
			return err
		}
		_, err = f.WriteString("new")
		return errors.Join(err, f.Close())
	},
	"Write": func(path string) error {
		dir, err := openDir(filepath.Dir(path), false)
		if err != nil {
			return err
		}
		defer dir.Close()
		return Write(dir, filepath.Base(path), []byte("new"), 0o640)
	},
}

func TestWriteToOwnDirectories(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := place(t)
			t.Chdir(dir)
			for name, there := range map[string]string{
				"own/a": "own/a", "link/b": "own/b", "./own/../link/c": "own/c", dir + "//own/./d": "own/d", "shared/e": "shared/e",
				"alice/f": "alice/f", "own/home/g": "alice/g", "link/home/sub/h": "alice/sub/h", "group/i": "group/i", "alice/sub/../j": "alice/j",
			} {
				for range 2 { // makes it, and replaces it
					if err := write(name); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				b, err := os.ReadFile(filepath.Join(dir, there))
				info, e := os.Lstat(filepath.Join(dir, there))
				if err != nil || e != nil || string(b) != "new" || info.Mode() != 0o640 {
					t.Errorf("%s: %q, %v, %v", name, b, info, errors.Join(err, e))
				}
			}
			for name, want := range map[string]error{
				"missing/x": fs.ErrNotExist, "precious/x": unix.ENOTDIR, "loop": unix.ELOOP, "loop/x": unix.ELOOP, "own": unix.EISDIR, "": unix.EISDIR, "..": unix.EISDIR, "/": unix.EISDIR,
			} {
				if way == "Write" && !strings.Contains(name, "/x") {
					continue
				}
				if err := write(name); !errors.Is(err, want) {
					t.Errorf("%q: %v, expected %v", name, err, want)
				}
			}
			nothingLeft(t, dir)
		})
	}
}

func TestWriteToDirectoriesOfOthers(t *testing.T) {
	for way, write := range ways {
		for what, c := range map[string]struct {
			name     string // of the file
			plant    string // what alice makes there
			make     func(dir, path string) error
			replaced bool // by a function that replaces files
		}{
			"a link in alice's directory":     {name: "alice/x", plant: "alice/x", make: func(dir, path string) error { return os.Symlink(dir+"/precious", path) }},
			"a link to a new name":            {name: "alice/x", plant: "alice/x", make: func(dir, path string) error { return os.Symlink(dir+"/closed/new", path) }},
			"a link on the way":               {name: "alice/way/x", plant: "alice/way", make: func(dir, path string) error { return os.Symlink(dir+"/closed", path) }},
			"a link on the way, behind dots":  {name: "alice/sub/../way/../closed/x", plant: "alice/way", make: func(dir, path string) error { return os.Symlink(dir+"/closed", path) }},
			"a link by way of ours":           {name: "own/home/way/x", plant: "alice/way", make: func(dir, path string) error { return os.Symlink(dir+"/closed", path) }},
			"a link in a directory like /tmp": {name: "shared/x", plant: "shared/x", make: func(dir, path string) error { return os.Symlink(dir+"/precious", path) }},
			"a directory in a directory like /tmp": {name: "shared/d/x", plant: "shared/d", make: func(dir, path string) error {
				return errors.Join(os.Mkdir(path, 0o777), os.Symlink(dir+"/precious", path+"/x"))
			}},
			"a link in a directory of a group": {name: "group/x", plant: "group/x", make: func(dir, path string) error { return os.Symlink(dir+"/precious", path) }},
			"a link to a descriptor":           {name: "alice/x", plant: "alice/x", make: func(_, path string) error { return os.Symlink("/proc/self/fd/2", path) }},
			"a pipe":                           {name: "alice/x", plant: "alice/x", make: func(_, path string) error { return unix.Mkfifo(path, 0o666) }},
			"a device":                         {name: "alice/x", plant: "alice/x", make: func(_, path string) error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) }},
			"another name of a file of ours": {name: "shared/x", plant: "shared/unused", replaced: true, make: func(dir, path string) error {
				return errors.Join(os.Link(dir+"/precious", filepath.Dir(path)+"/x"), os.WriteFile(path, nil, 0o600))
			}},
			"another name, in alice's directory": {name: "alice/x", plant: "alice/unused", replaced: true, make: func(dir, path string) error {
				return errors.Join(os.Link(dir+"/precious", filepath.Dir(path)+"/x"), os.WriteFile(path, nil, 0o600))
			}},
			"a file of alice's, which she goes on reading": {name: "alice/x", plant: "alice/x", replaced: true, make: func(_, path string) error { return os.WriteFile(path, []byte("mine"), 0o666) }},
		} {
			t.Run(way+"/"+what, func(t *testing.T) {
				dir := place(t)
				plant(t, filepath.Join(dir, c.plant), func(path string) error { return c.make(dir, path) })
				path := dir + "/" + c.name
				err := write(path)
				var refused *Error
				switch replaces := way == "Write" || way == "Begin" && c.replaced; {
				case replaces && err == nil:
					if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
						t.Errorf("%v, %v", info, err)
					}
				case !errors.As(err, &refused) && !errors.Is(err, fs.ErrNotExist):
					t.Errorf("%v", err)
				case refused != nil && (refused.Why == "" || !strings.HasPrefix(refused.In, dir) || !strings.HasPrefix(refused.Path, dir)):
					t.Errorf("%v", err)
				}
				if b, err := os.ReadFile(dir + "/precious"); string(b) != "precious" {
					t.Errorf("the file of ours has %q, %v", b, err)
				}
				if names, err := os.ReadDir(dir + "/closed"); len(names) > 0 || err != nil {
					t.Errorf("in the directory of ours: %v, %v", names, err)
				}
				nothingLeft(t, dir)
			})
		}
	}
}

// TestPathReplacedDuringWrite checks that nothing is written outside of alice's directory, whatever
// she replaces during the write.
func TestPathReplacedDuringWrite(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := place(t)
			a, b := dir+"/alice/sub", dir+"/alice/other"
			plant(t, b, func(path string) error { return os.Symlink(dir+"/closed", path) })
			plant(t, dir+"/alice/sub/x", func(path string) error { return os.Symlink(dir+"/precious", path) })
			plant(t, dir+"/alice/sub/y", func(path string) error { return os.WriteFile(path, nil, 0o600) })
			stop := make(chan struct{})
			var turns sync.WaitGroup
			for _, pair := range [][2]string{{a, b}, {a + "/x", a + "/y"}} {
				turns.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						_ = unix.Renameat2(unix.AT_FDCWD, pair[0], unix.AT_FDCWD, pair[1], unix.RENAME_EXCHANGE)
					}
				})
			}
			done := 0
			for i := range 300 {
				for _, name := range []string{"x", fmt.Sprint("new", i)} {
					if write(a+"/"+name) == nil {
						done++
					}
				}
			}
			close(stop)
			turns.Wait()
			t.Attr("written", strconv.Itoa(done))
			if b, err := os.ReadFile(dir + "/precious"); string(b) != "precious" {
				t.Errorf("the file of ours has %q, %v", b, err)
			}
			if names, err := os.ReadDir(dir + "/closed"); len(names) > 0 || err != nil {
				t.Errorf("in the directory of ours: %v, %v", names, err)
			}
		})
	}
}

// TestDevices checks that devices and pipes are written only in directories in which no other user
// can have created them.
func TestDevices(t *testing.T) {
	dir := place(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file, err := os.Create(dir + "/own/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("before "); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/dev/null", fmt.Sprintf("/proc/self/fd/%d", w.Fd()), fmt.Sprintf("/dev/fd/%d", file.Fd())} {
		f, err := Begin(name)
		if err == nil {
			err = f.Commit([]byte("new"), 0o644)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	buf := make([]byte, 10)
	if n, err := r.Read(buf); string(buf[:n]) != "new" {
		t.Errorf("the pipe has %q, %v", buf[:n], err)
	}
	if b, err := os.ReadFile(dir + "/own/file"); string(b) != "before new" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

func TestMakeDir(t *testing.T) {
	dir := place(t)
	root, err := MakeDir(dir + "/link/a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if info, err := os.Stat(dir + "/own/a/b"); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
	plant(t, dir+"/alice/way", func(path string) error { return os.Symlink(dir+"/closed", path) })
	if _, err := MakeDir(dir + "/alice/way/a"); !errors.As(err, new(*Error)) {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir + "/closed"); len(names) > 0 || err != nil {
		t.Errorf("in the directory of ours: %v, %v", names, err)
	}
}

// TestDiscard checks that an output file that is not written leaves no file behind.
func TestDiscard(t *testing.T) {
	dir := place(t)
	f, err := Begin(dir + "/own/x")
	if err != nil {
		t.Fatal(err)
	}
	f.Discard()
	f.Discard()
	(*File)(nil).Discard()
	if names, err := os.ReadDir(dir + "/own"); len(names) != 1 || err != nil { // home
		t.Errorf("%v, %v", names, err)
	}
}

// nothingLeft checks that there are no temporary files.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".") {
			t.Errorf("%s is left, %v", path, err)
		}
		return nil
	})
}
