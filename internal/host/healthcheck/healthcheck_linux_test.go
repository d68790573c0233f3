package healthcheck

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/testenv"
)

var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// host is a host with a health check.
type host struct {
	dir   string
	clock *clock.Manual
	check *Check
	ran   chan Result

	mu     sync.Mutex
	reason string // why it takes no jobs
	err    error  // of DrainFor
}

// newHost makes a host whose check is a shell script, in which $DIR is a directory
// where everybody may write. change is done to its configuration.
func newHost(t *testing.T, script string, change func(*Config)) *host {
	t.Helper()
	h := &host{dir: t.TempDir(), clock: clock.NewManual(start), ran: make(chan Result)}
	if err := errors.Join(os.Chmod(filepath.Dir(h.dir), 0o755), os.Chmod(h.dir, fs.ModeSticky|0o777)); err != nil {
		t.Fatal(err)
	}
	h.write(t, script)
	c := Config{
		Path: h.dir + "/check", Host: "node1", Clock: h.clock, Drain: h.drain, Ran: func(r Result) { h.ran <- r },
		Interval: time.Hour, Deadline: time.Minute,
	}
	if change != nil {
		change(&c)
	}
	var err error
	if h.check, err = New(c); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) write(t *testing.T, script string) {
	t.Helper()
	if err := os.WriteFile(h.dir+"/new", []byte("#!/bin/sh\nDIR='"+h.dir+"'\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(h.dir+"/new", h.dir+"/check"); err != nil {
		t.Fatal(err)
	}
}

func (h *host) drain(reason string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.reason = reason
	}
	return h.err
}

func (h *host) why() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

// run runs the check until the test ends.
func (h *host) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.check.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// next lets an interval pass.
func (h *host) next(t *testing.T) Result {
	t.Helper()
	if err := h.clock.WaitFor(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	h.clock.Advance(time.Hour)
	return <-h.ran
}

func TestBadAndGoodRuns(t *testing.T) {
	h := newHost(t, "exit 1", nil)
	if err := h.check.Begin(); err != nil || h.why() != "it has not run yet" {
		t.Fatalf("before the first run jobs are not taken since %q (%v)", h.why(), err)
	}
	h.run(t)
	if r := <-h.ran; r.Good || r.Changed || h.why() != h.dir+"/check: exit status 1" {
		t.Errorf("a bad first run: %+v, no jobs since %q", r, h.why())
	}
	h.write(t, "true")
	if r := h.next(t); !r.Good || !r.Changed || h.why() != "" {
		t.Errorf("a good run: %+v, no jobs since %q", r, h.why())
	}
	if r := h.next(t); !r.Good || r.Changed || h.why() != "" {
		t.Errorf("another one: %+v, no jobs since %q", r, h.why())
	}
	h.write(t, "echo checking; echo disk sda is gone >&2; echo; exit 3")
	if r := h.next(t); r.Good || !r.Changed || h.why() != "disk sda is gone" || r.Reason != h.why() {
		t.Errorf("a bad run: %+v, no jobs since %q", r, h.why())
	}
	want := Status{
		Path: h.dir + "/check", User: h.check.config.User, Reason: "disk sda is gone", Since: start.Add(3 * time.Hour),
		Runs: 4, LastRun: start.Add(3 * time.Hour),
	}
	if diff := cmp.Diff(want, h.check.Status()); diff != "" {
		t.Errorf("status: want (-) and got (+):\n%s", diff)
	}
	h.write(t, "true")
	if err := h.clock.WaitFor(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	h.check.Now()
	if r := <-h.ran; !r.Good || h.why() != "" {
		t.Errorf("a run that was asked for: %+v, no jobs since %q", r, h.why())
	}
}

// TestGoodInRow alternates good and bad runs: the host takes jobs again only after three good runs
// in a row.
func TestGoodInRow(t *testing.T) {
	h := newHost(t, "true", func(c *Config) { c.Good = 3 })
	if err := h.check.Begin(); err != nil {
		t.Fatal(err)
	}
	h.run(t)
	if r := <-h.ran; !r.Changed || h.why() != "" {
		t.Errorf("after the first good run there are no jobs since %q", h.why())
	}
	const bad = "echo no; false"
	for i, step := range []struct {
		script, why string
	}{{bad, "no"}, {"true", "no"}, {"true", "no"}, {bad, "no"}, {"true", "no"}, {"true", "no"}, {"true", ""}, {"true", ""}} {
		h.write(t, step.script)
		if h.next(t); h.why() != step.why {
			t.Errorf("step %d, %s: no jobs since %q, want %q", i, step.script, h.why(), step.why)
		}
	}
}

// TestDrainFails checks a host on whose disk the drain cannot be recorded at first.
func TestDrainFails(t *testing.T) {
	h := newHost(t, "echo bad; false", nil)
	full := errors.New("disk full")
	h.err = full
	h.run(t)
	if r := <-h.ran; !errors.Is(r.Err, full) || r.Changed {
		t.Errorf("%+v", r)
	}
	h.mu.Lock()
	h.err = nil
	h.mu.Unlock()
	if r := h.next(t); r.Err != nil || h.why() != "bad" {
		t.Errorf("later: %+v, no jobs since %q", r, h.why())
	}
}

func TestReasons(t *testing.T) {
	tests := map[string]struct{ script, want string }{
		"a signal":                          {"kill -9 $$", "/check: signal: killed"},
		"too much output":                   {"yes | head -c 1000000; echo; echo the last line; exit 1", "the last line"},
		"a long line":                       {"head -c 5000 /dev/zero | tr '\\0' x; exit 1", strings.Repeat("x", maxLine) + "..."},
		"terminal controls":                 {`printf 'a\033[31mb\tc\r\n'; exit 1`, "a [31mb c"},
		"no text":                           {`printf '\377\376'; exit 1`, "?"},
		"somebody who left with the output": {"setsid sleep 600 & echo $! >$DIR/left; echo bad; exit 1", "bad"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, test.script, nil)
			result := h.check.once(t.Context())
			if result.Good || !strings.HasSuffix(result.Reason, test.want) {
				t.Errorf("the reason is %q, want %q", result.Reason, test.want)
			}
			if b, err := os.ReadFile(h.dir + "/left"); err == nil {
				if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		})
	}
}

func TestCannotRun(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"no such file or directory": os.Remove,
		"permission denied":         func(path string) error { return os.Chmod(path, 0o644) },
	} {
		h := newHost(t, "", nil)
		if err := spoil(h.dir + "/check"); err != nil {
			t.Fatal(err)
		}
		if r := h.check.once(t.Context()); !strings.HasPrefix(r.Reason, "cannot run ") || !strings.HasSuffix(r.Reason, name) {
			t.Errorf("the reason is %q, want %s", r.Reason, name)
		}
	}
}

