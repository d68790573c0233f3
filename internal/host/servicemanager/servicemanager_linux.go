// Package servicemanager sends the status of the agent to the service manager that has started it, by
// the protocol of sd_notify(3): that the agent is ready, reads its configuration again, or ends; a line
// for systemctl status; and that its loop answers (WatchdogSec= of systemd.service(5)).
//
// Without such a manager all functions do nothing. Requests to systemd over D-Bus are in
// agent/scope.
//
// The methods of a Notifier may be called from several goroutines.
package servicemanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
)

// The variables of sd_notify(3) and sd_watchdog_enabled(3).
const (
	socketEnv   = "NOTIFY_SOCKET"
	watchdogEnv = "WATCHDOG_USEC"
	pidEnv      = "WATCHDOG_PID"
)

// patience bounds the time in which the manager takes a message: its queue may be
// full.
const patience = 5 * time.Second

// Notifier is the way to the manager. Make one with New.
type Notifier struct {
	socket   string // empty for none
	watchdog time.Duration
	clock    clock.Clock
	through  func(*State) error // nil to send to the socket
}

// State is a message to the manager.
type State struct {
	Ready     bool   `json:"ready,omitempty"`     // the start, or a reload, is over
	Reloading bool   `json:"reloading,omitempty"` // the configuration is being read again
	Stopping  bool   `json:"stopping,omitempty"`  // the agent is about to end
	Watchdog  bool   `json:"watchdog,omitempty"`  // the agent answers
	Status    string `json:"status,omitempty"`    // the sentence that systemctl status shows; empty for the one before
}

// text returns the message in the form of sd_notify(3).
func (s *State) text() (string, error) {
	var lines []string
	for _, word := range []struct {
		name string
		is   bool
	}{{"READY", s.Ready}, {"RELOADING", s.Reloading}, {"STOPPING", s.Stopping}, {"WATCHDOG", s.Watchdog}} {
		if word.is {
			lines = append(lines, word.name+"=1")
		}
	}
	if s.Reloading {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return "", fmt.Errorf("cannot read the monotonic clock: %w", err)
		}
		lines = append(lines, "MONOTONIC_USEC="+strconv.FormatInt(ts.Nano()/1000, 10))
	}
	if s.Status != "" || s.Ready || s.Stopping {
		lines = append(lines, "STATUS="+line(s.Status))
	}
	return strings.Join(lines, "\n"), nil
}

// New finds the manager in the environment, and removes its variables, so that child processes
// cannot notify in this process's name. An error describes invalid variables; the notifier then
// works as far as possible.
func New(c clock.Clock) (*Notifier, error) {
	n := &Notifier{clock: c}
	var errs []error
	if n.socket = os.Getenv(socketEnv); n.socket != "" && n.socket[0] != '/' && n.socket[0] != '@' {
		errs = append(errs, fmt.Errorf("cannot notify the service manager: %s is %q, expected a path or @NAME", socketEnv, n.socket))
		n.socket = ""
	}
	usec, pid := os.Getenv(watchdogEnv), os.Getenv(pidEnv)
	if usec != "" && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		number, err := strconv.ParseInt(usec, 10, 53) // in nanoseconds it has to fit, too
		if err != nil || number <= 0 {
			errs = append(errs, fmt.Errorf("cannot answer the watchdog: %s is %q, expected microseconds", watchdogEnv, usec))
		} else {
			n.watchdog = time.Duration(number) * time.Microsecond
		}
	}
	for _, name := range []string{socketEnv, watchdogEnv, pidEnv} {
		errs = append(errs, os.Unsetenv(name))
	}
	return n, errors.Join(errs...)
}

// Through has the messages sent by a function, for a process that the manager does not listen to (NotifyAccess=main of
// systemd.service(5)). It must be called before the other methods.
func (n *Notifier) Through(send func(*State) error) { n.through = send }

// Ready says that the agent is ready, at its start or after Reloading.
func (n *Notifier) Ready(status string) error {
	return n.Send(&State{Ready: true, Status: status})
}

// Reloading tells the manager that the configuration is being read again. Call Ready afterwards,
// regardless of the result.
func (n *Notifier) Reloading() error { return n.Send(&State{Reloading: true}) }

// Stopping says that the agent is about to end.
func (n *Notifier) Stopping(status string) error {
	return n.Send(&State{Stopping: true, Status: status})
}

// Status sets the sentence that systemctl status shows.
func (n *Notifier) Status(status string) error { return n.Send(&State{Status: status}) }

// Watch notifies the watchdog twice in each of its periods until the context ends; without a
// watchdog it returns at once. It notifies only after alive has returned nil: alive queries the
// main loop and waits for its answer, until its context ends with the period. warn is called with
// an error when there was no answer, and with nil when there is one again.
func (n *Notifier) Watch(ctx context.Context, alive func(context.Context) error, warn func(error)) {
	if n.watchdog == 0 || n.socket == "" {
		return
	}
	period := n.watchdog / 2
	well := true
	for clock.Wait(ctx, n.clock, period) {
		within, cancel := context.WithTimeout(ctx, period)
		err := alive(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = n.Send(&State{Watchdog: true})
		}
		if err != nil || !well {
			warn(err)
		}
		well = err == nil
	}
}

// Send sends a message. Without a manager it does nothing.
func (n *Notifier) Send(state *State) error {
	if n.socket == "" {
		return nil
	}
	if n.through != nil {
		return n.through(state)
	}
	text, err := state.text()
	if err == nil {
		err = send(n.socket, text)
	}
	if err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	return nil
}

// send sends a datagram to a socket: a path, or a name without one after "@" (unix(7)).
func send(socket, text string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	for {
		err := unix.Sendto(fd, []byte(text), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: socket}) // unix turns the @ into a NUL
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("sendto", err)
		}
	}
}

// line returns a text in which no other assignment can begin.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
