package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/loadsensor/protocol"
)

const patience = 3 * time.Minute

// good is a load sensor as in sge_conf(5). The commands at %s run for each report.
const good = `#!/bin/sh
while read line; do
	test "$line" = quit && break
	echo begin
	%s
	echo end
done
`

// bench is a sensor under test, with a manual clock.
type bench struct {
	t      *testing.T
	dir    string
	path   string
	clock  *clock.Manual
	sensor *Sensor
	events chan Event
}

type option func(*Config)

func watched(t *testing.T) option {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return func(c *Config) { c.Watcher = w }
}

// begin runs a script as a sensor. At the end of the test it checks that nothing is left.
func begin(t *testing.T, script string, options ...option) *bench {
	t.Helper()
	before := descriptors(t)
	b := &bench{t: t, dir: t.TempDir(), clock: clock.NewManual(time.Unix(1e9, 0)), events: make(chan Event, 10000)}
	b.path = filepath.Join(b.dir, "sensor")
	b.write(script)
	config := Config{
		Path: b.path, AsRoot: true, Host: "n1", Dir: b.dir, Clock: b.clock, Notify: func(e Event) { b.events <- e },
		Timeout: 7 * time.Second, Grace: 3 * time.Second, BackoffMin: 11 * time.Second, BackoffMax: 40 * time.Second, Settle: time.Second,
	}
	for _, o := range options {
		o(&config)
	}
	b.sensor = Start(config)
	t.Cleanup(func() {
		b.stop()
		noGoroutines(t)
		for _, fd := range descriptors(t) {
			if !slices.Contains(before, fd) {
				t.Errorf("descriptor is left: %s", fd)
			}
		}
	})
	return b
}

// stop stops the sensor, which may have to be killed.
func (b *bench) stop() {
	b.t.Helper()
	b.sensor.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		waiting := make(chan struct{})
		wait, stopWaiting := context.WithCancel(ctx)
		go func() {
			defer close(waiting)
			if b.clock.WaitFor(wait, 3*time.Second) == nil {
				b.clock.Advance(3 * time.Second)
			}
		}()
		select {
		case <-b.sensor.Done():
			stopWaiting()
			<-waiting
			return
		case <-waiting:
			stopWaiting()
		}
		if ctx.Err() != nil {
			b.t.Fatal("the sensor does not end")
		}
	}
}

// write replaces the script as an editor does: as a whole, and with another time.
func (b *bench) write(script string) {
	b.t.Helper()
	tmp := b.path + ".new"
	if err := errors.Join(os.WriteFile(tmp, []byte(script), 0o755), os.Rename(tmp, b.path)); err != nil {
		b.t.Fatal(err)
	}
}

// await returns the next event of a kind, and drops the events before it.
func (b *bench) await(kind Kind) Event {
	b.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case e := <-b.events:
			if e.Kind == kind {
				return e
			}
		case <-timeout.C:
			b.t.Fatalf("no event %q; status %+v", kind, b.sensor.Status())
		}
	}
}

// pass waits until the sensor has set a timer, and advances the clock.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	if err := b.clock.WaitFor(ctx, d); err != nil {
		b.t.Fatalf("nobody waits %v: %v; status %+v", d, err, b.sensor.Status())
	}
	b.clock.Advance(d)
}

// ask requests a report and waits for the answer.
func (b *bench) ask() string {
	b.t.Helper()
	select {
	case <-b.sensor.Ask():
	case <-time.After(patience):
		b.t.Fatalf("no answer; status %+v", b.sensor.Status())
	}
	values, _ := b.sensor.Latest()
	return text(values)
}

func text(values []protocol.Value) string {
	var s []string
	for _, v := range values {
		s = append(s, v.Host+":"+v.Name+":"+v.Text)
	}
	return strings.Join(s, " ")
}

func (b *bench) fileOf(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func descriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(target, "/proc/") &&
			target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" { // of Go's runtime, made once
			open = append(open, e.Name()+" "+target)
		}
	}
	return open
}

