package standalone

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/terminal"
)

// topped is execd top on a terminal.
type topped struct {
	*terminal.Session
	t *testing.T
}

// has waits until a line of the screen matches a pattern.
func (s *topped) has(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	s.Until("a line matches "+pattern, func(lines []string) bool { return slices.ContainsFunc(lines, re.MatchString) })
}

// lacks waits until no line of the screen matches a pattern.
func (s *topped) lacks(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	s.Until("no line matches "+pattern, func(lines []string) bool { return !slices.ContainsFunc(lines, re.MatchString) })
}

// ids returns the numbers of the jobs on the screen, from the top.
func ids(lines []string) (list []string) {
	for _, l := range lines {
		if m := regexp.MustCompile(`^ {0,6}(\d+) \S`).FindStringSubmatch(l); m != nil {
			list = append(list, m[1])
		}
	}
	return list
}

// order waits until the jobs are on the screen in an order.
func (s *topped) order(want ...string) {
	s.t.Helper()
	s.Until("the order "+strings.Join(want, " "), func(lines []string) bool { return slices.Equal(ids(lines), want) })
}

// TestTop watches jobs on a terminal, sorts, filters and changes them.
func TestTop(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	for _, words := range [][]string{
		{"-N", "runner", "-b", "y", "sleep", "1000"},
		{"-h", "-N", "kept", "-b", "y", "sleep", "1000"},
		{"-h", "-t", "1-10", "-N", "array", "-b", "y", "sleep", "1000"},
		{"-h", "-N", "a-name-that-is-cut", "-b", "y", "sleep", "1000"},
	} {
		if r := m.as(u, "qsub", append([]string{"-wd", "/tmp", "-j", "y", "-o", "/dev/null"}, words...)...); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	m.until("a job runs", func() bool { return strings.Contains(m.as(u, "../execd", "ps").stdout, " running ") })

	cmd := m.command(context.Background(), u, "../execd", "top", "--interval", "0.5")
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	s := &topped{terminal.Start(t, cmd, 24, 80), t}
	s.has(`^Tasks +1 running, 12 pending, 12 on hold$`)
	s.has(`^Slots +\[#{10}-{10}\] 1 of 2 in use$`)
	s.has(`^Memory +\[[#-]{20}\] [0-9.]+[MGT] of [0-9.]+[MGT] in use$`)
	s.has(`^      1 runner +` + u.Username[:3] + `\S* +running +\S+ +1 +\S+ +\S+ all\.q@node1$`)
	s.has(`^      3 array +.* 10 on hold +\S+ +1 +- +- 0 of 10 t\.\.\.$`)
	s.has(`^      4 a-name-th\.\.\. `)
	s.order("1", "2", "3", "4")
	if !strings.Contains(s.Output(), "\x1b[33m") {
		t.Errorf("there are no colours: %q", s.Output())
	}

	s.Type(">>") // by name
	s.has(` NAME\* `)
	s.order("4", "3", "2", "1")
	s.Type("R")
	s.order("1", "2", "3", "4")
	s.Type("R")
	s.order("4", "3", "2", "1")
	s.Type("<<")
	s.order("1", "2", "3", "4")
	s.Type("t") // running
	s.order("1")
	s.Type("t")
	s.order("2", "3", "4")
	s.Type("t/RUN\r")
	s.order("1")
	s.has(`1 of 4 jobs, filter RUN$`)
	s.Type("/\x15kept\r")
	s.order("2")

	// A question that is not confirmed does nothing.
	s.Type("r")
	s.has(`^Release job 2 \(kept\) of ` + u.Username + `\? y: yes, any other key: no$`)
	s.Type("n")
	s.has(`^Cancelled$`)
	s.Type("ry")
	s.has(`modified hold of job 2`)
	s.has(`^      2 kept .* running `)
	s.Type("sy")
	s.has(`^      2 kept .* suspended `)
	s.Type("cy")
	s.has(`^      2 kept .* running `)
	s.Type("dy")
	s.lacks(`^      2 kept `)
	s.Type("\x1b") // no filter
	s.order("1", "3", "4")
	s.Type("?")
	s.has(`^  d +delete the selected job`)
	s.Type(" ")
	s.order("1", "3", "4")

	// In a larger window there is more to see.
	s.Resize(30, 170)
	s.has(` +1 +- +- 0 of 10 tasks done; waits for its user hold to be taken off: qrls 3`)
	s.Resize(5, 40)
	s.order("1", "3", "4")
	s.Resize(24, 80)
	s.has(`^Slots `)

	// While the daemon is away the jobs stay on the screen.
	m.daemon.Kill()
	s.has(`^No answer from the daemon since \d\d:\d\d:\d\d, trying again: `)
	s.order("1", "3", "4")
	m.start()
	s.has(`^\?: help  q: quit   3 jobs$`)
	s.has(`^      1 runner .* running `)

	s.Type("q")
	if status := s.Status(); status != 0 {
		t.Errorf("status %d", status)
	}
	if !s.Cooked() {
		t.Error("the terminal is not restored")
	}
	if !strings.Contains(s.Output(), "\x1b[?1049l") {
		t.Errorf("the screen is not restored: %q", s.Output())
	}
}

// TestTopWithoutTerminal prints the jobs where there is no terminal, or one that cannot move its cursor.
func TestTopWithoutTerminal(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	if r := m.as(u, "qsub", "-h", "-N", "a-name-that-is-cut", "-wd", "/tmp", "-b", "y", "sleep", "1000"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	want := regexp.MustCompile(`(?s)^execd top - \d\d:\d\d:\d\d, node1[^\n]*
Tasks   0 running, 1 pending, 1 on hold
Slots   \[-{20}\] 0 of 2 in use
Memory  \[[#-]{20}\] \S+ of \S+ in use

    JOB NAME                 USER         STATE                   TIME SLOTS   CPU  MEMORY QUEUE OR REASON
      1 a-name-that-is-cut   .{12} on hold                   \S+     1     -       - waits for its user hold to be taken off: qrls 1
$`)
	r := m.as(u, "../execd", "top")
	if r.status != 0 || r.stderr != "" || !want.MatchString(r.stdout) {
		t.Errorf("without a terminal: %+v", r)
	}
	if r := m.as(u, "../execd", "top", "-n", "2", "-d", "0.5", "--filter", "nothing"); r.status != 0 || strings.Count(r.stdout, "execd top - ") != 2 || strings.Contains(r.stdout, "a-name") {
		t.Errorf("twice: %+v", r)
	}
	for words, text := range map[string]string{
		"--sort=size":   `invalid value "size" of --sort: expected job, name, user, state, time, slots, gpus, cpu, memory`,
		"--interval=0":  `invalid interval "0": expected 0.5 to 3600 seconds`,
		"--count=often": `invalid count "often": expected a number from 1`,
		"17":            `unexpected argument "17"`,
	} {
		if r := m.as(u, "../execd", "top", words); r.status != 2 || !strings.Contains(r.stderr, text) {
			t.Errorf("%s: %+v", words, r)
		}
	}
	cmd := m.command(context.Background(), u, "../execd", "top")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	s := terminal.Start(t, cmd, 24, 60)
	if s.Status() != 0 {
		t.Errorf("TERM=dumb: status %d", s.Status())
	}
	s.See("a-name-th...")
	s.See("\n")
	if strings.Contains(s.Output(), "\x1b") {
		t.Errorf("TERM=dumb: %q", s.Output())
	}
}

// TestTopAtAStoppedTerminal ends execd top by a signal and by a key, with a terminal that accepts no data,
// and uses no colours if NO_COLOR is set.
func TestTopAtAStoppedTerminal(t *testing.T) {
	m := newMachine(t, 1)
	u := someUsers(t, 1)[0]
	m.start()
	for name, end := range map[string]func(*terminal.Session, *exec.Cmd){
		"signal": func(_ *terminal.Session, cmd *exec.Cmd) { _ = cmd.Process.Signal(unix.SIGTERM) },
		"key":    func(s *terminal.Session, _ *exec.Cmd) { s.Type("q") },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := m.command(context.Background(), u, "../execd", "top", "-d", "0.5")
			cmd.Env = append(cmd.Env, "TERM=xterm-256color", "NO_COLOR=1")
			s := &topped{terminal.Start(t, cmd, 24, 80), t}
			s.has(`q: quit`)
			if colour := regexp.MustCompile(`\x1b\[([0-9;]*;)?[34][0-8][;m]`).FindString(s.Output()); colour != "" {
				t.Errorf("there are colours: %q", colour)
			}
			s.Stop()
			end(s.Session, cmd)
			want := map[string]int{"signal": 130, "key": 0}[name]
			if status := s.Status(); status != want {
				t.Errorf("status %d, want %d", status, want)
			}
			if !s.Cooked() {
				t.Error("the terminal is not restored")
			}
		})
	}
}

// TestTopSuspended stops execd top with Ctrl-Z and continues it, as a shell does.
func TestTopSuspended(t *testing.T) {
	m := newMachine(t, 1)
	u := someUsers(t, 1)[0]
	m.start()
	// The shell runs the command in a process group of its own.
	cmd := exec.Command("/bin/sh", "-c", "set -m; "+m.bin+"/execd top -d 0.5; echo stopped $?; fg >/dev/null; echo left $?") //nolint:noctx // the session ends it
	of := m.command(context.Background(), u, "../execd")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = of.Dir, append(of.Env, "TERM=xterm"), of.SysProcAttr
	s := &topped{terminal.Start(t, cmd, 24, 80), t}
	s.has(`q: quit`)
	s.Type(terminal.Suspend)
	s.See("stopped 1")
	s.See("\x1b[?1049h") // it fills the screen again
	s.has(`q: quit`)
	s.Type("q")
	s.See("left 0")
}
