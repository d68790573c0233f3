package qclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/submit"
)

// confirm tells the launcher of a daemon of two processes what the user submits, and notes that in the request.
// This process computes the digest from the command line, and uses nothing that the daemon says. If the launcher ends
// meanwhile, confirm waits for the next launcher and tells it the submission under another key.
func confirm(ctx context.Context, q *api.CommandRequest, in *command.Input, a *api.CommandAnswer) error {
	if q.Confirmed != "" || q.Amended != nil { // the front could start further jobs with further confirmations
		return errors.New("the daemon requests another confirmation of the command")
	}
	if len(a.Amend) == 0 {
		return patiently(ctx, func() error { return confirmOnce(ctx, q, in, string(a.Confirm)) })
	}
	if err := refuseOthers(in, a.Amend); err != nil {
		return err
	}
	for i := range a.Amend {
		if err := patiently(ctx, func() error { return amend(ctx, q, in, string(a.Confirm), &a.Amend[i]) }); err != nil {
			return err
		}
	}
	q.Key = rand.Text()
	return nil
}

// refuseOthers refuses to confirm jobs that the command line does not name, if it names all jobs by number.
func refuseOthers(in *command.Input, list []api.Amend) error {
	if len(list) > command.MostAmended {
		return fmt.Errorf("the daemon requests the confirmation of %d jobs, expected at most %d", len(list), command.MostAmended)
	}
	jobs, only := command.Named(in)
	seen := make(map[uint32]bool, len(list))
	for _, a := range list {
		switch {
		case only && !jobs[a.Job]:
			return fmt.Errorf("the daemon requests the confirmation of job %d, which the command does not name", a.Job)
		case seen[a.Job]:
			return fmt.Errorf("the daemon requests the confirmation of job %d twice", a.Job)
		}
		seen[a.Job] = true
	}
	return nil
}

// patiently calls f again while the launcher is being started again.
func patiently(ctx context.Context, f func() error) error {
	const pause = 100 * time.Millisecond
	for end := time.Now().Add(claim.Patience); ; {
		err := f()
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

// amend tells the launcher what the user changes of a job, or copies. The launcher compares what the daemon says of the
// job with what its owner has submitted.
func amend(ctx context.Context, q *api.CommandRequest, in *command.Input, socket string, a *api.Amend) error {
	var was submission.Submission
	if err := json.Unmarshal(a.Submission, &was); err != nil {
		return fmt.Errorf("cannot read the daemon's description of job %d: %w", a.Job, err)
	}
	next := command.Amend(in, &was)
	if next == nil {
		return fmt.Errorf("the daemon requests the confirmation of job %d, which %s does not change", a.Job, in.Name)
	}
	key := rand.Text()
	c := &claim.Claim{Key: key, Digest: next.Digest(key), Of: &claim.Source{UID: a.UID, Key: a.Key, Digest: was.Digest(a.Key), Job: int(a.Job)}}
	if in.Name == "qalter" {
		c.Job = int(a.Job)
		if os.Geteuid() == 0 {
			c.For = &a.UID
		}
	}
	launcher, err := claim.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer launcher.Close()
	if err := launcher.Claim(c); err != nil {
		return fmt.Errorf("job %d: %w", a.Job, err)
	}
	q.Amended = append(q.Amended, api.Amended{Job: a.Job, Key: key, Digest: c.Digest})
	return nil
}

// typedWith returns a command line with the default options of all users that the launcher has sent.
func typedWith(in *command.Input, launcher *claim.Conn) *command.Input {
	typed := *in
	typed.Defaults = map[string][]byte{}
	if text := launcher.Greeting.Requests; text != nil {
		typed.Defaults["sge_request"] = text
	}
	return &typed
}

func confirmOnce(ctx context.Context, q *api.CommandRequest, in *command.Input, socket string) error {
	launcher, err := claim.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer launcher.Close()
	typed := typedWith(in, launcher)
	if q.Verified {
		typed.Corrections = []submit.Correction{}
		for _, c := range q.Corrections {
			typed.Corrections = append(typed.Corrections, submit.Correction{
				Parameter: submit.Parameter{Name: string(c.Name), Value: string(c.Value)}, Variable: c.Variable, Remove: c.Remove,
			})
		}
	}
	key := rand.Text()
	digest, verification := command.Submission(typed, key)
	if digest != "" { // else the daemon says what is wrong
		if err := launcher.Claim(&claim.Claim{Key: key, Digest: digest, Verification: verification}); err != nil {
			return err
		}
	}
	q.Key, q.Confirmed, q.Digest = rand.Text(), key, digest
	return nil
}