// noGoroutines waits until no goroutine of this package runs, except those of tests.
func noGoroutines(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		buf := make([]byte, 1<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		left := ""
		for g := range strings.SplitSeq(stacks, "\n\n") {
			if strings.Contains(g, "external.(*Sensor)") || strings.Contains(g, "external.(*process)") {
				left = g
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutine is left:\n%s", left)
		}
		runtime.Gosched()
	}
}

func TestSensorAnswers(t *testing.T) {
	b := begin(t, fmt.Sprintf(good, `n=$((n+1)); echo $HOST:count:$n; echo global:license:5`))
	// The sensor asks for the first report itself. On a busy machine it may be there before the first question.
	first := 1
	for i := range 3 {
		got := b.ask()
		if i == 0 && strings.HasPrefix(got, "n1:count:2 ") {
			first = 2
		}
		if want := fmt.Sprintf("n1:count:%d global:license:5", first+i); got != want {
			t.Errorf("report %d is %q, want %q", i+1, got, want)
		}
	}
	st := b.sensor.Status()
	if st.State != Running || st.Reports != first+2 || st.Starts != 1 || st.Fault != "" || st.Violations != 0 || st.Values != 2 || !st.LastReport.Equal(time.Unix(1e9, 0)) {
		t.Errorf("status %+v", st)
	}
}

// TestAskFromReportCallback checks that a caller that asks as soon as a report is announced gets a
// new one.
func TestAskFromReportCallback(t *testing.T) {
	var asker *Sensor
	started := make(chan struct{})
	b := begin(t, fmt.Sprintf(good, "echo n1:a:1"), func(c *Config) {
		notify := c.Notify
		c.Notify = func(e Event) {
			if e.Kind == Reported {
				<-started
				asker.Ask()
			}
			notify(e)
		}
	})
	asker = b.sensor
	close(started)
	for range 3 {
		b.await(Reported)
	}
}

func TestSensorIsToldToQuit(t *testing.T) {
	b := begin(t, `#!/bin/sh
while read line; do
	test "$line" = quit && { echo told > quit; exit 0; }
	echo begin; echo h:a:1; echo end
done
`)
	b.ask()
	b.sensor.Stop()
	<-b.sensor.Done()
	if got := b.fileOf("quit"); got != "told" {
		t.Errorf("quit is %q", got)
	}
	if st := b.sensor.Status(); st.State != Ended || st.PID != 0 {
		t.Errorf("status %+v", st)
	}
	select {
	case <-b.sensor.Ask():
	case <-time.After(patience):
		t.Error("a sensor that has ended is waited for")
	}
}

func TestSensorThatDoesNotQuitIsKilledWithItsGroup(t *testing.T) {
	b := begin(t, `#!/bin/sh
trap '' TERM HUP INT
sleep 1000 & echo $! > child
read line; echo begin; echo h:a:1; echo end
while :; do wait; done
`)
	b.ask()
	b.sensor.Stop()
	b.pass(3 * time.Second)
	if e := b.await(Killed); !strings.Contains(e.Text, "has not ended 3s after") {
		t.Errorf("%+v", e)
	}
	<-b.sensor.Done()
	gone(t, b.fileOf("child"))
}

// gone waits until a process has exited.
func gone(t *testing.T, pid string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s is left", pid)
		}
		runtime.Gosched()
	}
}

func TestSensorThatHangsIsReplaced(t *testing.T) {
	for name, script := range map[string]string{
		"reads nothing":      "while :; do sleep 1000; done",
		"says nothing":       "while read line; do :; done; while :; do sleep 1000; done",
		"forgets end":        "while read line; do echo begin; echo oops; done; while :; do sleep 1000; done",
		"forgets a newline":  "while read line; do printf 'begin\\nh:a:1\\nend'; done; while :; do sleep 1000; done",
		"ignores signals":    "trap '' TERM HUP INT PIPE; while :; do sleep 1000; done",
		"is stopped forever": "kill -STOP $$",
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, "#!/bin/sh\n"+script+"\n")
			pid := b.await(Started).PID
			answer := b.sensor.Ask()
			if name == "forgets end" {
				b.await(Violated) // for its second line
			}
			b.pass(7 * time.Second) // Timeout
			if e := b.await(Failed); e.Text != "the load sensor has not answered within 7s" || e.PID != pid {
				t.Errorf("%+v", e)
			}
			<-answer                // callers no longer wait
			b.pass(3 * time.Second) // Grace
			b.await(Gone)
			b.pass(11 * time.Second) // BackoffMin
			if again := b.await(Started).PID; again == pid {
				t.Error("the same process")
			}
			st := b.sensor.Status()
			if st.Starts != 2 || st.Fault == "" {
				t.Errorf("status %+v", st)
			}
			if name == "forgets end" && (len(st.LastViolations) < 2 || !strings.Contains(st.LastViolations[1].String(), `line 1: the report that begins here is not used`)) {
				t.Errorf("violations %v", st.LastViolations)
			}
		})
	}
}

