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
	"net"
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

// Ready says that the agent is ready, at its start or after Reloading.
func (n *Notifier) Ready(status string) error {
	return n.send("READY=1\nSTATUS=" + line(status))
}

// Reloading tells the manager that the configuration is being read again. Call Ready afterwards,
// regardless of the result.
func (n *Notifier) Reloading() error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return fmt.Errorf("cannot read the monotonic clock: %w", err)
	}
	return n.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(ts.Nano()/1000, 10))
}

// Stopping says that the agent is about to end.
func (n *Notifier) Stopping(status string) error {
	return n.send("STOPPING=1\nSTATUS=" + line(status))
}

// Status sets the sentence that systemctl status shows.
func (n *Notifier) Status(status string) error { return n.send("STATUS=" + line(status)) }

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
			err = n.send("WATCHDOG=1")
		}
		if err != nil || !well {
			warn(err)
		}
		well = err == nil
	}
}

func (n *Notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	return nil
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
