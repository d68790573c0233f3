package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/submit"
)

// qalter is qalter(1).
var qalter = command{name: "qalter", derived: submitOptions(submit.Qalter), usage: "[options] {job_task_list | -u user_list} [- job_args]", run: (*call).qalter, needs: needsAlteration}

// needsAlteration finds the files that -@ of qalter names, which the manual does not mention (tested).
func needsAlteration(in *Input, w *wanted) {
	// Run reports errors in the options.
	_, _ = submit.ParseAlteration(in.collecting("", w))
}

func (x *call) qalter() {
	if len(x.in.Args) == 0 {
		x.nothing()
		return
	}
	r, err := submit.ParseAlteration(x.in.submission(""))
	if e, ok := errors.AsType[*submit.Error](err); ok && e.Kind == submit.NoChange {
		x.unchanged()
		return
	}
	if err != nil {
		x.submitError(err)
		return
	}
	if r.Help {
		x.help()
		return
	}
	inTasks := slices.ContainsFunc(r.Jobs, func(j submit.JobRange) bool { return j.Tasks != nil })
	if inTasks && slices.ContainsFunc(r.Options, func(o string) bool { return o != "-h" }) {
		x.fail(exitStdin, notOfTasks)
		return
	}
	if r.Request.DryRun {
		x.describeAlteration(r)
		return
	}
	r.Request = *x.inCellZone(&r.Request)
	by := x.in.By
	if x.in.Confirming {
		if x.in.Amended == nil {
			by.Confirms = x.altering
			x.cell.Alter(x.now, by, r) // all is refused
			if x.asks() {
				return
			}
		}
		by.Confirms = x.altered
	}
	x.answer(x.cell.Alter(x.now, by, r))
}

const notOfTasks = "denied: the selected option works only on jobs and not on tasks"

// unchanged runs qalter with jobs and no option: it prints the jobs that do not exist (tested).
func (x *call) unchanged() {
	jobs, _ := submit.ParseJobRanges(x.in.Args)
	if slices.ContainsFunc(jobs, func(j submit.JobRange) bool { return j.Tasks != nil }) {
		x.fail(exitStdin, notOfTasks)
		return
	}
	for _, j := range jobs {
		if found, _ := x.named([]string{j.Job}); len(found) == 0 && j.Job != "-u" {
			x.say("denied: job %q does not exist", j.Job)
			x.result.Exit = 1
		}
	}
}

// describeAlteration runs qalter -verify: it prints the changes for each job and applies none.
func (x *call) describeAlteration(r *submit.Alteration) {
	jobs := make([]string, len(r.Jobs))
	for i, j := range r.Jobs {
		jobs[i] = j.Job
	}
	x.say("job_name:                   :%s:", strings.Join(append(jobs, r.Users...), ","))
	request := r.Request
	request.Context = r.ChangeContext(nil)
	d := x.requested(&request)
	text := string(qstat.AppendDetails(nil, []qstat.JobDetail{d}, qstat.DetailOptions{Zone: x.zone}))
	shown := map[string]bool{}
	for _, o := range r.Options {
		for _, name := range shownFor[o] {
			shown[name] = true
		}
	}
	for l := range strings.Lines(text) {
		if name, _, _ := strings.Cut(l, ":"); shown[name] {
			x.stdout.lines(l)
		}
	}
	x.say("")
}

// shownFor are the lines of qstat -j that show the changes of each option of qalter.
var shownFor = map[string][]string{
	"-a": {"execution_time"}, "-ac": {"context"}, "-dc": {"context"}, "-sc": {"context"}, "-A": {"account"}, "-ar": {"ar_id"},
	"-binding": {"binding"}, "-c": {"checkpoint_attr", "checkpoint_interval"}, "-ckpt": {"checkpoint_object"}, "-cwd": {"cwd"}, "-wd": {"cwd"},
	"-dl": {"deadline"}, "-e": {"stderr_path_list"}, "-o": {"stdout_path_list"}, "-i": {"stdin_path_list"},
	"-hold_jid": {"jid_predecessor_list (req)"}, "-hold_jid_ad": {"ja_ad_predecessor_list (req)"}, "-j": {"merge"}, "-js": {"jobshare"},
	"-l": {"hard resource_list", "soft resource_list"}, "-m": {"mail_options"}, "-M": {"mail_list"}, "-masterq": {"master hard queue_list"},
	"-notify": {"notify"}, "-N": {"job_name"}, "-P": {"project"}, "-p": {"priority"}, "-pe": {"parallel environment"},
	"-q": {"hard_queue_list", "soft_queue_list"}, "-R": {"reserve"}, "-r": {"restart"}, "-S": {"shell_list"}, "-v": {"env_list"}, "-V": {"env_list"},
}
