package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/terminal"
)

// awayPatience is the longest wait for an agent that has ended: an upgrade or a restart takes
// seconds, and the job continues meanwhile.
const awayPatience = time.Minute

// awayPause is the pause between two attempts to connect.
const awayPause = 200 * time.Millisecond

// Options are the settings for the connection with a job.
type Options struct {
	In, Out *os.File
	Err     io.Writer // only for jobs with pipes
	// Escape begins a word for this side, see terminal.Options: for a job with a pseudo
	// terminal.
	Escape byte
	// Away is called when the agent has ended and the wait for it begins, Again when the client
	// is attached again.
	Away, Again func()
}

// ErrLost is returned for a job with pipes if its input or output on the way may be lost. The
// session cannot continue, because a part of the data would be mistaken for all of it.
var ErrLost = errors.New("the connection with the job was lost, and some of its input or output may be missing")

// Run connects the caller with the job that t is attached to, and returns how the job has
// ended. If the agent announces that it stops, Run waits for the next one. Otherwise Run returns the
// errors of terminal.Run and terminal.RunPipes, ErrLost, or an *api.Error if no agent comes back
// or another client has attached. The context ends only the wait for an agent.
//
// After terminal.ErrDetached the job continues. After all other errors Run sends the agent
// nothing: the agent terminates a job with pipes at once, and other jobs if no client attaches in
// time.
func Run(ctx context.Context, client *api.Client, id api.ID, t *api.Terminal, o Options) (*api.Exit, error) {
	for {
		err := connect(t, o)
		switch {
		case err == nil:
			_ = t.Detach() // it has ended
			return t.Exit(), nil
		case errors.Is(err, terminal.ErrDetached):
			return nil, errors.Join(err, t.Detach())
		}
		_ = t.Close()
		if !Away(err) {
			return nil, err
		}
		if t.Pipes() && (!t.Arrived() || !goodbye(err)) {
			if t, e := again(ctx, client, id); e == nil {
				_ = t.Close() // so that the job is terminated
			}
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		}
		o.Away()
		if t, err = again(ctx, client, id); err != nil {
			return nil, err
		}
		o.Again()
	}
}

func connect(t *api.Terminal, o Options) error {
	if t.Pipes() {
		return terminal.RunPipes(context.Background(), t, terminal.PipeOptions{In: o.In, Out: o.Out, Err: o.Err})
	}
	return terminal.Run(context.Background(), t, terminal.Options{In: o.In, Out: o.Out, Escape: o.Escape})
}

// Away reports whether the connection has ended because the agent has.
func Away(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.Unavailable
}

// goodbye reports whether the agent has announced its end. Before that it has sent all output of the
// job that it had read.
func goodbye(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Err == nil
}

// again attaches as soon as there is an agent again.
func again(ctx context.Context, client *api.Client, id api.ID) (*api.Terminal, error) {
	limit, cancel := context.WithTimeout(ctx, awayPatience)
	defer cancel()
	timer := time.NewTicker(awayPause)
	defer timer.Stop()
	for {
		t, err := client.Attach(limit, id)
		if !Away(err) {
			return t, err
		}
		select {
		case <-timer.C:
		case <-limit.Done():
			return nil, err
		}
	}
}