func TestPausesGrowAndEndWithSuccess(t *testing.T) {
	b := begin(t, "#!/bin/sh\nexit 3\n")
	for _, seconds := range []int{11, 22, 40, 40} {
		pause := time.Duration(seconds) * time.Second
		if e := b.await(Failed); e.Text != `the load sensor exited with status 3 after 0 reports, expected it to answer until it reads "quit"` {
			t.Errorf("%+v", e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := b.clock.WaitFor(ctx, pause); err != nil {
			t.Fatalf("no pause of %v: %v", pause, err)
		}
		cancel()
		if st := b.sensor.Status(); st.State != Waiting || st.Fault == "" || !st.NextStart.Equal(b.clock.Now().Add(pause)) {
			t.Errorf("status %+v", st)
		}
		select { // a caller does not wait for a sensor that is not running
		case <-b.sensor.Ask():
		case <-time.After(patience):
			t.Fatal("no answer")
		}
		b.clock.Advance(pause)
	}
	// A file that was corrected is tried at the next check.
	b.await(Failed)
	b.write(fmt.Sprintf(good, "echo h:a:1"))
	b.sensor.Ask()
	b.await(Changed)
	b.pass(time.Second) // Settle
	b.await(Reported)
	if got := b.ask(); got != "h:a:1" || b.sensor.Status().Fault != "" {
		t.Errorf("%q, status %+v", got, b.sensor.Status())
	}
}

func TestSensorThatDiesKeepsItsLastReport(t *testing.T) {
	b := begin(t, "#!/bin/sh\nread line\necho begin; echo h:a:1; echo end\nexit 0\n")
	if got := b.ask(); got != "h:a:1" {
		t.Errorf("%q", got)
	}
	if e := b.await(Failed); !strings.Contains(e.Text, "exited with status 0 after 1 report,") {
		t.Errorf("%+v", e)
	}
	if got := b.ask(); got != "h:a:1" {
		t.Errorf("%q", got)
	}
}

func TestSensorIsKilledByASignal(t *testing.T) {
	b := begin(t, "#!/bin/sh\nkill -SEGV $$\n")
	if e := b.await(Failed); !strings.Contains(e.Text, "was ended by signal SIGSEGV after 0 reports") {
		t.Errorf("%+v", e)
	}
}

func TestFloods(t *testing.T) {
	for name, script := range map[string]string{
		"reports":               "yes \"$(printf 'begin\\nh:a:1\\nend')\"",
		"a line without end":    "cat /dev/zero",
		"garbage":               "echo begin; cat /dev/urandom",
		"standard error":        "cat /dev/zero >&2",
		"unreadable lines":      "echo begin; yes",
		"when it was not asked": "echo begin; echo end; yes",
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, "#!/bin/sh\nread line\n"+script+"\n")
			if e := b.await(Failed); !strings.Contains(e.Text, "has written more than 4194304 bytes") {
				t.Errorf("%+v", e)
			}
			b.await(Gone)
			if n := len(b.events); n > 2*toldPerRequest+10 {
				t.Errorf("%d events", n)
			}
		})
	}
}