// hang is a script that hangs, with a child; it says so through a FIFO.
const hang = `sleep 1000 & echo $! >$DIR/child; echo on the way; echo >$DIR/ready; wait`

// hanging starts a run that hangs.
func hanging(t *testing.T, h *host) (result chan Result, child int) {
	t.Helper()
	if err := errors.Join(unix.Mkfifo(h.dir+"/ready", 0o666), os.Chmod(h.dir+"/ready", 0o666)); err != nil {
		t.Fatal(err)
	}
	result = make(chan Result, 1)
	go func() { result <- h.check.once(t.Context()) }()
	if _, err := os.ReadFile(h.dir + "/ready"); err != nil {
		t.Fatal(err)
	}
	if err := h.clock.WaitFor(t.Context(), time.Minute); err != nil { // the deadline
		t.Fatal(err)
	}
	b, err := os.ReadFile(h.dir + "/child")
	if err != nil {
		t.Fatal(err)
	}
	if child, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return result, fd
}

func ended(t *testing.T, pidfd int) {
	t.Helper()
	if !testenv.Ended(pidfd, 3*time.Minute) {
		t.Error("the child lives on")
	}
}

func TestDeadline(t *testing.T) {
	h := newHost(t, hang, nil)
	result, child := hanging(t, h)
	h.clock.Advance(time.Minute)
	if r := <-result; r.Reason != h.dir+"/check has not ended within 1m0s; its last line: on the way" || r.Took != time.Minute {
		t.Errorf("%+v", r)
	}
	ended(t, child)
}

// TestUnkillable runs a check whose processes ignore SIGKILL for a while.
func TestUnkillable(t *testing.T) {
	h := newHost(t, hang, nil)
	groups := make(chan int, 10)
	h.check.signal = func(pid int, _ unix.Signal) error {
		groups <- pid
		return nil
	}
	h.check.mercy = time.Millisecond
	result, child := hanging(t, h)
	h.clock.Advance(time.Minute)
	if r := <-result; !strings.Contains(r.Reason, "has not ended within") {
		t.Errorf("%+v", r)
	}
	h.write(t, "true")
	const want = "/check, started 2026-11-21T10:00:00Z, cannot be killed: it hangs in the kernel"
	for range 2 { // no other is started
		if r := h.check.once(t.Context()); !strings.Contains(r.Reason, want) {
			t.Errorf("the reason is %q, want %q", r.Reason, want)
		}
	}
	hung := h.check.hung
	if err := unix.Kill(<-groups, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, child)
	<-hung.Done()
	if r := h.check.once(t.Context()); !r.Good {
		t.Errorf("after their end: %+v", r)
	}
}

