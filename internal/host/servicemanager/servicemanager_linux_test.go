package servicemanager

import (
	"context"
	"errors"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/clock"
)

var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// manager listens as systemd does.
type manager struct{ *net.UnixConn }

func listen(t *testing.T, name string) manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv(socketEnv, name)
	return manager{conn}
}

func (m manager) next(t *testing.T) string {
	t.Helper()
	if err := m.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := m.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestMessages(t *testing.T) {
	for name, path := range map[string]string{
		"a path":           t.TempDir() + "/notify",
		"an abstract name": "@execd-notify-test-" + strconv.Itoa(os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			m := listen(t, path)
			n, err := New(clock.System())
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				say  func() error
				want string
			}{
				{func() error { return n.Ready("3 jobs\nREADY=0") }, `^READY=1\nSTATUS=3 jobs READY=0$`},
				{n.Reloading, `^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$`},
				{func() error { return n.Status("drained: ö") }, `^STATUS=drained: ö$`},
				{func() error { return n.Stopping("") }, `^STOPPING=1\nSTATUS=$`},
			} {
				if err := step.say(); err != nil {
					t.Fatal(err)
				}
				if got := m.next(t); !regexp.MustCompile(step.want).MatchString(got) {
					t.Errorf("the manager is told %q, want %s", got, step.want)
				}
			}
			if _, ok := os.LookupEnv(socketEnv); ok {
				t.Errorf("%s is passed on", socketEnv)
			}
		})
	}
}

func TestWithoutManager(t *testing.T) {
	t.Setenv(socketEnv, "")
	t.Setenv(watchdogEnv, "1000")
	n, err := New(clock.System())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready("well"); err != nil {
		t.Error(err)
	}
	n.Watch(t.Context(), func(context.Context) error { t.Error("asked"); return nil }, nil) // returns
}

func TestMissingSocketIsAnError(t *testing.T) {
	t.Setenv(socketEnv, t.TempDir()+"/nobody")
	n, err := New(clock.System())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready("well"); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "cannot notify the service manager: ") {
		t.Errorf("the error is %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for name, test := range map[string]struct {
		socket, usec, pid string
		watchdog          time.Duration
		err               string
	}{
		"a watchdog":              {"/x", "30000000", self, 30 * time.Second, ""},
		"a watchdog for anybody":  {"/x", "1", "", time.Microsecond, ""},
		"another's watchdog":      {"/x", "30000000", "1", 0, ""},
		"a broken watchdog":       {"/x", "x", self, 0, `cannot answer the watchdog: WATCHDOG_USEC is "x"`},
		"a watchdog of no time":   {"/x", "0", self, 0, `WATCHDOG_USEC is "0"`},
		"a watchdog of centuries": {"/x", "9223372036854775807", self, 0, `expected microseconds`},
		"a socket elsewhere":      {"vsock:2:1234", "", "", 0, `NOTIFY_SOCKET is "vsock:2:1234", expected a path or @NAME`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(socketEnv, test.socket)
			t.Setenv(watchdogEnv, test.usec)
			t.Setenv(pidEnv, test.pid)
			n, err := New(clock.System())
			if n.watchdog != test.watchdog || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("the watchdog has %v, and the error is %v", n.watchdog, err)
			}
			if os.Getenv(socketEnv)+os.Getenv(watchdogEnv)+os.Getenv(pidEnv) != "" {
				t.Error("the environment is passed on")
			}
		})
	}
}

// TestWatchdog watches a loop that answers, stops answering, and answers again.
func TestWatchdog(t *testing.T) {
	m := listen(t, t.TempDir()+"/notify")
	t.Setenv(watchdogEnv, "20000000")
	hand := clock.NewManual(start)
	n, err := New(hand)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan error)
	warned := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Watch(ctx, func(within context.Context) error {
			if _, ok := within.Deadline(); !ok {
				t.Error("the loop may take for ever")
			}
			return <-answers
		}, func(err error) { warned <- err })
	}()
	period := func() {
		t.Helper()
		if err := hand.WaitFor(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		hand.Advance(10 * time.Second)
	}
	stuck := errors.New("stuck")
	period()
	answers <- nil
	if got := m.next(t); got != "WATCHDOG=1" {
		t.Errorf("the manager is told %q", got)
	}
	period()
	answers <- stuck
	if err := <-warned; !errors.Is(err, stuck) {
		t.Errorf("warned of %v", err)
	}
	period()
	answers <- nil
	if err := <-warned; err != nil {
		t.Errorf("warned of %v when it was over", err)
	}
	if got := m.next(t); got != "WATCHDOG=1" {
		t.Errorf("the manager is told %q", got)
	}
	if err := hand.WaitFor(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	// Nothing was said while the loop was stuck.
	if err := m.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := m.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d more bytes (%v)", n, err)
	}
}
