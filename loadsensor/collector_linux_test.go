package loadsensor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/loadsensor/builtin"
	"github.com/execd-project/execd/loadsensor/external"
)

const patience = 3 * time.Minute

const good = `#!/bin/sh
while read line; do
	test "$line" = quit && break
	echo begin
	%s
	echo end
done
`

// running is a collector that runs with a manual clock.
type running struct {
	*Collector
	t     *testing.T
	dir   string
	clock *clock.Manual
	user  string
}

// script creates the program of a sensor.
func (r *running) script(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o755), os.Rename(path+".new", path)); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// collect runs a collector until the end of the test, and then checks that no process or file
// descriptor is left.
func collect(t *testing.T, prepare func(r *running, o *Options)) *running {
	t.Helper()
	before := descriptors(t)
	r := &running{t: t, dir: t.TempDir(), clock: clock.NewManual(time.Unix(1e9, 0))}
	if os.Getuid() == 0 {
		r.user = "root"
	}
	o := Options{Host: "n1", Clock: r.clock, Settings: Settings{Interval: 40 * time.Second, User: r.user}}
	o.Sensor = external.Config{Dir: r.dir, Timeout: time.Minute, Settle: time.Second, BackoffMin: 11 * time.Second}
	prepare(r, &o)
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Collector = c
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		// Some sensors end only when they are killed.
		waiting, enough := context.WithCancel(context.Background())
		defer enough()
		go func() {
			for r.clock.WaitFor(waiting, external.DefaultGrace) == nil {
				r.clock.Advance(external.DefaultGrace)
			}
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatalf("Run does not return; status %+v", c.Status())
		}
		if _, ok := <-c.Reports(); ok {
			if _, ok := <-c.Reports(); ok {
				t.Error("the channel is not closed")
			}
		}
		noGoroutines(t)
		for _, fd := range descriptors(t) {
			if !slices.Contains(before, fd) {
				t.Errorf("descriptor is left: %s", fd)
			}
		}
	})
	return r
}

func descriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		// Go's runtime has two of its own, which it creates once.
		if err == nil && !strings.HasPrefix(target, "/proc/") && target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" {
			open = append(open, e.Name()+" "+target)
		}
	}
	return open
}

