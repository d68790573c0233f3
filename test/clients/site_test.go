package clients

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// patience is the timeout of a test. An operation of one second may take half a minute while other
// tests run.
const patience = 3 * time.Minute

// period is the pause between two polls.
const period = 50 * time.Millisecond

// programs are the executables, built once.
var programs struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

// commands are the commands of Grid Engine that clients call.
var commands = []string{"qsub", "qstat", "qdel", "qalter", "qmod", "qhold", "qrls", "qrsh", "qconf", "qhost", "qacct", "qselect", "qquota", "qresub"}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "execd-test-clients-")
	if err != nil {
		return "", err
	}
	err = errors.Join(os.Chmod(dir, 0o755), testenv.Build(dir, ""), os.Mkdir(filepath.Join(dir, "commands"), 0o755))
	for _, name := range commands {
		err = errors.Join(err, os.Symlink("../execd", filepath.Join(dir, "commands", name)))
	}
	return dir, err
}

// site is a machine with execd standalone.
type site struct {
	testing.TB
	bin, dir string
	user     *user.User // the user of the clients
	work     string     // a directory of that user
	options  []string   // of the daemon
	daemon   testenv.Daemon
}

func newSite(t testing.TB, slots int) *site {
	t.Helper()
	s := prepared(t)
	s.user = client(t, "man") // an account with a home directory
	const global = "min_uid 1\nmin_gid 1\nfinished_jobs 1000\nexecd_params SCRIPT_SHELL=true\nqmaster_params SLOTS_PE=smp\n"
	testenv.WriteFile(t, filepath.Join(s.dir, "conf/conf/global"), global)
	s.options = []string{"--conf", filepath.Join(s.dir, "conf")}
	s.begin(slots)
	return s
}

// newBuiltinSite is a site with the built-in configuration, which has more resources, and refuses
// users with low user IDs.
func newBuiltinSite(t testing.TB, slots int) *site {
	t.Helper()
	s := prepared(t)
	s.user = client(t, "nobody")
	s.begin(slots)
	return s
}

// withGPUs adds the resource gpu to a site, if the machine has no GPUs for which the daemon adds it.
func (s *site) withGPUs() {
	s.Helper()
	complexes := s.must(s.root("qconf", "-sc"))
	if strings.Contains(complexes, "\ngpu ") {
		return
	}
	s.must(s.root("qconf", "-Mc", s.file("complexes", complexes+"gpu gpu RSMAP <= YES YES 0 0\n")))
	s.must(s.root("qconf", "-mattr", "exechost", "complex_values", "gpu=16(1-16)", "node1"))
}

func prepared(t testing.TB) *site {
	t.Helper()
	programs.Do(func() { programs.dir, programs.err = build() })
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	s := &site{TB: t, bin: programs.dir, dir: t.TempDir()}
	testenv.LetIn(t, s.dir)
	s.work = testenv.Open(t, filepath.Join(s.dir, "work"))
	return s
}

// begin starts the daemon, and gives its queue so many slots.
func (s *site) begin(slots int) {
	s.Helper()
	s.Cleanup(s.end)
	s.start()
	s.must(s.root("qconf", "-mattr", "queue", "slots", strconv.Itoa(slots), "all.q"))
}

// client returns the user of the clients: the named one if the test runs as root.
func client(t testing.TB, name string) *user.User {
	t.Helper()
	u, err := user.Current()
	if os.Getuid() == 0 {
		u, err = user.Lookup(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (s *site) socket() string { return filepath.Join(s.dir, "run", "agent.sock") }

func (s *site) start() {
	s.Helper()
	args := append([]string{"standalone", "--one-process", "--host", "node1", "--spool", filepath.Join(s.dir, "spool"), "--socket", s.socket()}, s.options...)
	s.daemon.Start(s, exec.Command(filepath.Join(s.bin, "execd"), args...), filepath.Join(s.dir, "log")) //nolint:noctx // the test kills it
}

// restart kills the daemon at any point of its work, and starts another one.
func (s *site) restart() {
	s.Helper()
	s.daemon.Kill()
	s.start()
}

// end deletes the remaining jobs, and stops the daemon.
func (s *site) end() {
	daemon, gone := s.daemon.Process()
	if daemon == nil {
		return
	}
	defer s.daemon.Kill()
	if s.Failed() {
		s.Logf("the jobs: %+v", s.root("qstat", "-u", "*"))
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.Logf("the log of the daemon:\n%s", log[max(0, len(log)-4000):])
	}
	select {
	case <-gone:
		s.start()
	default:
	}
	s.root("qdel", "-u", "*")
	s.until("all jobs have left", func() bool { return s.root("qstat", "-u", "*").stdout == "" })
}

// result is the output of a command, and its exit status.
type result struct {
	stdout, stderr string
	status         int
}

func (s *site) must(r result) string {
	s.Helper()
	if r.status != 0 {
		s.Fatalf("%+v", r)
	}
	return r.stdout
}

// run runs a command as the user of the clients; if the test runs as an ordinary user, as that
// user.
func (s *site) run(name string, args ...string) result { return s.as(s.user, "", name, args...) }

func (s *site) root(name string, args ...string) result {
	u, err := user.Current()
	if err != nil {
		s.Fatal(err)
	}
	return s.as(u, "", name, args...)
}

// input runs a command with a text on standard input.
func (s *site) input(text, name string, args ...string) result {
	return s.as(s.user, text, name, args...)
}

func (s *site) as(u *user.User, stdin, name string, args ...string) result {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := s.command(ctx, u, filepath.Join(s.bin, "commands", name), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		s.Errorf("%s %q: %v", name, args, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// command returns a command with the daemon's commands in PATH, in the directory of the user.
func (s *site) command(ctx context.Context, u *user.User, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.work
	cmd.Env = []string{
		"EXECD_SOCKET=" + s.socket(), "PATH=" + filepath.Join(s.bin, "commands") + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + s.work, "LOGNAME=" + u.Username, "USER=" + u.Username,
	}
	if uid, err := strconv.Atoi(u.Uid); err == nil && uid != os.Getuid() {
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			s.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}

// file writes a file of the user, and returns its path.
func (s *site) file(name, text string) string {
	s.Helper()
	path := filepath.Join(s.work, name)
	testenv.WriteFile(s, path, text)
	return path
}

// read returns a file of the user; it is empty if there is none.
func (s *site) read(name string) string {
	b, err := os.ReadFile(filepath.Join(s.work, name))
	if err != nil && !os.IsNotExist(err) {
		s.Error(err)
	}
	return string(b)
}

// until waits until a condition holds.
func (s *site) until(what string, is func() bool) {
	s.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	again := time.NewTicker(period)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-limit.C:
			s.Fatalf("not in time: %s\n%s\n%s", what, s.root("qstat", "-u", "*").stdout, s.root("qstat", "-j", "*").stdout)
		}
	}
}

// script writes a file of the user that can be run, and returns its path.
func (s *site) script(name, text string) string {
	s.Helper()
	path := s.file(name, text)
	if err := os.Chmod(path, 0o755); err != nil {
		s.Fatal(err)
	}
	return path
}
