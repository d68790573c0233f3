package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/submit"
)

// verify has the verifier of the site check a submission, as its user has typed it, and records the digest of the
// submission with the changes of the verifier.
func (s *Server) verify(ctx context.Context, b *verifyBody) (*verifyAnswer, error) {
	by, err := s.Rules.checkVerify(b)
	if err != nil {
		return nil, err
	}
	if s.Verify == nil {
		return nil, &refusal{errors.New("root's configuration has no jsv_url")}
	}
	by.Host = s.Rules.Site.Host
	a := s.runVerifier(ctx, b, by)
	if a.Rejected != "" {
		return a, nil
	}
	if err := s.Rules.Submissions.Verify(b.UID, b.Key, a.Digest); err != nil {
		return nil, &failure{err}
	}
	return a, nil
}

// runVerifier makes the verifier check a submission.
func (s *Server) runVerifier(ctx context.Context, b *verifyBody, by *submit.Submitter) *verifyAnswer {
	v := b.Verification
	changes, err := s.Verify(ctx, v.For(*by), v.Submission.Request(nil).Env)
	if err != nil {
		return &verifyAnswer{Rejected: err.Error()}
	}
	next, err := v.Submission.Correct(changes)
	if err != nil {
		return &verifyAnswer{Rejected: err.Error()}
	}
	a := &verifyAnswer{Digest: next.Digest(b.Key)}
	for _, c := range changes {
		a.Corrections = append(a.Corrections, correction{submission.Text(c.Name), submission.Text(c.Value), c.Variable, c.Remove})
	}
	return a
}

// checkVerify refuses a verification that the user has not asked for, and returns the user.
func (r *Rules) checkVerify(b *verifyBody) (*submit.Submitter, error) {
	switch {
	case r.Submissions == nil || !r.Site.verifies():
		return nil, &refusal{errors.New("root's configuration has no jsv_url")}
	case !submission.ValidKey(b.Key) || b.Verification == nil:
		return nil, &refusal{errors.New("the order has no submission to verify")}
	}
	if err := errors.Join(checkID(job.ID{Job: b.Job}), b.Verification.Check()); err != nil {
		return nil, &refusal{err}
	}
	switch digest, err := r.Submissions.Unverified(b.UID, b.Key); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &refusal{fmt.Errorf("user ID %d has not submitted the job: %w", b.UID, err)}
	case err != nil:
		return nil, &failure{err}
	case b.Verification.Digest(b.Key) != digest:
		return nil, &refusal{fmt.Errorf("user ID %d has submitted another job than the one to be verified", b.UID)}
	}
	u, err := r.Users.UserID(b.UID)
	if err != nil {
		return nil, &failure{err}
	}
	return &submit.Submitter{Context: "server", Command: "qmaster", User: u.Name, Group: r.Users.GroupName(u.GID), Job: uint32(b.Job)}, nil //nolint:gosec // checked above
}

// Verify has the launcher verify a submission with the verifier of the site, and returns the changes and the digest of
// the submission with these changes. Any error is why the job is not submitted.
func (c *Client) Verify(ctx context.Context, uid uint32, key string, number uint32, v *submission.Verification) (changes []submit.Correction, digest string, err error) {
	select {
	case c.verifies <- struct{}{}:
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	// Not with the context: the launcher would go on, and count the order.
	defer func() { <-c.verifies }()
	var a verifyAnswer
	if err := c.ask(kindVerify, &verifyBody{uid, key, int(number), v}, &a); err != nil {
		return nil, "", err
	}
	if a.Rejected != "" {
		return nil, "", errors.New(a.Rejected)
	}
	for _, x := range a.Corrections {
		changes = append(changes, submit.Correction{Parameter: submit.Parameter{Name: string(x.Name), Value: string(x.Value)}, Variable: x.Variable, Remove: x.Remove})
	}
	return changes, a.Digest, nil
}
