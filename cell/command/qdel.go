package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/submit"
)

// qdel is qdel(1).
var qdel = command{name: "qdel", usage: "[options] job_task_list", run: (*call).qdel, options: []option{
	{name: "-f", help: "force action"},
	{name: "-help", help: "print this help"},
	{name: "-u", args: "user_list", values: 1, help: "delete all jobs of users specified in list"},
	tasksOption,
}}

// tasksOption is -t, which belongs to the job before it.
var tasksOption = option{name: "-t", args: "task_id_range", values: 1, operand: true, help: "these tasks of the job in front"}

func (x *call) qdel() {
	_, err := parse(x.self.all(), x.in.Args)
	if e, ok := errors.AsType[*optionError](err); ok && !e.missing {
		// An unknown option counts as a job that does not exist (tested).
		x.say("The job %s of user(s) %s does not exist", e.word, x.in.By.User)
		x.result.Exit = 1
		x.hint(e)
		return
	}
	if n := len(x.in.Args); n > 0 && x.in.Args[n-1] == "-u" {
		x.nothingToDelete()
		return
	}
	l, ok := x.jobLine()
	if !ok {
		return
	}
	jobs, ok := x.jobs(l.operands)
	if !ok {
		return
	}
	r := cell.DeleteRequest{Jobs: jobs, Users: l.lists("-u"), Force: l.has("-f")}
	if len(r.Jobs) == 0 && len(r.Users) == 0 {
		x.nothingToDelete()
		return
	}
	x.answer(x.cell.Delete(x.now, x.in.By, r))
}

// nothingToDelete prints the error about a qdel that names no job, on standard output as the original
// does.
func (x *call) nothingToDelete() {
	x.say("ERROR! no option argument")
	x.stderr.lines(x.self.text())
	x.result.Exit = 1
}

// jobLine parses a command line that ends with a list of jobs; -t keeps its position in the list.
// ok is false after -help or an error.
func (x *call) jobLine() (l *line, ok bool) {
	l, err := parse(x.self.all(), x.in.Args)
	return l, x.usable(l, err)
}

// nothing prints an error about a command line that names no object.
func (x *call) nothing() {
	x.stderr.lines(x.self.text())
	x.fail(1, "ERROR! no option argument")
}

// jobs returns the jobs that operands name, with ranges of tasks.
func (x *call) jobs(operands []string) ([]submit.JobRange, bool) {
	asQalter := x.self.complaint == submitComplaint
	if i := slices.IndexFunc(operands, func(o string) bool { return len(list(o)) == 0 }); asQalter && i >= 0 {
		x.badJobs(&submit.Error{Value: operands[i], Kind: submit.NoJobs})
		return nil, false
	}
	jobs, err := submit.ParseJobRanges(operands)
	if err == nil {
		return jobs, true
	}
	if e, ok := errors.AsType[*submit.Error](err); ok {
		x.badJobs(e)
		return nil, false
	}
	lonely := len(operands) > 1 && operands[0] == "-t"
	const text = "found lonely '-t %s' option (The -t option needs a leading job name)."
	switch {
	case lonely && asQalter:
		x.fail(exitUsage, text, operands[1])
	case lonely:
		x.fail(1, "error: "+text, operands[1])
	case asQalter && strings.HasPrefix(err.Error(), "The initial portion"):
		x.warn("%sNumerical value invalid!", x.self.complaint.prefix)
		x.fail(exitValue, "%s", err)
	default:
		x.fail(1, "error: %s: %s", strings.Join(operands, " "), err)
	}
	return nil, false
}

// badJobs prints an error about an invalid list of jobs.
func (x *call) badJobs(e *submit.Error) {
	const identifier = "ERROR! %q is an invalid job-task identifier"
	switch {
	case e.Kind == submit.NoJobs:
		x.fail(exitValue, "qalter: Wrong job id list format %q specified", e.Value)
	case x.in.Name == "qdel":
		x.fail(1, "error: "+identifier, e.Value)
	case x.in.Name == "qmod":
		x.fail(1, identifier, e.Value)
	default:
		x.fail(exitUsage, identifier, e.Value)
	}
}
