package command

import (
	"errors"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/submit"
)

// verified asks for the verifiers of a job to run, or applies their corrections to the job. It
// reports whether to continue.
func (x *call) verified(r *submit.Request, programs []string) bool {
	if len(programs) == 0 {
		return true
	}
	if x.in.Corrections == nil {
		x.result.Verify = &Verify{
			Programs: programs, Environment: r.Env,
			Parameters: r.Parameters(submit.Submitter{Context: "client", Command: x.in.Name, User: x.in.By.User, Group: x.in.By.Group, Host: x.hostName()}),
		}
		return false
	}
	if err := x.correct(r, x.in.Corrections); err != nil {
		x.refused(err)
		return false
	}
	return true
}

// correct corrects a request.
func (x *call) correct(r *submit.Request, corrections []submit.Correction) error {
	unknown, err := r.Correct(corrections)
	if e, ok := errors.AsType[*submit.Error](err); ok {
		return errors.New(e.Problem)
	}
	if err != nil {
		return err
	}
	for _, name := range unknown {
		x.warn("JSV sets the unknown parameter %q", name)
	}
	return nil
}

// submit submits a job after the site's verifier, if there is one, has checked it. The answer is
// nil if the verifier has to run first. As in Grid Engine, the verifier does not get jobs that
// would be refused in any case, or that are only tried (-w v).
func (x *call) submit(r *submit.Request) (*cell.Answer, error) {
	if x.in.Confirming && x.in.Confirmation == nil {
		x.result.Confirm = true
		return nil, nil
	}
	if x.in.Verdicts == nil {
		if err := x.confirmed(r); err != nil {
			return nil, err
		}
	}
	if !x.judging() {
		return x.cell.Submit(x.now, x.caller(), x.inCellZone(r))
	}
	if x.in.Verdicts == nil {
		a, err := x.cell.Examine(x.now, x.caller(), x.inCellZone(r))
		if err != nil || a.ID == 0 {
			return a, err
		}
		x.result.Actions = append(x.result.Actions, a.Actions...)
		x.requestVerification(a.ID, 0, r)
		return nil, nil
	}
	v := x.in.Verdicts[0]
	if v.Err == nil {
		v.Err = x.correct(r, v.Corrections)
	}
	if v.Err == nil && x.in.Confirming && x.digest(r) != v.Digest {
		v.Err = errors.New("job rejected: the launcher and the daemon do not agree about the changes that the jsv_url made")
	}
	if v.Err != nil {
		return nil, v.Err
	}
	return x.cell.SubmitAs(x.now, x.caller(), x.inCellZone(r), v.Number)
}

// judging reports whether the site's verifier checks jobs.
func (x *call) judging() bool { return x.in.Judging && x.cell.Cluster().Global().JSVURL != "" }

// requestVerification asks the caller to have the site's verifier check a job.
func (x *call) requestVerification(number, copied uint32, r *submit.Request) {
	j := Judge{
		Number: number, Copied: copied, Environment: r.Env,
		Parameters: r.Parameters(submit.Submitter{Context: "server", Command: "qmaster", User: x.in.By.User, Group: x.in.By.Group, Host: x.hostName(), Job: number}),
	}
	if x.in.Confirming {
		by := x.caller()
		j.Verification = submission.VerificationOf(x.submits(r, by.Origin.Directory, by.Origin.Environment), r)
	}
	x.result.Judge = append(x.result.Judge, j)
}
