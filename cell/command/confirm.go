package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/submit"
)

// Confirmation is the user's statement about a job to the launcher.
type Confirmation struct {
	Key, Digest string // see package internal/submission
}

// Submission reads a command line as Run does. It returns the digests of the job that the line submits under a key:
// digest is that of its submission, and verification that of its submission.Verification. If the line submits no
// job, the digests are empty, and Run reports the error.
func Submission(in *Input, key string) (digest, verification string) {
	x := &call{in: in, self: table(in.Name)}
	var request *submit.Request
	kind, ok := submitting[in.Name]
	if !ok {
		return "", ""
	}
	s := in.submission(submitRequest)
	var verifiers []string
	s.Command, s.Verifiers, s.Manner = kind, &verifiers, &x.manner
	request, err := submit.Parse(s)
	if err == nil && in.Corrections != nil {
		err = x.correct(request, in.Corrections)
	}
	if err != nil {
		return "", ""
	}
	if kind != submit.Qsub {
		request = x.wrapped(request)
	}
	is := x.submits(request, in.Dir, submit.Origin(in.Environment))
	return is.Digest(key), submission.VerificationOf(is, request).Digest(key)
}

// Verifiers reads a command line as Run does, and returns the verifiers (-jsv) that the command line, its script and the files
// with default options name. They are empty for a line that submits no job or has an error.
func Verifiers(in *Input) []string {
	kind, ok := submitting[in.Name]
	if !ok {
		return nil
	}
	s := in.submission(submitRequest)
	var programs []string
	var manner submit.Manner
	s.Command, s.Verifiers, s.Manner = kind, &programs, &manner
	if _, err := submit.Parse(s); err != nil {
		return nil
	}
	return programs
}

// submitting are the commands that submit jobs.
var submitting = map[string]submit.Commands{"qsub": submit.Qsub, "qrsh": submit.Qrsh, "qlogin": submit.Qlogin}

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
	c := x.in.Confirmation
	if c == nil || !submission.ValidKey(c.Key) || x.digest(r) != c.Digest {
		return errors.New("job rejected: the command has confirmed another job to the launcher; if the default options were just changed, submit the job again")
	}
	return nil
}

// digest returns the digest of a job under the key of the user's confirmation.
func (x *call) digest(r *submit.Request) string {
	by := x.caller()
	return x.submits(r, by.Origin.Directory, by.Origin.Environment).Digest(x.in.Confirmation.Key)
}

// Amendment is a job that is changed or copied, and that the user has to confirm to the launcher again.
type Amendment struct {
	Job uint32
	// UID is the owner, who has confirmed the job as it is: Key and Submission, which is in JSON.
	UID        int
	Key        string
	Submission []byte
}

// The jobs that one command changes or copies and the user has to confirm are at most MostAmended, and several have
// together at most mostAmendedBytes of submissions in JSON: meanwhile all other users wait.
const (
	MostAmended      = 4096
	mostAmendedBytes = 8 << 20
)

// amending is the state of a command that changes or copies jobs with confirmations.
type amending struct {
	found       map[uint32]amended // by job: a command may name one again and again
	jobs, bytes int                // of which text was made of the submissions
	err         error              // why no more is made
}

// amended is the result of checking a change of a job: the key of the confirmed submission, or the
// reason for refusing the change.
type amended struct {
	key string
	err error
}

// text returns a submission in JSON, if the bounds permit it.
func (a *amending) text(s *submission.Submission) ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	a.jobs++
	a.bytes += len(text)
	if a.jobs > MostAmended || a.jobs > 1 && a.bytes > mostAmendedBytes {
		a.err = fmt.Errorf("denied: %d jobs with %d bytes would have to be confirmed to the launcher, at most %d jobs with %d bytes are possible at once: name fewer jobs", a.jobs, a.bytes, MostAmended, mostAmendedBytes)
	}
	return text, a.err
}

// Amend returns the submission after a change by a command line: a change by qalter, a copy by
// qresub. It returns nil for a line that has no such effect; Run reports what is wrong with it.
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

// Named returns the numbers of the jobs that a command line names. only is false if it names others too, by a name, a
// pattern or their owner. A line that neither changes nor copies jobs names none.
func Named(in *Input) (jobs map[uint32]bool, only bool) {
	var list []submit.JobRange
	jobs = map[uint32]bool{}
	switch in.Name {
	case "qalter":
		r, err := submit.ParseAlteration(in.submission(""))
		if err != nil {
			return jobs, true
		}
		list, only = r.Jobs, len(r.Jobs) > 0
	case "qresub":
		l, err := parse(table(in.Name).all(), in.Args)
		if err != nil {
			return jobs, true
		}
		list, _ = submit.ParseJobRanges(l.operands)
		only = true // qresub copies no job by its name
	default:
		return jobs, true
	}
	for _, j := range list {
		id, err := strconv.ParseUint(j.Job, 10, 32)
		if err == nil {
			jobs[uint32(id)] = true
		}
		only = only && (err == nil || in.Name == "qresub")
	}
	return jobs, only
}

