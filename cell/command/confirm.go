package command

import (
	"errors"

	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/submit"
)

// Confirmation is the user's statement about a job to the launcher.
type Confirmation struct {
	Key, Digest string // see package internal/submission
}

// Submission returns the job that a command line submits, as Run reads the line, and the digest of
// the job under a key. If the line submits no job, the digest is empty, and Run reports the error.
func Submission(in *Input, key string) string {
	x := &call{in: in, self: table(in.Name)}
	var request *submit.Request
	kind, ok := map[string]submit.Commands{"qsub": submit.Qsub, "qrsh": submit.Qrsh, "qlogin": submit.Qlogin}[in.Name]
	if !ok {
		return ""
	}
	s := in.submission(submitRequest)
	var verifiers []string
	s.Command, s.Verifiers, s.Manner = kind, &verifiers, &x.manner
	request, err := submit.Parse(s)
	if err == nil && in.Corrections != nil {
		err = x.correct(request, in.Corrections)
	}
	if err != nil {
		return ""
	}
	if kind != submit.Qsub {
		request = x.wrapped(request)
	}
	return x.submits(request, in.Dir, submit.Origin(in.Environment)).Digest(key)
}

// submits describes the job that the command submits.
func (x *call) submits(r *submit.Request, dir string, origin []string) *submission.Submission {
	if x.isInteractive() {
		return submission.OfInteractive(r, dir, origin)
	}
	return submission.Of(r, dir, origin)
}

// confirmed refuses a job that is not the one that the user has confirmed.
func (x *call) confirmed(r *submit.Request) error {
	if !x.in.Confirming {
		return nil
	}
	c, by := x.in.Confirmation, x.caller()
	if c == nil || !submission.ValidKey(c.Key) || x.submits(r, by.Origin.Directory, by.Origin.Environment).Digest(c.Key) != c.Digest {
		return errors.New("job rejected: it is not the job that the command has told the launcher of; if the site has a jsv_url that changes jobs, remove it, and if the default options were just changed, submit the job again")
	}
	return nil
}

// errConfirmed is why a job is not altered.
var errConfirmed = errors.New("denied: with --front-user, qalter cannot change what the job runs, its environment, files or limits; delete the job and submit it again")

// alters refuses changes of values that users confirm to the launcher.
func alters(was, is *submit.Request) error {
	const key = "0" // any
	if submission.Of(was, "", nil).Digest(key) != submission.Of(is, "", nil).Digest(key) {
		return errConfirmed
	}
	return nil
}
