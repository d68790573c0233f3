package command

import (
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/submit"
)

// qmod is qmod(1).
var qmod = command{name: "qmod", usage: "[options]", column: 28, complaint: complaint{usage: true}, run: (*call).qmod, options: []option{
	{name: "-c", long: "--clear", args: "job_wc_queue_list", rest: true, help: "clear error state"},
	{name: "-cj", long: "--clearjob", args: "job_list", rest: true, help: "clear job error state"},
	{name: "-cq", long: "--clearqueue", args: "wc_queue_list", rest: true, help: "clear queue error state"},
	{name: "-d", long: "--disable", args: "wc_queue_list", rest: true, help: "disable"},
	{name: "-e", long: "--enable", args: "wc_queue_list", rest: true, help: "enable"},
	{name: "-f", long: "--force", help: "force action"},
	{name: "-help", long: "--help", help: "print this help"},
	{name: "-r", long: "--reschedule", args: "job_wc_queue_list", rest: true, help: "reschedule jobs (running in queue)"},
	{name: "-rj", long: "--reschedulejob", args: "job_list", rest: true, help: "reschedule jobs"},
	{name: "-rq", long: "--reschedulequeue", args: "wc_queue_list", rest: true, help: "reschedule all jobs in a queue"},
	{name: "-s", long: "--suspend", args: "job_wc_queue_list", rest: true, help: "suspend"},
	{name: "-sj", long: "--suspendjob", args: "job_list", rest: true, help: "suspend jobs"},
	{name: "-sq", long: "--suspendqueue", args: "wc_queue_list", rest: true, help: "suspend queues"},
	{name: "-us", long: "--unsuspend", args: "job_wc_queue_list", rest: true, help: "unsuspend"},
	{name: "-usj", long: "--unsuspendjob", args: "job_list", rest: true, help: "unsuspend jobs"},
	{name: "-usq", long: "--unsuspendqueue", args: "wc_queue_list", rest: true, help: "unsuspend queues"},
	tasksOption,
}}

// The effects of qmod's options. Some options apply to queues and to jobs.
var (
	queueOperations = map[string]cell.QueueOperation{
		"-d": cell.DisableQueue, "-e": cell.EnableQueue, "-s": cell.SuspendQueue, "-sq": cell.SuspendQueue,
		"-us": cell.UnsuspendQueue, "-usq": cell.UnsuspendQueue, "-c": cell.ClearQueueError, "-cq": cell.ClearQueueError,
		"-r": cell.RescheduleQueue, "-rq": cell.RescheduleQueue,
	}
	jobOperations = map[string]cell.JobOperation{
		"-s": cell.SuspendJob, "-sj": cell.SuspendJob, "-us": cell.UnsuspendJob, "-usj": cell.UnsuspendJob,
		"-c": cell.ClearJobError, "-cj": cell.ClearJobError, "-r": cell.RescheduleJob, "-rj": cell.RescheduleJob,
	}
)

func (x *call) qmod() {
	l, err := parse(x.self.all(), x.in.Args)
	switch {
	case !x.usable(l, err):
		return
	case len(l.given) == 0 && len(l.operands) == 0:
		x.nothing()
		return
	case len(l.operands) > 0:
		x.noOperands(l)
		return
	}
	for i := range l.given {
		g := &l.given[i]
		if len(g.values) == 0 && g.name != "-f" {
			x.usageError(&optionError{word: g.name, missing: true})
			return
		}
		if len(g.values) > 0 && g.values[0] == "" {
			x.usageError(&optionError{word: g.name, empty: true})
			return
		}
	}
	for _, g := range l.given {
		if g.name != "-f" {
			x.modify(g.name, g.values, l.has("-f"))
		}
	}
}

// modify carries out one option of qmod, first for jobs and then for queues (tested).
func (x *call) modify(option string, operands []string, force bool) {
	queueOperation, forQueues := queueOperations[option]
	jobOperation, forJobs := jobOperations[option]
	var jobWords, references []string
	for i := 0; i < len(operands); i++ {
		switch o := operands[i]; {
		case o == "-t":
			jobWords = append(jobWords, operands[i:min(i+2, len(operands))]...)
			i++
		case forJobs && (!forQueues || isJobs(o)):
			jobWords = append(jobWords, o)
		default:
			references = append(references, list(o)...)
		}
	}
	if jobWords != nil {
		jobs, ok := x.jobs(jobWords)
		if !ok {
			return
		}
		x.modified(x.cell.ModifyJobs(x.now, x.in.By, jobOperation, jobs, force))
	}
	if len(references) > mostListed {
		x.fail(1, "qmod: %d queues are too many, at most %d are looked for at once", len(references), mostListed)
		return
	}
	if references != nil {
		a := x.cell.ModifyQueues(x.now, x.in.By, queueOperation, references, force)
		if option == "-s" || option == "-us" {
			for i := range a.Events {
				if a.Events[i].Kind == cell.NoSuchQueue {
					a.Events[i].Kind = cell.NoSuchQueueOrJob
				}
			}
		}
		x.modified(a)
	}
}

// isJobs reports whether an operand of qmod is a list of job numbers.
func isJobs(o string) bool {
	if o != "" && strings.Trim(o, "0123456789") == "" {
		return true // 0, too, which is refused
	}
	jobs, err := submit.ParseJobRanges([]string{o})
	for _, j := range jobs {
		if strings.Trim(j.Job, "0123456789") != "" {
			return false
		}
	}
	return err == nil
}

// modified prints an answer. It is not a failure if the object already has the state, or if the
// state of a task does not allow the change (tested).
func (x *call) modified(a *cell.Answer) {
	exit := x.result.Exit
	x.answer(a)
	x.result.Exit = exit
	for _, e := range a.Events {
		switch e.Kind {
		case cell.NoSuchQueue, cell.NoSuchQueueOrJob, cell.NotInErrorState, cell.MayNotModify, cell.MayNotModifyQueue, cell.MayNotReschedule:
			x.result.Exit = 1
		}
	}
}
