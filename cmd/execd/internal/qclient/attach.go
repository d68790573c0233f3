package qclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cmd/execd/internal/attach"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/terminal"
	"github.com/execd-project/execd/standalone/api"
)

// window describes the terminal of this process.
func window() *api.Interactive {
	t := &api.Interactive{Term: os.Getenv("TERM")}
	for _, f := range []*os.File{os.Stdin, os.Stdout} {
		if terminal.Is(f) {
			if rows, cols, err := terminal.Size(f); err == nil {
				t.Rows, t.Cols = rows, cols
				return t
			}
		}
	}
	return t
}

// escape is the character that begins input for qrsh itself, as for ssh(1).
const escape = '~'

// attach waits until a job runs, and connects the terminal of this process with that of the job.
// The exit status is the job's.
func (c *Command) attach(ctx context.Context, d *api.Client, a *api.CommandAnswer) (int, error) {
	job, in := a.Job, os.Stdin
	if a.NoStdin {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return exitFailed, err
		}
		defer null.Close()
		in = null
	}
	for {
		w, err := d.Wait(ctx, api.WaitRequest{Job: job, Start: true})
		switch {
		case err != nil && ctx.Err() != nil:
			return c.interrupted(d, job)
		case err != nil:
			return exitFailed, Explain(err)
		case w.Gone && len(w.Ends) == 0:
			return exitFailed, fmt.Errorf("job %d was deleted before it ran", job)
		case !w.Running && !w.Gone:
			continue
		}
		if a.Verbose {
			printer.Fprintf(c.Stderr, "Your interactive job %d has been successfully scheduled.\n", job)
			if host, err := os.Hostname(); err == nil {
				printer.Fprintf(c.Stderr, "Establishing builtin session to host %s ...\n", host)
			}
		}
		id := agentapi.ID{Job: int(job)}
		t, err := d.Agent().Attach(ctx, id)
		if err != nil {
			if ctx.Err() != nil {
				return c.interrupted(d, job)
			}
			return c.over(ctx, d, job, err)
		}
		exit, err := attach.Run(ctx, d.Agent(), id, t, attach.Options{
			In: in, Out: os.Stdout, Err: c.Stderr, Escape: escape,
			Away: func() {
				printer.Fprintf(c.Stderr, "%s: the daemon is away, and job %d goes on without it: waiting\n", c.Name, job)
			},
			Again: func() { printer.Fprintf(c.Stderr, "%s: attached to job %d again\n", c.Name, job) },
		})
		if err == nil {
			return c.exited(exit), nil
		}
		return c.left(d, job, t.Pipes(), err)
	}
}

// signalBase is added to the number of a signal that has ended something, as shells do.
const signalBase = 128

// left reports that a session ended before its job, and returns the exit status. The job of a
// session without a terminal ends with its client.
func (c *Command) left(d *api.Client, job uint32, pipes bool, err error) (int, error) {
	if errors.Is(err, terminal.ErrDetached) {
		printer.Fprintf(c.Stderr, "%s: detached; job %d goes on, and execd attach %d attaches to it again\n", c.Name, job, job)
		return exitGood, nil
	}
	if !pipes {
		return exitFailed, err
	}
	if e, ok := errors.AsType[*terminal.SignalError](err); ok {
		if _, err := c.interrupted(d, job); err != nil {
			return exitFailed, err
		}
		return signalBase + int(e.Signal), nil
	}
	if errors.Is(err, syscall.EPIPE) { // the reader of the job's output has closed it
		return signalBase + int(syscall.SIGPIPE), nil
	}
	return exitFailed, err
}

// exited returns the exit status of a job, or 1 if it has none. If a signal or a limit has ended the
// job, or if it has no exit status, exited prints the reason: otherwise it looks as if the connection
// had failed.
func (c *Command) exited(e *agentapi.Exit) int {
	status := e.Status & 0xff
	if e.Reason == "" {
		return status
	}
	printer.Fprintf(c.Stderr, "%s: %s\n", c.Name, e.Reason)
	return max(status, exitFailed)
}

// over returns the end of a job to which no client could attach, for example because its prolog failed.
func (c *Command) over(ctx context.Context, d *api.Client, job uint32, cause error) (int, error) {
	w, err := d.Wait(ctx, api.WaitRequest{Job: job})
	if err != nil || len(w.Ends) == 0 {
		return exitFailed, Explain(cause)
	}
	e := w.Ends[len(w.Ends)-1]
	if e.Reason != "" {
		printer.Fprintf(c.Stderr, "%s: job %d: %s\n", c.Name, job, e.Reason)
	}
	if e.Ran {
		return e.ExitStatus & 0xff, nil
	}
	return exitFailed, nil
}