func TestInvalidLinesAreSkipped(t *testing.T) {
	b := begin(t, fmt.Sprintf(good, `printf 'oops\r\n'; echo n1:a:1; echo complaint >&2; echo global:b; printf 'n1:c:2\r\n'`))
	if got := b.ask(); got != "n1:a:1 n1:c:2" {
		t.Errorf("%q", got)
	}
	if e := b.await(Violated); e.Violation.Line != 2 || !e.Violation.Harmless {
		t.Errorf("%+v", e.Violation)
	}
	b.ask()
	b.ask()
	st := b.sensor.Status()
	if st.Violations != 12 || len(st.LastViolations) != keptViolations || st.Fault != "" {
		t.Errorf("status %+v", st)
	}
	last := st.LastViolations[len(st.LastViolations)-2]
	if want := `line 16: "global:b": the line has one colon only, expected host:name:value, or "end"`; last.String() != want {
		t.Errorf("%s\nwant %s", last, want)
	}
	b.stop()
	if st := b.sensor.Status(); len(st.Stderr) != 3 || st.Stderr[0] != "complaint" {
		t.Errorf("standard error %q", st.Stderr)
	}
}

// TestAnswerThatIsTooLate checks that output after the timeout is ignored, even whole lines.
func TestAnswerThatIsTooLate(t *testing.T) {
	b := begin(t, `#!/bin/sh
read line
echo begin; echo oops
while ! test -e go; do :; done
{ yes h:a:1 | head -c 50000; echo end; echo begin; echo h:a:1; echo end; }
`, func(c *Config) {
		notify := c.Notify
		c.Notify = func(e Event) {
			if e.Kind == Failed { // the pipe contains everything when the agent stops the sensor
				if err := os.WriteFile(filepath.Join(c.Dir, "go"), nil, 0o644); err != nil {
					t.Error(err)
				}
				gone(t, strconv.Itoa(e.PID))
			}
			notify(e)
		}
	})
	b.await(Violated)
	b.pass(7 * time.Second) // Timeout
	b.await(Gone)
	if st := b.sensor.Status(); st.Reports != 0 || st.Fault != "the load sensor has not answered within 7s" || st.Violations != 2 {
		t.Errorf("status %+v", st)
	}
}

func TestUnrequestedReportIsAViolation(t *testing.T) {
	b := begin(t, "#!/bin/sh\necho begin; echo h:a:1; echo end\necho begin; echo h:a:2; echo end\nwhile read l; do test \"$l\" = quit && exit; done\n")
	b.await(Reported)
	if e := b.await(Violated); e.Violation.Problem != "the report was not asked for" {
		t.Errorf("%+v", e.Violation)
	}
	if e := b.await(Reported); text(e.Values) != "h:a:2" {
		t.Errorf("%+v", e)
	}
}

// TestChildrenThatKeepThePipeOpen checks that nothing waits for such children.
func TestChildrenThatKeepThePipeOpen(t *testing.T) {
	for name, start := range map[string]string{"in the group": "sleep 1000 &", "in a session of its own": "setsid sleep 1000 &"} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, "#!/bin/sh\n"+start+"\necho $! > child\nread line\necho begin; echo h:a:1; echo end\nexit 1\n")
			b.ask()
			b.await(Gone)
			child := b.fileOf("child")
			if name == "in the group" {
				gone(t, child)
				return
			}
			pid, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			_ = unix.Kill(pid, unix.SIGKILL)
			gone(t, child)
		})
	}
}

func TestSensorThatClosesItsOutput(t *testing.T) {
	b := begin(t, "#!/bin/sh\nread line\nexec >&-\nwhile read line; do test \"$line\" = quit && exit 0; done\n")
	if e := b.await(Failed); !strings.Contains(e.Text, "has closed its input or output") {
		t.Errorf("%+v", e)
	}
	b.await(Gone)
}

func TestChangedFileIsStartedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		watch  bool
		change func(b *bench)
	}{
		"replaced, and watched": {true, func(b *bench) { b.write(fmt.Sprintf(good, "echo h:a:2")) }},
		"touched, and watched":  {true, func(b *bench) { touch(b) }},
		"replaced, not watched": {false, func(b *bench) { b.write(fmt.Sprintf(good, "echo h:a:2")); b.ask() }},
		"touched, not watched":  {false, func(b *bench) { touch(b); b.ask() }},
	} {
		t.Run(name, func(t *testing.T) {
			var options []option
			if tt.watch {
				options = append(options, watched(t))
			}
			b := begin(t, fmt.Sprintf(good, "echo h:a:1"), options...)
			pid := b.await(Started).PID
			b.ask()
			if tt.watch != (b.sensor.Status().Unwatched == "" && b.sensor.config.Watcher != nil) {
				t.Errorf("status %+v", b.sensor.Status())
			}
			tt.change(b)
			b.pass(time.Second) // Settle
			b.await(Changed)
			if e := b.await(Gone); e.Text != "the load sensor exited with status 0" {
				t.Errorf("%+v", e)
			}
			if again := b.await(Started).PID; again == pid {
				t.Error("the same process")
			}
			want := "h:a:2"
			if strings.HasPrefix(name, "touched") {
				want = "h:a:1"
			}
			if got := b.ask(); got != want {
				t.Errorf("%q", got)
			}
		})
	}
}

func touch(b *bench) {
	b.t.Helper()
	now := time.Now().Add(time.Hour)
	if err := os.Chtimes(b.path, now, now); err != nil {
		b.t.Fatal(err)
	}
}

func TestUnstartablePrograms(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(b string) error
		want    string
	}{
		"missing":           {os.Remove, "no such file or directory"},
		"not executable":    {func(p string) error { return os.Chmod(p, 0o644) }, "permission denied"},
		"a folder":          {func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) }, "is not a regular file"},
		"a bad interpreter": {func(p string) error { return os.WriteFile(p, []byte("#!/no/such/thing\n"), 0o755) }, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, fmt.Sprintf(good, ":"), func(c *Config) {
				if err := tt.prepare(c.Path); err != nil {
					t.Fatal(err)
				}
			})
			if e := b.await(CannotStart); !strings.Contains(e.Text, tt.want) {
				t.Errorf("%+v", e)
			}
			select {
			case <-b.sensor.Ask():
			case <-time.After(patience):
				t.Error("who asks waits")
			}
		})
	}
}

func TestScriptWithoutInterpreter(t *testing.T) {
	b := begin(t, strings.TrimPrefix(fmt.Sprintf(good, "echo h:a:1"), "#!/bin/sh\n"))
	if got := b.ask(); got != "h:a:1" {
		t.Errorf("%q", got)
	}
}

func TestEnvironmentAndDescriptorsOfSensor(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	// A descriptor that the parent of this process has left open.
	stray, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(stray)
	b := begin(t, fmt.Sprintf(good, "echo h:a:1"), func(c *Config) { c.Env = []string{"SGE_ROOT=/sge"} })
	b.ask()
	pid := b.sensor.Status().PID
	proc := fmt.Sprintf("/proc/%d/", pid)
	env, err := os.ReadFile(proc + "environ")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for setting := range strings.SplitSeq(strings.TrimSuffix(string(env), "\x00"), "\x00") {
		name, _, _ := strings.Cut(setting, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "HOME HOST LOGNAME PATH SGE_ROOT SHELL USER" {
		t.Errorf("environment: %s", got)
	}
	if dir, err := os.Readlink(proc + "cwd"); dir != b.dir {
		t.Errorf("runs in %s (%v)", dir, err)
	}
	open, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		target, _ := os.Readlink(proc + "fd/" + fd.Name())
		if !strings.HasPrefix(target, "pipe:") && target != b.path {
			t.Errorf("descriptor %s is %s", fd.Name(), target)
		}
	}
	if sid, err := unix.Getsid(pid); sid != pid {
		t.Errorf("process %d is in session %d (%v)", pid, sid, err)
	}
}

func TestLinesOfStandardError(t *testing.T) {
	var got []string
	var l stderrLines
	for _, piece := range []string{"a", "b\r\n\n", strings.Repeat("x", 5000), "\n\xff\nrest"} {
		l.feed([]byte(piece), func(s string) { got = append(got, s) })
	}
	l.flush(func(s string) { got = append(got, s) })
	if want := []string{"ab", strings.Repeat("x", maxStderrLine) + "...", "\uFFFD", "rest"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
