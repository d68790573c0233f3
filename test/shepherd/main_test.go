package shepherd

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// base is the directory of this run: executables in bin, homes in home, and one directory per job.
// private is set if this process is root in its own namespaces.
var (
	base    string
	private bool
)

// insideEnv tells the test binary that it has been started again, in namespaces
// of its own, and where base is.
const insideEnv = "EXECD_TEST_SHEPHERD_BASE"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	var err error
	if base = os.Getenv(insideEnv); base != "" {
		private = true
		err = enterNamespace()
	} else {
		var done func()
		done, err = prepare()
		defer done()
		if err == nil && os.Geteuid() == 0 {
			if code, err := startAgain(); err == nil {
				return code
			}
			// What needs root then skips, or fails where the machine must have it.
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// Most of a test's time is waiting for the job. It is not where the machine is
	// emulated.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue && !testing.Short() {
		_ = f.Value.Set("12")
	}
	defer closeGroups()
	return m.Run()
}

// prepare makes base and builds the executables.
func prepare() (done func(), err error) {
	done = func() {}
	dir, err := os.MkdirTemp("", "execd-shepherd-")
	if err != nil {
		return done, err
	}
	done = func() { _ = os.RemoveAll(dir) }
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return done, err
	}
	base = dir
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/bin", 0o755), os.Mkdir(dir+"/run", 0o755)); err != nil {
		return done, err
	}
	for path, pkg := range map[string]string{
		"sge_shepherd-go": "github.com/execd-project/execd/cmd/shepherd",
		"probe":           "./probe",
		"payload":         "github.com/execd-project/execd/test/payload",
	} {
		if built := os.Getenv(testenv.ProgramsEnv); built != "" {
			// In a guest there is no compiler.
			program, err := os.ReadFile(filepath.Join(built, path))
			if err == nil {
				err = os.WriteFile(dir+"/bin/"+path, program, 0o755)
			}
			if err != nil {
				return done, err
			}
			continue
		}
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/bin/"+path, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return done, fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
	}
	// A shell, a command, an interpreter and a starter method, told apart by
	// their names alone.
	for _, name := range []string{"testshell", "command", "interpreter", "starter", "launch", "refuse", "counter", "handler"} {
		if err := os.Link(dir+"/bin/probe", dir+"/bin/"+name); err != nil {
			return done, err
		}
	}
	return done, nil
}

// startAgain runs this test binary as the first process of new namespaces. The
// error is about the start: what the run itself has to say is its exit code.
func startAgain() (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"="+base)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() < 0 {
		fmt.Fprintln(os.Stderr, "the tests in namespaces ended by", cmd.ProcessState)
		return 2, nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// The users of the tests. Their home directories are in base/home.
const (
	alice = 20001 // whose jobs they are
	bob   = 20002 // a stranger
	site  = 20003 // as whom a procedure may run
	admin = 20004 // admin_user of a real sge_execd
	low   = 500   // below min_uid

	staff  = 20100 // a group of alice
	minUID = 1000
)

func enterNamespace() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"tmpfs", base + "/run", "tmpfs", 0, "mode=0755,size=256m"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.target, err)
		}
	}
	var passwd, group strings.Builder
	passwd.WriteString("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n")
	fmt.Fprintf(&group, "root:x:0:\nnogroup:x:65534:\nstaff:x:%d:bob,alice\n", staff)
	if err := os.Mkdir(base+"/run/home", 0o755); err != nil {
		return err
	}
	for name, id := range map[string]int{"alice": alice, "bob": bob, "site": site, "sgeadmin": admin, "low": low} {
		home := base + "/run/home/" + name
		fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:/bin/sh\n", name, id, id, home)
		fmt.Fprintf(&group, "%s:x:%d:\n", name, id)
		if err := errors.Join(os.Mkdir(home, 0o755), os.Chown(home, id, id)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"passwd": passwd.String(), "group": group.String(), "nsswitch.conf": "passwd: files\ngroup: files\n",
	} {
		file := base + "/run/" + name
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot put %s in the place of /etc/%s: %w", file, name, err)
		}
	}
	return nil
}

// needRoot skips a test without root and namespaces.
func needRoot(t *testing.T) {
	t.Helper()
	if !private {
		testenv.Require(t, testenv.Root)
		t.Fatal("needs namespaces, which were not to be had")
	}
}

// A mode is who starts the shepherd, with which rights.
type mode string

const (
	asRoot  mode = "started by root"
	asAdmin mode = "started by a real execd" // root and the admin user, signals blocked
	asUser  mode = "started by the user"
)

// need skips a test that cannot be run in this mode.
func (m mode) need(t *testing.T) {
	t.Helper()
	if m != asUser || os.Geteuid() == 0 {
		needRoot(t)
	}
}

// everyMode runs a test in all modes.
func everyMode(t *testing.T, test func(t *testing.T, m mode)) {
	t.Helper()
	for _, m := range []mode{asRoot, asAdmin, asUser} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			m.need(t)
			test(t, m)
		})
	}
}

// owner returns the user whose jobs the tests run: alice, or if there is no alice, the user who
// runs the tests.
func owner() (name string, uid, gid int) {
	if private {
		return "alice", alice, alice
	}
	u, err := user.Current()
	if err != nil {
		panic(err)
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return u.Username, uid, gid
}

// best returns the mode with the most rights, for tests that do not depend on the mode.
func best() mode {
	if private {
		return asRoot
	}
	return asUser
}
