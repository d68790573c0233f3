package userfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

const alice = 20001

// place returns a directory with a file that everybody may read, a directory that only root may
// enter, and a directory of alice's.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "userfile-test-") //nolint:usetesting // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.WriteFile(dir+"/public", []byte("public"), 0o644), os.WriteFile(dir+"/secret", []byte("secret"), 0o600),
		os.Mkdir(dir+"/closed", 0o700), os.WriteFile(dir+"/closed/file", []byte("secret"), 0o644),
		os.Mkdir(dir+"/alice", 0o755), os.WriteFile(dir+"/alice/own", []byte("own"), 0o600), unix.Mkfifo(dir+"/alice/pipe", 0o666),
		os.Symlink("own", dir+"/alice/link"), os.Symlink("loop", dir+"/alice/loop"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpen(t *testing.T) {
	dir := place(t)
	for name, c := range map[string]struct {
		path  string
		flags int
		want  string
		kind  string
		err   error
	}{
		"a file":                     {path: "alice/own", want: "own"},
		"a link":                     {path: "alice/link", want: "own"},
		"a link that may not be one": {path: "alice/link", flags: NoFollow, kind: "a symbolic link"},
		"a circle":                   {path: "alice/loop", err: unix.ELOOP},
		"nothing":                    {path: "missing", err: fs.ErrNotExist},
		"a file as a directory":      {path: "public/x", err: unix.ENOTDIR},
		"a directory":                {path: "alice", kind: "a directory"},
		"a pipe without a writer":    {path: "alice/pipe", kind: "a pipe"},
		"a device":                   {path: "../../dev/zero", kind: "a device"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join(dir, c.path), c.flags)
			text := read(t, f)
			kind, _ := errors.AsType[*KindError](err)
			switch {
			case c.err != nil && !errors.Is(err, c.err), c.kind != "" && (kind == nil || kind.Kind != c.kind),
				c.want != text, (err == nil) != (c.want != ""):
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

func TestRights(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := place(t)
	if err := filepath.WalkDir(dir+"/alice", func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, alice, alice))
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(dir+"/public", 0, alice+1), os.Chmod(dir+"/public", 0o640)); err != nil {
		t.Fatal(err)
	}
	inside, err := os.Open(dir + "/closed/file")
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	t.Chdir(dir + "/closed")
	r := &Rights{UID: alice, GID: alice, Groups: []uint32{alice + 1}}
	for path, want := range map[string]string{
		dir + "/alice/own":   "own",
		dir + "/alice/link":  "own",
		dir + "/public":      "public", // of a supplementary group
		dir + "/secret":      "",
		dir + "/closed/file": "",
		"file":               "", // the working directory is not alice's choice
		"../public":          "", // nor can alice leave it
		"/proc/self/fd/" + strconv.Itoa(int(inside.Fd())): "",
		"/dev/fd/" + strconv.Itoa(int(inside.Fd())):       "",
		"/proc/self/cwd/file":                             "",
		"/proc/self/root" + dir + "/closed/file":          "",
		"/proc/self/environ":                              "",
	} {
		f, err := r.Open(path, 0)
		if text := read(t, f); text != want || (err == nil) != (want != "") || want == "" && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %q, %v; expected %q", path, text, err, want)
		}
	}
	// The rights were those of one thread, for the time of the call.
	if f, err := Open(dir+"/closed/file", 0); read(t, f) != "secret" {
		t.Error(err)
	}
}

// TestOpenBelowDirectory checks files below a directory that root has opened: the user's rights
// count from there on, not those on the directories above, and no link leads out.
func TestOpenBelowDirectory(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := place(t)
	if err := errors.Join(os.Chown(dir+"/closed/file", alice, alice), os.WriteFile(dir+"/closed/secret", []byte("secret"), 0o600),
		os.Symlink("file", dir+"/closed/link"), os.Symlink("../secret", dir+"/closed/up"), os.Symlink("/proc/self/environ", dir+"/closed/out"),
		unix.Mkfifo(dir+"/closed/pipe", 0o666), os.Mkdir(dir+"/closed/hidden", 0o700), os.Mkdir(dir+"/closed/shown", 0o755),
		os.WriteFile(dir+"/closed/shown/b", nil, 0), os.WriteFile(dir+"/closed/shown/a", nil, 0), os.Chmod(dir+"/closed", 0o701), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	top, err := os.OpenRoot(dir + "/closed")
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	r := &Rights{UID: alice, GID: alice}
	for name, want := range map[string]string{"file": "secret", "link": "secret", "secret": "", "up": "", "out": "", "pipe": "", "shown": "", "../secret": ""} {
		f, err := r.OpenBelow(top, name)
		if text := read(t, f); text != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; expected %q", name, text, err, want)
		}
	}
	if e, err := r.ReadDirBelow(top, "shown"); err != nil || len(e) != 2 || e[0].Name() != "a" {
		t.Errorf("%v, %v", e, err)
	}
	for _, name := range []string{"hidden", "."} {
		if e, err := r.ReadDirBelow(top, name); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	if e, err := r.ReadDir(dir + "/closed/shown"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, %v", e, err)
	}
}

// TestFileReplacedDuringOpen checks that root reads no other file, whatever a user puts in the
// file's place meanwhile.
func TestFileReplacedDuringOpen(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := place(t)
	path, other := dir+"/alice/turn", dir+"/alice/other"
	if err := errors.Join(os.Chmod(dir+"/alice/own", 0o644), os.Symlink("own", path), os.Symlink("../secret", other)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var turns sync.WaitGroup
	turns.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	r := &Rights{UID: alice, GID: alice}
	opened, refused := 0, 0
	for range 5000 {
		f, err := r.Open(path, 0)
		switch text := read(t, f); {
		case text == "secret":
			t.Fatal("the secret was read")
		case text == "own":
			opened++
		case err != nil:
			refused++
		}
	}
	close(stop)
	turns.Wait()
	t.Attr("read", strconv.Itoa(opened))
	t.Attr("refused", strconv.Itoa(refused))
}

func read(t *testing.T, f *os.File) string {
	t.Helper()
	if f == nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
