package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/terminal"
)

// ExitNoStatus is the exit status of execd attach where the job has none to pass on.
const ExitNoStatus = 125

// signalBase is added to the number of a signal that has ended something, as shells do.
const signalBase = 128

// awayPatience is how long an agent that has ended is waited for: an upgrade or a restart
// takes seconds, and the job goes on meanwhile.
const awayPatience = time.Minute

// awayPause is how long after a try it is tried again.
const awayPause = 200 * time.Millisecond

// errGone is for a client who has gone without a word to the agent.
var errGone = errors.New("the job is terminated if nobody attaches to it in time (execd agent --hang-up)")

// attach connects the caller's terminal with that of a job, to the end of one of them.
func (c *Command) attach(client *api.Client, s *settings) (int, error) {
	// Until the terminal is taken, Ctrl-C is for who waits.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	t, err := client.Attach(ctx, s.job)
	for err == nil {
		err = terminal.Run(context.Background(), t, terminal.Options{In: c.Stdin, Out: c.Terminal, Escape: s.escape})
		if err == nil {
			_ = t.Detach() // it has ended
			return c.exited(s.job, t.Exit()), nil
		}
		if errors.Is(err, terminal.ErrDetached) {
			c.say("detached from job %d, which goes on; to attach again: execd attach %d", s.job.Job, s.job.Job)
			return ExitGood, t.Detach()
		}
		_ = t.Close()
		if !away(err) {
			break
		}
		c.say("the agent is away, and the job goes on without it: waiting for the agent")
		if t, err = again(ctx, client, s.job); err == nil {
			c.say("attached again")
		}
	}
	if e, ok := errors.AsType[*terminal.SignalError](err); ok {
		return signalBase + int(e.Signal), errGone
	}
	if _, ok := errors.AsType[*terminal.OutputError](err); ok {
		return ExitNoStatus, fmt.Errorf("%w; %w", err, errGone)
	}
	return ExitNoStatus, err
}

// exited says why a job has no exit status of its own.
func (c *Command) exited(id api.ID, x *api.Exit) int {
	if x.Reason != "" {
		c.say("job %d %s", id.Job, visible(x.Reason))
	}
	return x.Status & 0xff
}

// say is for people, between what the job writes.
func (c *Command) say(format string, args ...any) {
	fmt.Fprintf(c.Stderr, "execd attach: "+format+"\n", args...)
}

// away reports whether the connection has ended because the agent has.
func away(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.Unavailable
}

// again attaches as soon as there is an agent again.
func again(ctx context.Context, client *api.Client, id api.ID) (*api.Terminal, error) {
	limit, cancel := context.WithTimeout(ctx, awayPatience)
	defer cancel()
	timer := time.NewTicker(awayPause)
	defer timer.Stop()
	for {
		t, err := client.Attach(limit, id)
		if !away(err) {
			return t, err
		}
		select {
		case <-timer.C:
		case <-limit.Done():
			return nil, err
		}
	}
}
