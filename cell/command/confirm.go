package command

import (
	"errors"
	"slices"

	"github.com/execd-project/execd/cell"
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

// Amendment is a job that is changed or copied, and that the user has to confirm to the launcher again.
type Amendment struct {
	Job uint32
	// UID is the owner, who has confirmed the job as it is: Key and Submission.
	UID        int
	Key        string
	Submission *submission.Submission
}

// Amended is the user's statement about such a job to the launcher.
type Amended struct {
	Job uint32 // that of the Amendment
	Confirmation
}

// Amend returns the submission after a change by a command line: a change by qalter, a copy by
// qresub. It returns nil for a line that has no such effect: what is wrong with it is for Run to
// say.
func Amend(in *Input, was *submission.Submission) *submission.Submission {
	next := *was
	switch in.Name {
	case "qalter":
		r, err := submit.ParseAlteration(in.submission(""))
		if err != nil || r.Help {
			return nil
		}
		next.Alter(r)
	case "qresub":
		next.Directory, next.Origin, next.Interactive = submission.Text(in.Dir), submission.Texts(submit.Origin(in.Environment)), false
	default:
		return nil
	}
	return &next
}

// same reports whether two submissions have the same digests.
func same(a, b *submission.Submission) bool {
	const key = "0" // any
	return a.Digest(key) == b.Digest(key)
}

// submitted describes a job of the cell with a request.
func (x *call) submitted(j *cell.Job, r *submit.Request) *submission.Submission {
	of, origin := submission.Of, cell.Origin{}
	if x.in.IsSession != nil && x.in.IsSession(j.ID()) {
		of = submission.OfInteractive
	}
	if j.Origin != nil {
		origin = *j.Origin
	}
	s := of(r, origin.Directory, origin.Environment)
	if sum, is := j.ScriptBeside(); is {
		s.Script = sum
	}
	return s
}

// amendment asks for the confirmation of a job that is changed or copied.
func (x *call) amendment(j *cell.Job) {
	a := Amendment{Job: j.ID(), Key: j.Submission, Submission: x.submitted(j, j.Request())}
	if j.Origin != nil {
		a.UID = j.Origin.UID
	}
	x.result.Confirm, x.result.Amend = true, append(x.result.Amend, a)
}

// mayAmend reports whether the caller can confirm a change of a job: the owner, or root.
func (x *call) mayAmend(j *cell.Job) bool {
	by := x.caller().Origin
	return by != nil && by.UID == 0 || x.owns(j)
}

// owns reports whether the caller is the owner of a job.
func (x *call) owns(j *cell.Job) bool {
	by := x.caller().Origin
	return by != nil && j.Origin != nil && by.UID == j.Origin.UID
}

// Why jobs are not changed or copied.
var (
	errAmended  = errors.New("denied: it is not what the command has told the launcher of: the job has changed meanwhile, or the site has a jsv_url that changes jobs")
	errNotOwner = errors.New("denied: with --front-user only the owner of a job or root can change what the job runs, its environment, files or limits")
	errNotOwn   = errors.New("denied: with --front-user only the owner of a job can copy it")
)

// altering looks for jobs that qalter changes so that the user has to confirm them, and changes nothing.
func (x *call) altering(j *cell.Job, is *submit.Request) (string, error) {
	if x.mayAmend(j) && !same(x.submitted(j, j.Request()), x.submitted(j, is)) {
		x.amendment(j)
	}
	return "", errAmended
}

// altered refuses a change that the user has not confirmed.
func (x *call) altered(j *cell.Job, is *submit.Request) (string, error) {
	next := x.submitted(j, is)
	switch {
	case same(x.submitted(j, j.Request()), next):
		return j.Submission, nil
	case !x.mayAmend(j):
		return "", errNotOwner
	}
	return x.amended(j, next)
}

// copied refuses a copy that the user has not confirmed.
func (x *call) copied(j *cell.Job, is *submit.Request) (string, error) {
	by := x.caller().Origin
	if !x.owns(j) {
		return "", errNotOwn
	}
	next := submission.Of(is, by.Directory, by.Environment)
	if sum, beside := j.ScriptBeside(); beside && is.Script == nil {
		next.Script = sum
	}
	return x.amended(j, next)
}

// amended uses up a confirmation of a job.
func (x *call) amended(j *cell.Job, next *submission.Submission) (string, error) {
	i := slices.IndexFunc(x.in.Amended, func(a Amended) bool {
		return a.Job == j.ID() && submission.ValidKey(a.Key) && next.Digest(a.Key) == a.Digest
	})
	if i < 0 {
		return "", errAmended
	}
	key := x.in.Amended[i].Key
	x.in.Amended = slices.Delete(slices.Clone(x.in.Amended), i, i+1)
	return key, nil
}
