package qclient

import (
	"context"

	"github.com/execd-project/execd/standalone/api"
)

// AwaitEnd does what FollowEnds does, without a function for the tasks.
func (c *Command) AwaitEnd(ctx context.Context, job uint32) (known bool, err error) {
	return c.FollowEnds(ctx, job, func(api.End) {})
}

// FollowEnds waits until a job of the caller has finished and left qstat; its accounting records are
// complete then. On a terminal it prints what a pending job waits for. known is false if the daemon
// does not know the job: it never was, or has finished some time ago. It calls ended for each task that
// finishes; if the daemon is restarted meanwhile, again for some of them. Only Name and Stderr of the
// Command are used.
func (c *Command) FollowEnds(ctx context.Context, job uint32, ended func(api.End)) (known bool, err error) {
	d, err := c.Dial(ctx)
	if err != nil {
		return false, err
	}
	done := c.watch(ctx, d, job)
	defer done()
	for q := (api.WaitRequest{Job: job}); ; {
		w, err := d.Wait(ctx, q)
		if unknown(err) {
			return false, nil
		}
		if err != nil {
			return false, Explain(err)
		}
		for _, e := range w.Ends {
			ended(e)
		}
		if w.Gone {
			return true, nil
		}
		if w.Boot != q.Boot {
			q.After, q.Boot = 0, w.Boot
		}
		q.After += len(w.Ends)
	}
}
