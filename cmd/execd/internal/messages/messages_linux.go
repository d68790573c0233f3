// Package messages is the command execd messages, which shows and tests the receivers of the caller's
// messages about jobs, and execd message-helper, which delivers a message for the daemon.
//
// Other projects should not import this package: it may change at any time.
package messages

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/messages"
	"github.com/execd-project/execd/internal/messages/deliver"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
)

// Usage is the output of --help.
const Usage = `Usage: execd messages [options]

Shows who gets messages about your jobs: the lines of ~/.config/execd/messages. See
execd-messages(1) for the form of the file.

  --test  send a test message to each receiver, and show which of them did not get it
  --help  print this text

Exit status: 1 if the file has errors, or a receiver did not get the test message; 2 for
wrong usage.
`

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood   = 0
	ExitFailed = 1
)

// Command is one call of execd messages.
type Command struct {
	Args    []string // words after "execd messages"
	Stdout  io.Writer
	Version string
}

// Run carries the command out and returns the exit status. An error has not been printed yet.
func (c *Command) Run(ctx context.Context) (int, error) {
	var test bool
	line, err := options.Parse(Usage, c.Args, options.Values{"test": &test})
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	if len(line.Operands) > 0 {
		return options.ExitUsage, options.Usagef("unexpected argument %q", line.Operands[0])
	}
	f, path, err := messages.ReadOwn()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		printer.Fprintf(c.Stdout, "You get no messages: there is no file %s.\n", path)
		return ExitGood, nil
	case f == nil:
		return ExitFailed, err
	}
	for _, r := range f.Receivers {
		printer.Fprintf(c.Stdout, "line %d: %s\n", r.Line, describe(&r))
	}
	if err != nil || !test {
		return map[bool]int{false: ExitGood, true: ExitFailed}[err != nil], err
	}
	return c.test(ctx, f)
}

// describe returns a receiver in words.
func describe(r *messages.Receiver) string {
	var events []string
	for _, e := range r.Events {
		word := string(e)
		if e == messages.Pending {
			word += " for more than " + r.After.String()
		}
		events = append(events, word)
	}
	text := string(r.Kind)
	if r.To != "" {
		text += " " + r.To
	}
	if r.Secret != "" {
		text += ", signed"
	}
	return text + ": " + strings.Join(events, ", ")
}

// test sends a message to all receivers.
func (c *Command) test(ctx context.Context, f *messages.File) (int, error) {
	host, err := os.Hostname()
	if err != nil {
		return ExitFailed, err
	}
	m := messages.Message{ID: rand.Text(), Event: messages.Test, Time: time.Now(), Host: host, Job: messages.Job{Name: "test", Owner: program.Own().Name, Submitted: time.Now()}}
	m.Describe()
	failures := deliver.All(ctx, &deliver.Order{Message: m, Receivers: f.For(&m), Version: c.Version})
	var errs []error
	for _, r := range failures {
		errs = append(errs, fmt.Errorf("line %d: %s", r.Line, r.Error))
	}
	if len(errs) == 0 && len(f.Receivers) > 0 {
		printer.Fprintf(c.Stdout, "all of them got a test message\n")
	}
	return map[bool]int{false: ExitGood, true: ExitFailed}[len(errs) > 0], errors.Join(errs...)
}

// Help delivers the message that the daemon writes to in: see deliver.Word.
func Help(in io.Reader, out io.Writer) error {
	deliver.GiveUpProtection()
	var o deliver.Order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("cannot read the message: %w", err)
	}
	e := json.NewEncoder(out)
	for _, r := range deliver.All(context.Background(), &o) {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
