package agent

import (
	"slices"

	"github.com/execd-project/execd/job"
)

// ownSteps are the procedures around a job, with the codes of sge_status(5) by which their
// failures put the queue into error state, and the code of the same failure as the job's.
var ownSteps = []struct {
	attribute string
	command   func(*job.Description) string
	queues    []job.Failed
	jobs      job.Failed
	before    bool // it comes before the job
}{
	{"prolog", func(d *job.Description) string { return d.Prolog }, []job.Failed{job.FailedProlog}, job.FailedAppError, true},
	{"start_proc_args", peStart, []job.Failed{job.FailedBeforePEStart, job.FailedPEStart}, job.FailedAppError, true},
	{"stop_proc_args", peStop, []job.Failed{job.FailedPEStop}, job.FailedBeforePEStop, false},
	{"epilog", func(d *job.Description) string { return d.Epilog }, []job.Failed{job.FailedEpilog}, job.FailedBeforeEpilog, false},
}

func peStart(d *job.Description) string {
	if d.PE == nil {
		return ""
	}
	return d.PE.Start
}

func peStop(d *job.Description) string {
	if d.PE == nil {
		return ""
	}
	return d.PE.Stop
}

// procedureEnds remembers how procedures have ended that ran as the owners of their jobs.
//
// A job owner can make such a procedure exit with any status: by tracing it, by ending a process
// that it waits for, or by filling a quota that it needs. So a failure for one owner does not count
// against the queue while the procedure succeeds for another owner. Failures for two owners,
// without a success in between, do. If no other owner has had a job, a failure counts against the
// queue, as queue_conf(5) says.
type procedureEnds map[procedureKey][]procedureEnd

type procedureKey struct{ queue, attribute, command string }

// procedureEnd is the last result of a procedure for an owner. At most two are stored for a
// procedure: the last one, and the last one for another owner.
type procedureEnd struct {
	owner  string
	passed bool
}

func (p procedureEnds) note(k procedureKey, owner string, passed bool) {
	list := slices.DeleteFunc(p[k], func(e procedureEnd) bool { return e.owner == owner })
	list = append([]procedureEnd{{owner, passed}}, list...)
	p[k] = list[:min(len(list), 2)]
}

// others reports whether the procedure's last run for another owner succeeded.
func (p procedureEnds) others(k procedureKey, owner string) bool {
	for _, e := range p[k] {
		if e.owner != owner {
			return e.passed
		}
	}
	return false
}

// began notes that the procedures before a job have succeeded.
func (p procedureEnds) began(d *job.Description) {
	for _, s := range ownSteps {
		if k, own := ownStep(d, s.attribute, s.command(d)); own && s.before {
			p.note(k, d.Owner, true)
		}
	}
}

// attributeFailure notes how the procedures of a job have ended. It attributes a failure to the job
// instead of the queue if the owner of the job can have caused it.
func (p procedureEnds) attributeFailure(d *job.Description, o *job.Outcome) {
	for _, s := range ownSteps {
		k, own := ownStep(d, s.attribute, s.command(d))
		switch {
		case !own:
		case slices.Contains(s.queues, o.Failed):
			if p.others(k, d.Owner) {
				f := job.FailureOf(s.jobs)
				o.Failed, o.Class, o.Effect, o.ByOwner = f.Code, f.Class, f.Effect, true
				o.Reason += "; it ran as the owner of the job, and has succeeded for another owner: no error of the queue"
			}
			p.note(k, d.Owner, false)
			return
		case o.Failed == job.FailedNone && o.Ran && !s.before:
			p.note(k, d.Owner, true)
		}
	}
}

// ownStep reports whether a procedure runs as the owner of the job.
func ownStep(d *job.Description, attribute, command string) (procedureKey, bool) {
	user, _ := job.Procedure(command)
	return procedureKey{d.Queue, attribute, command}, command != "" && (user == "" || user == d.Owner)
}
