package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// patience is the timeout of a test: an operation of one second may take half a minute while other
// tests run.
const patience = 3 * time.Minute

// programs are the executables, built once.
var programs struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	if what, socket, ok := strings.Cut(os.Getenv(hostileEnv), " "); ok {
		hostile(what, socket)
	}
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

// built returns a directory with execd, the supervisor, and links with the names of Grid Engine's
// commands.
func built(t testing.TB) string {
	t.Helper()
	programs.Do(func() { programs.dir, programs.err = build() })
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "execd-test-standalone-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	if there := os.Getenv(testenv.ProgramsEnv); there != "" {
		for _, name := range []string{"execd", "execd-launcher", "sge_shepherd-go"} {
			if err := os.Symlink(filepath.Join(there, name), filepath.Join(dir, name)); err != nil {
				return dir, err
			}
		}
	} else if err := testenv.Build(dir, ""); err != nil {
		return dir, err
	}
	if err := os.Mkdir(filepath.Join(dir, "commands"), 0o755); err != nil {
		return dir, err
	}
	for _, name := range []string{"qsub", "qstat", "qdel", "qalter", "qmod", "qhold", "qrls", "qrsh", "qlogin", "qconf", "qhost", "qacct", "qquota", "qselect", "qresub"} {
		if err := os.Symlink("../execd", filepath.Join(dir, "commands", name)); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// hostName is the daemon's name for its host.
const hostName = "node1"

// machine is a host with a daemon that can be killed and restarted.
type machine struct {
	testing.TB
	bin, dir string
	args     []string   // further options of the daemon
	env      []string   // further variables of the daemon
	owner    *user.User // user of the daemon; nil for the user of the test
	builtin  bool       // the daemon has no configuration directory
	wrap     []string   // a command that runs the daemon
	// byDefault leaves it to the daemon how many processes it has.
	byDefault bool

	daemon testenv.Daemon
}

// newMachine creates a host with a queue, without a running daemon.
func newMachine(t testing.TB, slots int) *machine {
	t.Helper()
	m := &machine{TB: t, bin: built(t), dir: t.TempDir()}
	testenv.LetIn(t, m.dir)
	m.write("conf/queues/all.q", fmt.Sprintf("qname all.q\nhostlist %s\nslots %d\nshell /bin/sh\nload_thresholds NONE\npe_list smp\ntmpdir %s\n", hostName, slots, m.open("tmp")))
	m.write("conf/hosts/"+hostName, "hostname "+hostName+"\n")
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\n")
	t.Cleanup(m.end)
	return m
}

// own makes a user run the daemon.
func (m *machine) own(u *user.User) {
	m.Helper()
	m.owner = u
	if credential(m, u) == nil {
		return
	}
	err := filepath.WalkDir(m.dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, number(m, u.Uid), number(m, u.Gid)))
	})
	if err != nil {
		m.Fatal(err)
	}
}

// groupIDs returns the line gid_range of sge_conf(5) for one daemon of these tests.
func groupIDs() string { return "gid_range " + testenv.GroupIDs(32000, 45999) + "\n" }

func (m *machine) write(name, text string) {
	m.Helper()
	testenv.WriteFile(m, filepath.Join(m.dir, name), text)
}

// open creates a directory to which everybody may write.
func (m *machine) open(name string) string {
	m.Helper()
	return testenv.Open(m, filepath.Join(m.dir, name))
}

// twoEnv has all daemons of root consist of two processes.
const twoEnv = "EXECD_TEST_TWO"

// two reports whether the daemon consists of two processes.
func (m *machine) two() bool {
	return slices.Contains(m.args, "--front-user") || os.Getenv(twoEnv) != "" && m.owner == nil && os.Geteuid() == 0
}

// place returns the directory of the daemon's own files.
func (m *machine) place() string {
	if m.two() {
		return filepath.Join(m.dir, "spool", "front")
	}
	return filepath.Join(m.dir, "spool")
}

func (m *machine) socket() string { return filepath.Join(m.dir, "run", "agent.sock") }