func noGoroutines(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		buf := make([]byte, 1<<20)
		left := ""
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "external.(*") || strings.Contains(g, "fsnotify.") || strings.Contains(g, "(*Collector).Run") {
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

// next returns the next report.
func (r *running) next() Report {
	r.t.Helper()
	select {
	case report := <-r.Reports():
		return report
	case <-time.After(patience):
		r.t.Fatalf("no report; status %+v", r.Status())
	}
	return Report{}
}

// pass advances the clock once a goroutine waits for it.
func (r *running) pass(d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.clock.WaitFor(ctx, d); err != nil {
		r.t.Fatalf("nobody waits %v; status %+v", d, r.Status())
	}
	r.clock.Advance(d)
}

// until polls for a condition that no channel reports.
func (r *running) until(ready func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !ready(); runtime.Gosched() {
		if time.Now().After(deadline) {
			r.t.Fatalf("status %+v", r.Status())
		}
	}
}

// fromSensors returns the values of sensors in a report.
func fromSensors(report Report) string {
	var s []string
	for _, v := range report.Values {
		if v.Source != "" {
			s = append(s, v.Host+":"+v.Name+":"+v.Text)
		}
	}
	return strings.Join(s, " ")
}

func TestFullReportThenChanges(t *testing.T) {
	r := collect(t, func(r *running, o *Options) {
		o.Sensors = []string{
			r.script("count", fmt.Sprintf(good, "n=$((n+1)); echo $HOST:count:$n; echo $HOST:same:7; echo n2:other:1")),
			r.script("lic", fmt.Sprintf(good, "m=$((m+1)); test $m -ge 3 || echo global:license:5")),
		}
	})
	first := r.next()
	if !first.Full || fromSensors(first) != "global:license:5 n1:count:1 n1:same:7 n2:other:1" {
		t.Errorf("%+v", first)
	}
	if !slices.ContainsFunc(first.Values, func(v Value) bool { return v.Name == builtin.MemTotal && v.Static && v.Host == "n1" }) {
		t.Errorf("nothing is built in: %+v", first)
	}
	r.Ack(first.Number)
	r.pass(40 * time.Second)
	second := r.next()
	if second.Full || fromSensors(second) != "n1:count:2" || len(second.Removed) != 0 {
		t.Errorf("%+v", second)
	}
	if !second.Time.Equal(first.Time.Add(40 * time.Second)) {
		t.Errorf("reports at %v and %v", first.Time, second.Time)
	}
	r.Ack(second.Number)
	r.pass(40 * time.Second)
	third := r.next()
	if fromSensors(third) != "n1:count:3" || len(third.Removed) < 1 || third.Removed[0] != (Key{"global", "license"}) {
		t.Errorf("%+v", third)
	}
	r.Full()
	if fourth := r.next(); !fourth.Full || fromSensors(fourth) != "n1:count:4 n1:same:7 n2:other:1" {
		t.Errorf("%+v", fourth)
	}
	st := r.Status()
	if st.Number != 4 || st.Acknowledged != 2 || len(st.Sensors) != 2 || st.Sensors[0].Reports != 4 || st.Unwatched != "" {
		t.Errorf("%+v", st)
	}
}

// TestFaultySensorsDoNotDelayOthers runs a faulty sensor of each kind and a good one, and expects
// the good one's values in time.
func TestFaultySensorsDoNotDelayOthers(t *testing.T) {
	r := collect(t, func(r *running, o *Options) {
		o.Sensors = []string{
			r.script("good", fmt.Sprintf(good, "echo n1:good:1")),
			r.script("hangs", "#!/bin/sh\nexec sleep 1000\n"),
			r.script("floods", "#!/bin/sh\nexec yes\n"),
			r.script("dies", "#!/bin/sh\nexit 1\n"),
			filepath.Join(r.dir, "missing"),
			r.script("errs", fmt.Sprintf(good, "echo nonsense; echo n1:errs:2; echo wrong >&2")),
			r.script("keeps", "#!/bin/sh\nsetsid sleep 20 &\nread l; echo begin; echo n1:keeps:3; echo end\n"),
		}
		o.Patience = 6 * time.Second
	})
	faults := map[string]string{"floods": "has written more than", "dies": "exited with status 1", "missing": "no such file", "keeps": "after 1 report"}
	r.until(func() bool {
		sensors := r.Status().Sensors
		for _, st := range sensors {
			name := filepath.Base(st.Path)
			if name != "hangs" && st.Reports == 0 && st.Fault == "" || name == "keeps" && st.Fault == "" || st.State == external.Ending {
				return false
			}
		}
		return len(sensors) == 7
	})
	r.pass(6 * time.Second) // for the sensor that hangs
	report := r.next()
	if got := fromSensors(report); got != "n1:errs:2 n1:good:1 n1:keeps:3" {
		t.Errorf("%s", got)
	}
	for _, st := range r.Status().Sensors {
		if want := faults[filepath.Base(st.Path)]; !strings.Contains(st.Fault, want) || (want == "") != (st.Fault == "") {
			t.Errorf("%s: fault %q, want %q", st.Path, st.Fault, want)
		}
		// It may have reported twice: each report has one line of another form.
		if filepath.Base(st.Path) == "errs" && (st.Violations != st.Reports || st.LastViolations[0].Text != "nonsense") {
			t.Errorf("%+v", st)
		}
	}
}

func TestOldValuesAreRemoved(t *testing.T) {
	r := collect(t, func(r *running, o *Options) {
		o.Sensors = []string{r.script("once", "#!/bin/sh\nread l; echo begin; echo n1:old:1; echo end; exit 0\n")}
		o.MaxAge = 50 * time.Second
		o.Sensor.BackoffMin, o.Sensor.BackoffMax = time.Hour, time.Hour
	})
	first := r.next()
	r.Ack(first.Number)
	if fromSensors(first) != "n1:old:1" {
		t.Errorf("%+v", first)
	}
	r.pass(40 * time.Second)
	second := r.next()
	r.Ack(second.Number)
	if slices.Contains(second.Removed, Key{"n1", "old"}) {
		t.Errorf("gone after 40 s: %+v", second)
	}
	r.pass(40 * time.Second)
	if third := r.next(); !slices.Contains(third.Removed, Key{"n1", "old"}) {
		t.Errorf("still there after 80 s: %+v", third)
	}
}

func TestConfigure(t *testing.T) {
	var a, b string
	r := collect(t, func(r *running, o *Options) {
		a = r.script("a", fmt.Sprintf(good, "n=$((n+1)); echo n1:a:$n"))
		b = r.script("b", fmt.Sprintf(good, "echo n1:b:$SITE"))
		o.Sensors = []string{a}
	})
	if got := fromSensors(r.next()); got != "n1:a:1" {
		t.Error(got)
	}
	for _, wrong := range []Settings{{Sensors: []string{"relative"}}, {Sensors: []string{a, a}}, {Interval: time.Millisecond}} {
		if err := r.Configure(wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
	// Adding a second sensor does not restart the first. There is a report at once.
	if err := r.Configure(Settings{Interval: 7 * time.Second, Sensors: []string{b, a}, User: r.user}); err != nil {
		t.Fatal(err)
	}
	if got := fromSensors(r.next()); got != "n1:a:2" { // b reports an empty value
		t.Error(got)
	}
	// With another environment all sensors are restarted.
	if err := r.Configure(Settings{Interval: 7 * time.Second, Sensors: []string{b, a}, User: r.user, Env: []string{"SITE=x"}}); err != nil {
		t.Fatal(err)
	}
	r.Now()
	if got := fromSensors(r.next()); got != "n1:a:1 n1:b:x" {
		t.Error(got)
	}
	if err := r.Configure(Settings{Interval: 7 * time.Second, User: r.user}); err != nil {
		t.Fatal(err)
	}
	r.Now()
	if got := fromSensors(r.next()); got != "" || len(r.Status().Sensors) != 0 {
		t.Error(got, r.Status().Sensors)
	}
}

func TestUnreadReportIsReplaced(t *testing.T) {
	r := collect(t, func(r *running, o *Options) {
		o.Sensors = []string{r.script("s", fmt.Sprintf(good, "n=$((n+1)); echo n1:n:$n"))}
	})
	for want := range uint64(3) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := r.clock.WaitFor(ctx, 40*time.Second); err != nil || r.Status().Number != want+1 {
			t.Fatal(err, r.Status().Number)
		}
		cancel()
		if want < 2 {
			r.clock.Advance(40 * time.Second)
		}
	}
	if report := r.next(); report.Number != 3 || !report.Full || fromSensors(report) != "n1:n:3" {
		t.Errorf("%+v", report)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"the name of the host is empty":  {},
		"load_report_time is 1ms":        {Host: "n1", Settings: Settings{Interval: time.Millisecond}},
		`"x": expected an absolute path`: {Host: "n1", Settings: Settings{Sensors: []string{"x"}}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRootWithoutUser(t *testing.T) {
	testenv.Require(t, testenv.Root)
	r := collect(t, func(r *running, o *Options) {
		o.Sensors = []string{r.script("s", fmt.Sprintf(good, "echo n1:a:1"))}
		o.User = ""
	})
	if got := fromSensors(r.next()); got != "" {
		t.Error(got)
	}
	if st := r.Status().Sensors[0]; !strings.Contains(st.Fault, "would run as root, and no user is configured") {
		t.Errorf("%+v", st)
	}
}

// TestAheadReportsWithoutWaitingForSensors sets Ahead: no report waits for sensors, whose values
// are in the next report.
func TestAheadReportsWithoutWaitingForSensors(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "go") // the sensor reports nothing before it has read a line from it
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	r := collect(t, func(r *running, o *Options) {
		o.Ahead = true
		o.Sensors = []string{r.script("count", fmt.Sprintf(good, "read x <"+fifo+"; n=$((n+1)); echo $HOST:count:$n"))}
	})
	for n, want := range []string{"", "n1:count:1", "n1:count:2"} {
		report := r.next()
		if got := fromSensors(report); got != want {
			t.Errorf("report %d has %q, expected %q", n, got, want)
		}
		r.Ack(report.Number)
		if _, err := lines.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
		r.until(func() bool { return r.Status().Sensors[0].Reports == n+1 })
		r.pass(40 * time.Second)
	}
}
