package qclient

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/submit"
)

// confirm tells the launcher of a daemon of two processes what the user submits, and notes that in the request.
// The digest is that of what this process reads of the command line: the daemon's word does not count. A launcher
// that ends meanwhile is told again when it has been started again, under another key.
func confirm(ctx context.Context, q *api.CommandRequest, in *command.Input, socket string) error {
	const pause = 100 * time.Millisecond
	for end := time.Now().Add(claim.Patience); ; {
		err := confirmOnce(ctx, q, in, socket)
		if !errors.Is(err, claim.ErrEnd) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func confirmOnce(ctx context.Context, q *api.CommandRequest, in *command.Input, socket string) error {
	launcher, err := claim.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer launcher.Close()
	typed := *in
	typed.Defaults = map[string][]byte{}
	if text := launcher.Greeting.Requests; text != nil {
		typed.Defaults["sge_request"] = text
	}
	if q.Verified {
		typed.Corrections = []submit.Correction{}
		for _, c := range q.Corrections {
			typed.Corrections = append(typed.Corrections, submit.Correction{
				Parameter: submit.Parameter{Name: string(c.Name), Value: string(c.Value)}, Variable: c.Variable, Remove: c.Remove,
			})
		}
	}
	key := rand.Text()
	digest := command.Submission(&typed, key)
	if digest != "" { // else the daemon says what is wrong
		if err := launcher.Claim(key, digest); err != nil {
			return err
		}
	}
	q.Key, q.Confirmed, q.Digest = rand.Text(), key, digest
	return nil
}