// TestHungChildOfKilledCheck runs a check whose child hangs in the kernel while the check itself
// can be killed.
func TestHungChildOfKilledCheck(t *testing.T) {
	h := newHost(t, hang, nil)
	h.check.signal = func(group int, s unix.Signal) error { return unix.Kill(-group, s) } // the parent alone
	h.check.mercy = time.Millisecond
	result, child := hanging(t, h)
	h.clock.Advance(time.Minute)
	<-result
	h.write(t, "true")
	<-h.check.hung.Done()
	if r := h.check.once(t.Context()); !strings.Contains(r.Reason, "cannot be killed") {
		t.Errorf("%+v", r)
	}
	if err := unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	ended(t, child)
	if r := h.check.once(t.Context()); !r.Good {
		t.Errorf("after its end: %+v", r)
	}
}

func TestContextEnds(t *testing.T) {
	h := newHost(t, hang, nil)
	if err := errors.Join(unix.Mkfifo(h.dir+"/ready", 0o666), os.Chmod(h.dir+"/ready", 0o666)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.check.Run(ctx)
	}()
	if _, err := os.ReadFile(h.dir + "/ready"); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	if h.why() != "" || h.check.Status().Runs != 0 {
		t.Errorf("a run that was broken off counts: no jobs since %q, %+v", h.why(), h.check.Status())
	}
}

func TestUserOfHealthCheck(t *testing.T) {
	testenv.Require(t, testenv.Root)
	lookup := func(name string) (program.Identity, error) {
		switch name {
		case root, "toor":
			return program.Identity{Name: root, Home: "/root"}, nil
		case "nobody", "monitor":
			return program.Identity{Name: name, UID: 54321, GID: 54321, Groups: []uint32{54322}, Home: "/nowhere"}, nil
		}
		return program.Identity{}, errors.New("unknown")
	}
	const say = `echo "$(id -u) $(id -G) $USER $HOME $HOST $PWD $0 $FOO"; exit 1`
	t.Setenv("FOO", "foo")
	for user, want := range map[string]string{
		"":        "54321 54321 54322 nobody /nowhere node1 / DIR/check",
		"monitor": "54321 54321 54322 monitor /nowhere node1 / DIR/check",
		root:      "0 0 root /root node1 / DIR/check",
	} {
		h := newHost(t, say, func(c *Config) { c.User, c.Lookup = user, lookup })
		want = strings.ReplaceAll(want, "DIR", h.dir)
		if r := h.check.once(t.Context()); !strings.HasSuffix(r.Reason, want) {
			t.Errorf("user %q: %q, want %q", user, r.Reason, want)
		}
	}
	for _, user := range []string{"", root} {
		h := newHost(t, say, func(c *Config) { c.User, c.Lookup = user, lookup })
		if err := os.Chmod(h.dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if r, want := h.check.once(t.Context()), h.dir+"\" may be written by everybody"; r.Good || !strings.Contains(r.Reason, want) {
			t.Errorf("user %q, a program that everybody can replace: %+v, want %s", user, r, want)
		}
	}
	for _, user := range []string{"toor", "nobody-here"} {
		if _, err := New(Config{Path: "/x", User: user, Lookup: lookup}); err == nil {
			t.Errorf("user %q is taken", user)
		}
	}
}

func TestConfiguration(t *testing.T) {
	for want, c := range map[string]Config{
		`the health check "x/y" is not an absolute path`: {Path: "x/y"},
		"cannot be negative":                             {Path: "/x", Interval: -1},
		"unknown":                                        {Path: "/x", User: "nobody-here"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, want %s", c, err, want)
		}
	}
	c, err := New(Config{Path: "/x", Lookup: func(string) (program.Identity, error) { return program.Identity{UID: 1}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if c.config.Interval != DefaultInterval || c.config.Deadline != DefaultDeadline || c.config.Good != DefaultGood {
		t.Errorf("defaults: %+v", c.config)
	}
}
