package main_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// The users of a world.
const (
	alice, bob = 20001, 20002
	staff      = 30001 // a group that alice is in
)

// world is where execd runs: as an ordinary user with a state directory of its
// own, or as root in a mount namespace that has its own users and spool.
type world struct {
	mode  mode
	dir   string // of the test; alice's where there is an alice
	user  string // whose jobs run
	spool string // where execd keeps its jobs, as seen from outside
	exe   string // execd as it is to be called
	env   []string
}

// mode selects the user who runs execd.
type mode int

const (
	asUser mode = iota // alice if root runs the test, otherwise the user who runs it
	asRoot             // with --as alice, unless the test says something else
)

// openDir makes a directory that all users may enter, as they may not those of
// t.TempDir.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(base, "") //nolint:usetesting // see above
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newWorld makes a world. dir is the test's own directory and exists.
func newWorld(t testing.TB, m mode, dir string) (*world, error) {
	w := &world{mode: m, dir: dir, exe: base + "/bin/execd", spool: dir + "/state/execd"}
	w.env = setenv(os.Environ(), "HOME="+dir+"/home", "XDG_STATE_HOME="+dir+"/state", "LC_ALL=C", "MAIL=",
		"GORACE=atexit_sleep_ms=0") // a second for each execd otherwise
	if err := os.MkdirAll(dir+"/home", 0o755); err != nil {
		return nil, err
	}
	if os.Getuid() != 0 {
		out, err := exec.Command("id", "-un").Output()
		w.user = strings.TrimSpace(string(out))
		return w, err
	}
	etc := openDir(t)
	files := map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\n" +
			"daemon:x:1:1:daemon:/:/bin/sh\nlowuid:x:300:20001:user id below min_uid:/:/bin/sh\n" +
			"lowgid:x:20003:50:group id below min_gid:/:/bin/sh\n" +
			fmt.Sprintf("alice:x:%d:%d::%s/home:/bin/bash\nbob:x:%d:%d::/:/bin/sh\n", alice, alice, dir, bob, bob),
		"group":         "root:x:0:\ndaemon:x:1:\nalice:x:20001:\nbob:x:20002:\nstaff:x:30001:alice\n",
		"nsswitch.conf": "passwd: files\ngroup: files\n",
	}
	binds := []string{etc + "/spool:/var/spool"}
	for name, text := range files {
		if err := os.WriteFile(etc+"/"+name, []byte(text), 0o644); err != nil {
			return nil, err
		}
		binds = append(binds, etc+"/"+name+":/etc/"+name)
	}
	if err := os.Mkdir(etc+"/spool", 0o755); err != nil {
		return nil, err
	}
	w.user, w.exe = "alice", base+"/root/execd"
	w.env = setenv(w.env, worldBinds+"="+strings.Join(binds, ","), worldExecd+"="+base+"/bin/execd")
	if m == asUser {
		w.env = setenv(w.env, worldUser+"="+strconv.Itoa(alice))
	} else {
		w.spool = etc + "/spool/execd"
	}
	if err := w.giveTo(alice); err != nil || m == asUser {
		return w, err
	}
	// As /tmp is: alice's files, and the configuration, which is root's.
	return w, errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, fs.ModeSticky|0o777))
}

// giveConfTo makes the configuration directory that a command line names a user's. Root's
// commands read root's alone.
func giveConfTo(uid int, args []string) error {
	i := slices.Index(args, "--conf") + 1
	if slices.Contains(args, "config") {
		i = len(args) - 1
	}
	if i == 0 || i == len(args) {
		return nil
	}
	return filepath.WalkDir(args[i], func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
}

// giveTo makes everything in the directory of the test a user's.
func (w *world) giveTo(uid int) error {
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
}

// The variables by which a test tells enterWorld what to do.
const (
	worldBinds = "EXECD_TEST_BINDS" // from:to,...
	worldExecd = "EXECD_TEST_EXECD" // what to execute
	worldUser  = "EXECD_TEST_USER"  // as whom; empty for root
)

// enterWorld becomes execd, in a mount namespace in which some files of the
// machine are replaced. It returns only an error.
func enterWorld() error {
	runtime.LockOSThread() // the namespace is the thread's until it executes
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	for bind := range strings.SplitSeq(os.Getenv(worldBinds), ",") {
		from, to, _ := strings.Cut(bind, ":")
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return &fs.PathError{Op: "mount", Path: to, Err: err}
		}
	}
	if uid, err := strconv.Atoi(os.Getenv(worldUser)); err == nil {
		err := errors.Join(syscall.Setgroups([]int{uid, staff}), syscall.Setresgid(uid, uid, uid), syscall.Setresuid(uid, uid, uid))
		if err != nil {
			return err
		}
	} else if err := giveConfTo(0, os.Args); err != nil {
		return err
	}
	execd := os.Getenv(worldExecd)
	for _, name := range []string{worldBinds, worldExecd, worldUser} {
		os.Unsetenv(name)
	}
	return unix.Exec(execd, append([]string{"execd"}, os.Args[1:]...), os.Environ())
}

// inWorld makes a world for a test in Go.
func inWorld(t *testing.T, m mode) *world {
	t.Helper()
	build(t)
	if m == asRoot || os.Getuid() == 0 {
		testenv.Require(t, testenv.Root)
	}
	w, err := newWorld(t, m, openDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// write makes a file in the directory of the test, of its user; a script is
// executable.
func (w *world) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	perm := fs.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		perm = 0o755
	}
	w.mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
	w.own(t, path)
	return path
}

// mkdir makes directories of the user.
func (w *world) mkdir(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err == nil {
		return
	}
	w.mkdir(t, filepath.Dir(path))
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	w.own(t, path)
}

// own makes a file the user's.
func (w *world) own(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	if err := os.Lchown(path, alice, alice); err != nil {
		t.Fatal(err)
	}
}

// command returns a command in the world, ready to be started in its directory.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.exe, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// result is the result of a command.
type result struct {
	status         int
	stdout, stderr string
}

// run executes execd run with the arguments to its end.
func (w *world) run(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, w.command(append([]string{"run"}, args...)...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs strings.Builder
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// left are the directories, scripts and whatever else is in the spool.
func (w *world) left(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(w.spool, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if rel := strings.TrimPrefix(path, w.spool); err == nil && strings.Count(rel, "/") > 1 {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
