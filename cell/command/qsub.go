package command

import (
	"errors"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/submit"
)

// qsub is qsub(1).
var qsub = command{name: "qsub", derived: submitOptions(submit.Qsub), usage: "[options] [{command|-} [command_args]]", run: (*call).qsub, needs: needsSubmit(submitRequest)}

// submitOptions are the options of a command that package submit reads, for the usage
// text.
func submitOptions(c submit.Commands) func() []option {
	return func() []option {
		var rows []option
		for _, o := range submit.Options() {
			if o.Commands&c != 0 {
				row := option{name: o.Name, args: o.Args, values: o.Values, help: o.Help}
				if r, ok := reservationOptions[o.Name]; ok && c == submit.Qrsub {
					row.args, row.help = r.args, r.help
				}
				rows = append(rows, row)
			}
		}
		return rows
	}
}

// Names of files of default options: for the whole cluster, and with a leading dot for one user
// (sge_request(5), qrsub(1)).
const (
	submitRequest      = "sge_request"
	reservationRequest = "sge_ar_request"
)

// unreadable is a file that could not be read.
type unreadable struct{ name, reason string }

// Error returns the reason.
func (e *unreadable) Error() string { return e.reason }

// read returns the contents of a file that the command line names.
func (in *Input) read(name string) ([]byte, error) {
	if text, ok := in.Files[name]; ok {
		return text, nil
	}
	reason := in.Unreadable[name]
	if reason == "" {
		reason = "no such file or directory"
	}
	reason = strings.ToUpper(reason[:1]) + reason[1:] // as strerror(3) has it
	return nil, &unreadable{name, reason}
}

// submission returns the input for package submit. Files of options that do not exist count as
// empty.
func (in *Input) submission(requests string) submit.Input {
	s := submit.Input{
		Args: in.Args, Master: true, Env: in.Environment, Cwd: in.Dir,
		ReadFile:  in.read,
		ReadStdin: func() ([]byte, error) { return in.Stdin, nil },
	}
	if requests == "" {
		return s
	}
	if text, ok := in.Defaults[requests]; ok {
		s.RequestFiles = append(s.RequestFiles, submit.File{Name: requests, Text: text})
	}
	for _, name := range in.requestFiles(requests) {
		if text, ok := in.Files[name]; ok {
			s.RequestFiles = append(s.RequestFiles, submit.File{Name: name, Text: text})
		}
	}
	return s
}

// requestFiles are the files with the default options of a user.
func (in *Input) requestFiles(requests string) []string {
	var names []string
	home, here := inDirectory(in.Home, "."+requests), inDirectory(in.Dir, "."+requests)
	if home != "" {
		names = append(names, home)
	}
	if here != "" && here != home {
		names = append(names, here)
	}
	return names
}

// needsSubmit finds the files of a command that package submit reads.
func needsSubmit(requests string) func(*Input, *wanted) {
	return func(in *Input, w *wanted) {
		if requests == submitRequest {
			needsRequest(in, w, submit.Qsub)
			return
		}
		// Run reports the error.
		_, _ = submit.ParseReservation(in.collecting(requests, w))
	}
}

// needsRequest finds the files of qsub, qrsh and qlogin.
func needsRequest(in *Input, w *wanted, command submit.Commands) {
	s := in.collecting(submitRequest, w)
	s.Command = command
	_, _ = submit.Parse(s)
}

// collecting returns input for package submit that records the files it asks for. Without requests, no default
// options are read.
func (in *Input) collecting(requests string, w *wanted) submit.Input {
	if requests != "" {
		for _, name := range in.requestFiles(requests) {
			w.want(in, name, false)
		}
	}
	s := in.submission(requests)
	s.ReadOptions = func(name string, nested bool) ([]byte, error) {
		w.want(in, name, nested)
		return in.read(name)
	}
	s.ReadFile = func(name string) ([]byte, error) { return s.ReadOptions(name, false) }
	s.ReadStdin = func() ([]byte, error) {
		w.stdin = true
		return []byte("\n"), nil
	}
	return s
}

// request returns the request to submit, after the verifiers of -jsv have checked it. ok is false
// if there is nothing to submit: after an error, which wrong prints, after -help and -verify, and
// if takes refuses the request. takes holds the checks of one command.
func (x *call) request(command submit.Commands, wrong func(error), takes func(*submit.Request) bool) (r *submit.Request, ok bool) {
	s := x.in.submission(submitRequest)
	s.Command = command
	var verifiers []string
	s.Verifiers, s.Manner = &verifiers, &x.manner
	r, err := submit.Parse(s)
	for _, f := range x.manner.Unread {
		x.warn("warning: error opening %s: %s (%s, line %d)", f.Name, f.Err.Error(), f.Where, f.Line)
	}
	switch {
	case err != nil:
		wrong(err)
	case r.Help:
		x.help()
	case !takes(r) || !x.verified(r, verifiers):
	case r.DryRun && r.Validation != submit.ValidateVerify && r.Validation != submit.ValidatePoke:
		x.describe(r)
	default:
		return r, true
	}
	return nil, false
}

