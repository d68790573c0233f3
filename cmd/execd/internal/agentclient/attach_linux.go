package agentclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cmd/execd/internal/attach"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/terminal"
)

// ExitNoStatus is the exit status of execd attach if there is no exit status of a job to pass on.
const ExitNoStatus = 125

// signalBase is added to the number of a signal that has ended something, as shells do.
const signalBase = 128

// errGone is the error of a client that ends without detaching.
var errGone = errors.New("the job is terminated if no client attaches to it in time (execd agent --hang-up)")

// errPipesGone is the same for a job without a pseudo terminal.
var errPipesGone = errors.New("the job, which has no terminal, is terminated")

// attach connects the caller's terminal with that of a job until one of them ends.
func (c *Command) attach(client *api.Client, s *settings) (int, error) {
	// Ctrl-C ends this command as long as it is not attached; later it goes to the job.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	t, err := client.Attach(ctx, s.job)
	if err != nil {
		return ExitNoStatus, err
	}
	gone := errGone
	if t.Pipes() {
		gone = errPipesGone
	}
	exit, err := attach.Run(ctx, client, s.job, t, attach.Options{
		In: c.Stdin, Out: c.Terminal, Err: c.Stderr, Escape: s.escape,
		Away:  func() { c.say("the agent is away, and the job goes on without it: waiting for the agent") },
		Again: func() { c.say("attached again") },
	})
	if err == nil {
		return c.exited(s.job, exit), nil
	}
	if errors.Is(err, terminal.ErrDetached) {
		c.say("detached from job %d, which goes on; to attach again: execd attach %d", s.job.Job, s.job.Job)
		return ExitGood, nil
	}
	if e, ok := errors.AsType[*terminal.SignalError](err); ok {
		return signalBase + int(e.Signal), gone
	}
	if _, ok := errors.AsType[*terminal.OutputError](err); ok {
		return ExitNoStatus, fmt.Errorf("%w; %w", err, gone)
	}
	return ExitNoStatus, err
}

// exited prints the reason why a job has no exit status of its own, if there is one, and returns
// the exit status of the command.
func (c *Command) exited(id api.ID, x *api.Exit) int {
	if x.Reason != "" {
		c.say("job %d %s", id.Job, x.Reason)
	}
	return x.Status & 0xff
}

// say prints a message for the user, between the job's output.
func (c *Command) say(format string, args ...any) {
	printer.Fprintf(c.Stderr, "execd attach: "+format+"\n", args...)
}
