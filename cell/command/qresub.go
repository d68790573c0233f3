package command

import (
	"slices"
	"strconv"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/submit"
)

// qresub is qresub(1).
var qresub = command{name: "qresub", usage: "[options] job_id_list", complaint: submitComplaint, run: (*call).qresub, options: []option{
	{name: "-h", args: "hold_list", values: 1, help: "assign holds for jobs or tasks"},
	{name: "-help", help: "print this help"},
	tasksOption,
}}

func (x *call) qresub() {
	l, ok := x.jobLine()
	if !ok {
		return
	}
	var holds submit.HoldChange
	if letters, ok := l.last("-h"); ok {
		var err error
		if holds, err = submit.ParseHolds(letters); err != nil {
			x.fail(exitValue, "qalter: Unknown hold list %q specified to -h option", letters)
			return
		}
	}
	jobs, ok := x.jobs(l.operands)
	if !ok {
		return
	}
	if slices.ContainsFunc(jobs, func(j submit.JobRange) bool { return j.Tasks != nil }) {
		x.fail(exitStdin, notOfTasks)
		return
	}
	if len(jobs) == 0 {
		x.nothing()
		return
	}
	by := x.caller()
	if x.in.Confirming {
		if x.judging() {
			x.fail(exitStdin, "%s", errCopyVerified)
			return
		}
		if !x.copiedOnce(jobs) || x.in.Amended == nil && x.copies(jobs) {
			return
		}
		by.Confirms = x.copied
	}
	verified, ok := x.verifiedCopies(jobs)
	if !ok {
		return
	}
	a := x.cell.Resubmit(x.now, by, jobs, holds, verified)
	x.result.Job = a.ID
	x.answer(a)
	if x.result.Exit != 0 {
		x.result.Exit = exitStdin
		if slices.ContainsFunc(a.Events, tooMany) {
			x.result.Exit = exitLimit
		}
		if slices.ContainsFunc(x.in.Verdicts, func(v Verdict) bool { return v.Err != nil }) {
			x.result.Exit = exitVerifier
		}
	}
}

// copiedOnce refuses to copy a job twice: each copy needs a confirmation of its own.
func (x *call) copiedOnce(jobs []submit.JobRange) bool {
	named := make(map[uint64]bool, len(jobs))
	for _, r := range jobs {
		id, err := strconv.ParseUint(r.Job, 10, 32)
		if err == nil && named[id] {
			x.fail(exitStdin, "denied: job %d is named twice: with --front-user a command makes one copy of a job", id)
			return false
		}
		named[id] = true
	}
	return true
}

// copies asks for the confirmation of copies. It reports whether the command ends with that.
func (x *call) copies(jobs []submit.JobRange) bool {
	for _, r := range jobs {
		if x.amending.err != nil {
			break
		}
		id, err := strconv.ParseUint(r.Job, 10, 32)
		if j := x.cell.Job(uint32(id)); err == nil && j != nil && x.owns(j) {
			x.amendment(j)
		}
	}
	return x.asks()
}

// exitVerifier is for a copy that the verifier of the site refuses (tested).
const exitVerifier = 20

// verifiedCopies returns the copies with the changes of the site's verifier. It reports whether to
// continue: the verifier may have to run first.
func (x *call) verifiedCopies(jobs []submit.JobRange) (map[uint32]cell.Verified, bool) {
	if !x.judging() {
		return nil, true
	}
	if x.in.Verdicts == nil {
		for _, r := range cell.CopyOrder(jobs) {
			id, err := strconv.ParseUint(r.Job, 10, 32)
			j := x.cell.Job(uint32(id))
			if err != nil || j == nil {
				break
			}
			x.requestVerification(x.cell.TakeNumber(), j.ID(), j.Copied())
		}
		return nil, len(x.result.Judge) == 0
	}
	verified := map[uint32]cell.Verified{}
	for _, v := range x.in.Verdicts {
		c := cell.Verified{Number: v.Number, Err: v.Err}
		if j := x.cell.Job(v.Copied); j != nil && c.Err == nil {
			c.Request = j.Copied()
			c.Err = x.correct(c.Request, v.Corrections)
		}
		verified[v.Copied] = c
	}
	return verified, true
}