// start starts the daemon.
func (m *machine) start() {
	m.Helper()
	cmd := exec.Command(filepath.Join(m.bin, "execd"), "standalone", "--host", hostName, //nolint:noctx // it is killed by the test
		"--spool", filepath.Join(m.dir, "spool"), "--socket", m.socket())
	if !m.builtin {
		cmd.Args = append(cmd.Args, "--conf", filepath.Join(m.dir, "conf"))
	}
	switch {
	case m.byDefault || slices.Contains(m.args, "--front-user"):
	case m.two():
		cmd.Args = append(cmd.Args, "--front-user", frontUser)
	default:
		cmd.Args = append(cmd.Args, "--one-process") // whether or not this host has a user for fronts
	}
	cmd.Args = append(cmd.Args, m.args...)
	if len(m.wrap) > 0 {
		cmd = exec.Command(m.wrap[0], append(m.wrap[1:], cmd.Args...)...) //nolint:noctx,gosec // as above
	}
	cmd.Env = append(os.Environ(), m.env...)
	if m.owner != nil {
		cmd.SysProcAttr = credential(m, m.owner)
	}
	m.daemon.Start(m, cmd, filepath.Join(m.dir, "log"))
}

// end stops the daemon and the remaining jobs.
func (m *machine) end() {
	daemon, gone := m.daemon.Process()
	if daemon == nil {
		return
	}
	defer m.stop() // whatever fails before: the last one that was started
	defer m.tell()
	select {
	case <-gone:
		m.start()
	default:
	}
	m.root("qdel", "-u", "*")
	m.until("all jobs have left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
}

// stop ends the daemon. A front survives its launcher, unless the launcher tells it to end.
func (m *machine) stop() {
	if p, gone := m.daemon.Process(); m.byDefault || m.two() {
		_ = p.Signal(syscall.SIGTERM)
		limit := time.NewTimer(patience)
		defer limit.Stop()
		select {
		case <-gone:
		case <-limit.C:
			m.Error("the daemon has not ended in time")
		}
	}
	m.daemon.Kill()
}

// tell prints logs after a failure.
func (m *machine) tell() {
	if m.Failed() {
		m.Logf("the jobs: %+v", m.root("qstat", "-u", "*"))
		log, _ := os.ReadFile(filepath.Join(m.dir, "log"))
		m.Logf("the log of the daemon:\n%s", log[max(0, len(log)-4000):])
	}
}

// result is the output and exit status of a command.
type result struct {
	stdout, stderr string
	status         int
}

// as runs a command as a user.
func (m *machine) as(u *user.User, name string, args ...string) result {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := m.command(ctx, u, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		m.Errorf("%s %q: %v", name, args, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func (m *machine) command(ctx context.Context, u *user.User, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(m.bin, "commands", name), args...)
	cmd.Dir = m.dir
	cmd.Env = []string{"EXECD_SOCKET=" + m.socket(), "PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(m.dir, "home", u.Username), "LOGNAME=" + u.Username, "USER=" + u.Username}
	cmd.SysProcAttr = credential(m, u)
	return cmd
}

// credential makes a process run as a user; nil for the user of the test.
func credential(t testing.TB, u *user.User) *syscall.SysProcAttr {
	uid := number(t, u.Uid)
	if uid == os.Getuid() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(number(t, u.Gid))}}
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// root runs a command as the user of the test.
func (m *machine) root(name string, args ...string) result {
	m.Helper()
	u, err := user.Current()
	if err != nil {
		m.Fatal(err)
	}
	return m.as(u, name, args...)
}

// until waits until a condition holds.
func (m *machine) until(what string, is func() bool) {
	m.Helper()
	if !becomes(is, 50*time.Millisecond) {
		m.Fatalf("not in time: %s\n%s\n%s", what, m.root("qstat", "-u", "*").stdout, m.root("qstat", "-j", "*").stdout)
	}
}

// becomes polls until a condition holds, with a pause in between. It reports whether the condition
// held in time.
func becomes(is func() bool, pause time.Duration) bool {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	again := time.NewTicker(pause)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-limit.C:
			return false
		}
	}
	return true
}

// someUsers are users of this host, as many as asked for; one who is not root has himself.
func someUsers(t testing.TB, n int) []*user.User {
	t.Helper()
	if os.Getuid() != 0 {
		u, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		return []*user.User{u}
	}
	var list []*user.User
	for _, name := range []string{"nobody", "daemon", "bin", "sys", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data", "backup"} {
		if u, err := user.Lookup(name); err == nil && len(list) < n {
			list = append(list, u)
		}
	}
	if len(list) < n {
		t.Fatalf("this host has %d of the usual users, want %d", len(list), n)
	}
	return list
}

// lines returns the lines of a file; none if the file is missing or empty.
func lines(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}
