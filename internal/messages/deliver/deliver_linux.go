// Package deliver passes a message to programs, webhooks and desktops, with the rights of the process
// that calls it: that of execd message-helper, which the daemon starts as the user of the receivers.
//
// All functions may be called from several goroutines.
//
// Other projects should not import this package: it may change at any time.
package deliver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/messages"
	"github.com/execd-project/execd/internal/trust"
)

// Word is the name of the command that the daemon calls: execd message-helper. It reads an Order as
// JSON, and writes a Result as JSON for each receiver that did not get the message.
const Word = "message-helper"

// ProgramTimeout is the time that a program of a receiver may take; then it is killed.
const ProgramTimeout = 60 * time.Second

// Order is a message with its receivers.
type Order struct {
	Message   messages.Message    `json:"message"`
	Receivers []messages.Receiver `json:"receivers"`
	Version   string              `json:"version"` // of the daemon
}

// Result is a receiver that did not get a message.
type Result struct {
	Line  int    `json:"line"` // of the file with receivers
	Error string `json:"error"`
}

// All passes a message to all receivers at the same time, and returns those that did not get it.
func All(ctx context.Context, o *Order) []Result {
	body, err := json.Marshal(&o.Message)
	if err != nil {
		return []Result{{Error: err.Error()}}
	}
	errs := make([]error, len(o.Receivers))
	var group sync.WaitGroup
	for i := range o.Receivers {
		group.Go(func() { errs[i] = one(ctx, o, &o.Receivers[i], body) })
	}
	group.Wait()
	var list []Result
	for i, err := range errs {
		if err != nil {
			list = append(list, Result{o.Receivers[i].Line, fmt.Sprintf("%s: %v", o.Receivers[i].Kind, err)})
		}
	}
	return list
}

func one(ctx context.Context, o *Order, r *messages.Receiver, body []byte) error {
	switch r.Kind {
	case messages.Webhook:
		return post(ctx, o, r, body)
	case messages.Program:
		return runProgram(ctx, o, r, body)
	case messages.Desktop:
		return notify(ctx, o)
	}
	return fmt.Errorf("unknown kind of receiver %q", r.Kind)
}

// environment returns the environment of programs.
func environment(me program.Identity) []string {
	return []string{"PATH=" + program.SearchPath, "HOME=" + cmp.Or(os.Getenv("HOME"), me.Home), "USER=" + me.Name, "LOGNAME=" + me.Name, "SHELL=/bin/sh"}
}

// runProgram runs a program with the message as JSON on its standard input.
func runProgram(ctx context.Context, o *Order, r *messages.Receiver, body []byte) error {
	if err := trust.Own().Program(r.To); err != nil {
		return err
	}
	me := program.Own()
	m := &o.Message
	return run(ctx, &program.Command{
		Path: r.To, Dir: "/", Stdin: strings.NewReader(string(body) + "\n"),
		Env: append(environment(me),
			"EXECD_EVENT="+string(m.Event), "EXECD_TEXT="+m.Text, "EXECD_JOB="+strconv.FormatUint(uint64(m.Job.ID), 10)),
	})
}

// run runs a program within ProgramTimeout. An error contains the beginning of its output.
func run(ctx context.Context, c *program.Command) error {
	ctx, cancel := context.WithTimeoutCause(ctx, ProgramTimeout, fmt.Errorf("it has not ended within %s", ProgramTimeout))
	defer cancel()
	out := program.Head{Most: 500}
	c.Stdout, c.Stderr, c.WaitDelay = &out, &out, time.Second
	err := program.Run(ctx, c)
	if err == nil {
		return nil
	}
	if text := strings.TrimSpace(string(out.Kept)); text != "" && ctx.Err() == nil {
		return fmt.Errorf("%s: %w: %s", c.Path, err, text)
	}
	return fmt.Errorf("%s: %w", c.Path, err)
}

// notify shows the message on the desktop of this user.
func notify(ctx context.Context, o *Order) error {
	me := program.Own()
	bus := filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "bus")
	var st unix.Stat_t
	if err := unix.Lstat(bus, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() {
		return errors.New("you have no desktop session on this host: there is no " + bus)
	}
	path, err := exec.LookPath("notify-send") // in the PATH that the daemon has chosen
	if err != nil {
		return errors.New("notify-send(1) is not installed")
	}
	m := &o.Message
	return run(ctx, &program.Command{
		Path: path, Dir: "/", Env: append(environment(me), "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus),
		Args: []string{"--app-name=execd", "--", "execd: " + string(m.Event), desktopText(m.Text)},
	})
}

// desktopText returns a text in the form in which notify-send takes it: it is markup, in which
// notify-send replaces escapes such as \n and \033.
func desktopText(text string) string {
	return strings.ReplaceAll(html.EscapeString(text), `\`, `\\`)
}

// GiveUpProtection sets the default probability with which this process, and the programs that it
// starts, are killed when the host is out of memory. The daemon may be protected (OOMScoreAdjust= of
// systemd.exec(5)), and its children inherit that.
func GiveUpProtection() { giveUpProtection("/proc/self/oom_score_adj") }

func giveUpProtection(path string) {
	if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), "-") {
		_ = os.WriteFile(path, []byte("0"), 0) // any process may raise its own
	}
}
