package launcher

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/execd-project/execd/internal/submission"
)

// submitted is the submission of the owner of a job, according to the front.
type submitted struct {
	Key  string
	Text []byte // the submission.Submission in the compact form
}

func newSubmitted(key string, s *submission.Submission) (*submitted, error) {
	text, err := toCompact(nil, s)
	return &submitted{key, text}, err
}

// mostKnown and mostKnownText limit the memory of knownSubmissions.
const (
	mostKnown     = 4
	mostKnownText = 16 << 10 // bytes of a submission
)

// knownSubmissions are the last submissions of array jobs, so that the text of each is read and its digest is computed once
// and not for each task. They are safe to use because the result depends on key and text only, and both are compared.
type knownSubmissions struct {
	mu   sync.Mutex
	list []*knownSubmission // the last one first
}

type knownSubmission struct {
	submitted
	submission *submission.Submission // is not changed
	digest     string
}

// read returns a submission, which must not be changed, and its digest.
func (k *knownSubmissions) read(s *submitted) (*submission.Submission, string, error) {
	if known := k.find(s); known != nil {
		return known.submission, known.digest, nil
	}
	of := &submission.Submission{}
	if err := fromCompact(s.Text, of); err != nil {
		return nil, "", fmt.Errorf("the submission: %w", err)
	}
	digest := of.Digest(s.Key)
	if of.Array != nil && len(s.Text) <= mostKnownText {
		k.add(&knownSubmission{submitted{s.Key, slices.Clone(s.Text)}, of, digest})
	}
	return of, digest, nil
}

func (k *knownSubmissions) find(s *submitted) *knownSubmission {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, known := range k.list {
		if known.Key == s.Key && bytes.Equal(known.Text, s.Text) {
			copy(k.list[1:], k.list[:i])
			k.list[0] = known
			return known
		}
	}
	return nil
}

func (k *knownSubmissions) add(known *knownSubmission) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) < mostKnown {
		k.list = append(k.list, nil)
	}
	copy(k.list[1:], k.list)
	k.list[0] = known
}