// submitted describes a job of the cell with a request.
func (x *call) submitted(j *cell.Job, r *submit.Request) *submission.Submission {
	return Submitted(j, r, x.in.IsSession != nil && x.in.IsSession(j.ID()))
}

// Submitted describes what the owner of a job of the cell has submitted, with a request, which need not be that of the job.
// session says that the job is interactive.
func Submitted(j *cell.Job, r *submit.Request, session bool) *submission.Submission {
	of, origin := submission.Of, cell.Origin{}
	if session {
		of = submission.OfInteractive
	}
	if j.Origin != nil {
		origin = *j.Origin
	}
	s := of(r, origin.Directory, origin.Environment)
	if sum, is := j.SeparateScript(); is {
		s.Script = sum
	}
	return s
}

// amendment asks for the confirmation of a job that is changed or copied.
func (x *call) amendment(j *cell.Job) {
	text, err := x.amending.text(x.submitted(j, j.Request()))
	if err != nil {
		return
	}
	a := Amendment{Job: j.ID(), Key: j.Submission, Submission: text}
	if j.Origin != nil {
		a.UID = j.Origin.UID
	}
	x.result.Amend = append(x.result.Amend, a)
}

// asks reports whether the command ends with the question for confirmations, or because there would be too many.
func (x *call) asks() bool {
	if err := x.amending.err; err != nil {
		x.result.Amend = nil
		x.fail(exitStdin, "%s", err)
		return true
	}
	x.amending = amending{}
	x.result.Confirm = len(x.result.Amend) > 0
	return x.result.Confirm
}

// mayAmend reports whether the caller can confirm a change of a job: the owner, or root.
func (x *call) mayAmend(j *cell.Job) bool {
	by := x.in.By.Origin
	return by != nil && by.UID == 0 || x.owns(j)
}

// owns reports whether the caller is the owner of a job.
func (x *call) owns(j *cell.Job) bool {
	by := x.in.By.Origin
	return by != nil && j.Origin != nil && by.UID == j.Origin.UID
}

// Why jobs are not changed or copied.
var (
	errAmended  = errors.New("denied: the job has changed since the command confirmed it to the launcher")
	errEarlier  = errors.New("denied: an earlier job of the command differs from what the command confirmed to the launcher")
	errNotOwner = errors.New("denied: with --front-user only the owner of a job or root can change what the job runs, its environment, files or limits")
	errNotOwn   = errors.New("denied: with --front-user only the owner of a job can copy it")
	// errCopyVerified: the command cannot tell the launcher all parameters that the verifier would get.
	errCopyVerified = errors.New("denied: with --front-user jobs cannot be copied while the site has a jsv_url: submit the job again with qsub")
)

// altering looks for jobs that qalter changes so that the user has to confirm them, and changes nothing.
func (x *call) altering(j *cell.Job, is *submit.Request) (string, error) {
	return x.once(j, func() (string, error) {
		if x.amending.err == nil && x.mayAmend(j) && !reflect.DeepEqual(x.submitted(j, j.Request()), x.submitted(j, is)) {
			x.amendment(j)
		}
		return "", errAmended
	})
}

// altered refuses a change that the user has not confirmed.
func (x *call) altered(j *cell.Job, is *submit.Request) (string, error) {
	return x.once(j, func() (string, error) {
		next := x.submitted(j, is)
		switch {
		case reflect.DeepEqual(x.submitted(j, j.Request()), next):
			return j.Submission, nil
		case !x.mayAmend(j):
			return "", errNotOwner
		}
		return x.amended(j, next)
	})
}

// once decides about the change of a job once. The same change of the job that is changed already has the same key.
func (x *call) once(j *cell.Job, decide func() (string, error)) (string, error) {
	a, ok := x.amending.found[j.ID()]
	if !ok {
		a.key, a.err = decide()
		if x.amending.found == nil {
			x.amending.found = map[uint32]amended{}
		}
		x.amending.found[j.ID()] = a
	}
	return a.key, a.err
}

// copied refuses a copy that the user has not confirmed.
func (x *call) copied(j *cell.Job, is *submit.Request) (string, error) {
	by := x.caller().Origin
	if !x.owns(j) {
		return "", errNotOwn
	}
	next := submission.Of(is, by.Directory, by.Environment)
	if sum, separate := j.SeparateScript(); separate && is.Script == nil {
		next.Script = sum
	}
	return x.amended(j, next)
}

// amended returns the key of the confirmation of a job. After the first wrong digest it computes no other.
func (x *call) amended(j *cell.Job, next *submission.Submission) (string, error) {
	c, ok := x.in.Amended[j.ID()]
	if !ok || !submission.ValidKey(c.Key) {
		return "", errAmended
	}
	text, err := x.amending.text(next)
	if err != nil {
		return "", err
	}
	if submission.Digest(c.Key, text) != c.Digest {
		x.amending.err = errEarlier
		return "", errAmended
	}
	return c.Key, nil
}