// hasScript reports whether a request that needs a script has one, and prints an error if not.
func (x *call) hasScript(r *submit.Request) bool {
	switch {
	case r.FromStdin && strings.TrimSpace(string(r.Script)) == "":
		x.fail(exitStdin, "Unable to read script file because of error: no input read from stdin")
	case !r.Binary && len(r.Script) == 0:
		x.refused(errors.New("job rejected: no script in your request"))
	default:
		return true
	}
	return false
}

// qsub parses a command line of qsub and submits the job. If the site's verifier has to run first, there is
// no answer yet.
func (x *call) qsub() {
	request, ok := x.request(submit.Qsub, x.submitError, x.hasScript)
	if !ok {
		return
	}
	a, err := x.submit(request)
	if a == nil && err == nil {
		return
	}
	if err != nil {
		x.refused(err)
		return
	}
	defer x.warnOdd(a.ID)
	x.result.Job, x.result.Sync, x.result.Immediate = a.ID, request.Sync && a.ID != 0, request.Immediate && a.ID != 0
	if request.Terse && a.ID != 0 {
		x.result.Terse = true
		x.say("%s", terse(x.cell.Job(a.ID)))
		if !request.Immediate {
			x.result.Actions = append(x.result.Actions, a.Actions...)
			return
		}
	}
	if !request.Immediate {
		x.answer(a)
		return
	}
	x.result.Actions = append(x.result.Actions, a.Actions...)
	for _, e := range a.Events {
		x.warn("%s", EventText(e))
	}
}

// terse returns the output of -terse for a job.
func terse(j *cell.Job) string {
	if a := j.Request().Array; a != nil {
		return number(j.ID()) + "." + a.String()
	}
	return number(j.ID())
}

// caller returns the submitting user and host.
func (x *call) caller() cell.Caller {
	by := x.in.By
	if c := x.in.Confirmation; c != nil {
		by.Submission = c.Key
	}
	origin := cell.Origin{}
	switch {
	case by.Origin != nil:
		origin = *by.Origin
	case x.in.Environment == nil:
		return by
	}
	if origin.Directory == "" {
		origin.Directory = x.in.Dir
	}
	if origin.Environment == nil {
		origin.Environment = submit.Origin(x.in.Environment)
	}
	by.Origin = &origin
	return by
}

// refusal returns the exit status for a submission that the master has refused (qsub(1), EXIT
// STATUS).
func refusal(err error) int {
	if d, ok := errors.AsType[*cell.DeniedError](err); ok && tooMany(d.Event) {
		return exitLimit
	}
	return exitRefused
}

// tooMany reports whether an event is a limit on the number of jobs.
func tooMany(e cell.Event) bool {
	return e.Kind == cell.TooManyJobs || e.Kind == cell.TooManyJobsOfUser || e.Kind == cell.TooManySubmissions
}

// refused prints that the master has refused a submission as a whole.
func (x *call) refused(err error) {
	x.result.Exit = refusal(err)
	format := "Unable to run job: %s"
	for _, part := range refusalParts(err) {
		x.warn(format, part)
		format = "%s"
	}
	x.warn("Exiting.")
	x.suggest(ErrorText(err))
}

// help prints the options, to standard output.
func (x *call) help() { x.stdout.lines(x.self.text()) }

// describe prints for qsub -verify the job as it would be submitted. Its owner is not set yet
// (tested).
func (x *call) describe(r *submit.Request) {
	d := x.requested(r)
	text := string(qstat.AppendDetails(nil, []qstat.JobDetail{d}, qstat.DetailOptions{Zone: x.zone}))
	_, text, _ = strings.Cut(text, "\n") // the rule
	for l := range strings.Lines(text) {
		name, _, _ := strings.Cut(l, ":")
		switch name {
		case "job_number":
			l = "job_number:                 unassigned\n"
		case "owner", "group":
			l = name + ":" + strings.Repeat(" ", 27-len(name)) + "\n"
		case "uid", "gid":
			l = name + ":                        0\n"
		case "env_list", "context":
			l = strings.ReplaceAll(l, "=NONE", "")
		case "account", "binding":
			if strings.HasSuffix(l, " sge\n") || strings.HasSuffix(l, " NONE\n") {
				continue
			}
		}
		switch {
		case name == "env_list":
			x.say("verify:                     -verify")
		case name == "script_file" && len(r.Script) > 0:
			x.say("script_size:                %d", len(r.Script))
		}
		x.stdout.lines(l)
		if name == "script_file" && len(r.Script) > 0 {
			x.say("script_ptr:            ")
			x.stdout.lines(string(r.Script) + "\n")
		}
	}
}

// requested returns a request as qstat -j would show it, with the times of -a and -dl.
func (x *call) requested(r *submit.Request) qstat.JobDetail {
	d := view.New(x.cell, x.now).Request(r, x.caller())
	now := time.Unix(x.now, 0).In(x.zone)
	if !r.Start.IsZero() {
		d.ExecutionTime = r.Start.Time(now).Unix()
	}
	if !r.Deadline.IsZero() {
		d.Deadline = r.Deadline.Time(now).Unix()
	}
	return d
}
