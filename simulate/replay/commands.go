package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/simulate/script"
	"github.com/execd-project/execd/simulate/workload"
	"github.com/execd-project/execd/submit"
)

var root = cell.Caller{User: "root", Group: "root", Host: master}

// commands are those that a script may have. A remark belongs to some of them.
var commands = map[string]func(p *player, by cell.Caller, args []string, remark string) ([]string, error){
	"qsub":   (*player).qsub,
	"qalter": (*player).qalter,
	"qdel":   (*player).qdel,
	"qhold":  (*player).qhold,
	"qrls":   (*player).qrls,
	"qmod":   (*player).qmod,
	"qconf":  (*player).qconf,
	"qrsub":  (*player).qrsub,
	"qrdel":  (*player).qrdel,
}

// command types a line, and returns what is printed.
func (p *player) command(l *script.Line) ([]string, error) {
	words, err := workload.Words(l.Command)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", l.Command, err)
	}
	f := commands[words[0]]
	if f == nil {
		return nil, fmt.Errorf("%q: %s", l.Command, unknownCommand())
	}
	by := cell.Caller{User: l.User, Group: group, Host: master}
	if l.User == root.User {
		by = root
	}
	lines, err := f(p, by, words[1:], l.Remark)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", l.Command, err)
	}
	return lines, nil
}

func unknownCommand() string {
	var names []string
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	return "expected one of " + strings.Join(names, ", ")
}

// check finds the commands that cannot be played, before anything has been.
func (p *player) check() error {
	var errs []error
	for i := range p.lines {
		l := &p.lines[i]
		if l.Kind != script.Command {
			continue
		}
		words, err := workload.Words(l.Command)
		if err == nil && commands[words[0]] == nil {
			err = errors.New(unknownCommand())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("jobs.txt:%d: %q: %w", l.Number, l.Command, err))
		}
	}
	return errors.Join(errs...)
}

// said are the lines of an answer. What follows from it is done.
func (p *player) said(a *cell.Answer) []string {
	p.follow(a.Actions)
	var lines []string
	for _, l := range a.Lines {
		lines = append(lines, l.Text)
	}
	return lines
}

// refused is what a command prints that was refused as a whole.
func refused(err error) []string {
	if d, ok := errors.AsType[*cell.DeniedError](err); ok {
		return d.Output()
	}
	if e, ok := errors.AsType[*submit.Error](err); ok {
		return []string{"Unable to run job: " + e.Problem + ".", "Exiting."}
	}
	return []string{"Unable to run job: " + err.Error(), "Exiting."}
}

// submission is what the options of a command are read from. Scripts are files of the
// case; one that is not there is as good as an empty one.
func (p *player) submission(args []string) submit.Input {
	read := func(name string) ([]byte, error) {
		if text, err := fs.ReadFile(p.fsys, strings.TrimPrefix(name, "/")); err == nil {
			return text, nil
		}
		return []byte("#!/bin/sh\n"), nil
	}
	return submit.Input{
		Args: args, Master: true, ReadFile: read, Cwd: "/",
		ReadStdin: func() ([]byte, error) { return []byte("#!/bin/sh\n"), nil },
	}
}

func (p *player) qsub(by cell.Caller, args []string, _ string) ([]string, error) {
	request, err := submit.Parse(p.submission(args))
	if err != nil {
		return refused(err), nil
	}
	a, err := p.cell.Submit(p.seconds(), by, request)
	if err != nil {
		return refused(err), nil
	}
	lines := p.said(a)
	if request.Immediate {
		for _, i := range p.schedule() {
			if i.Job == a.ID {
				lines = append(lines, i.Texts...)
			}
		}
	}
	return lines, nil
}

func (p *player) qalter(by cell.Caller, args []string, _ string) ([]string, error) {
	r, err := submit.ParseAlteration(p.submission(args))
	if err != nil {
		return nil, err
	}
	return p.said(p.cell.Alter(p.seconds(), by, r)), nil
}

func (p *player) qdel(by cell.Caller, args []string, _ string) ([]string, error) {
	force := slices.Contains(args, "-f")
	args = slices.DeleteFunc(args, func(a string) bool { return a == "-f" })
	users, args, err := takeUsers(args)
	if err != nil {
		return nil, err
	}
	jobs, err := submit.ParseJobRanges(args)
	if err != nil {
		return nil, err
	}
	return p.said(p.cell.Delete(p.seconds(), by, cell.DeleteRequest{Jobs: jobs, Users: users, Force: force})), nil
}

func (p *player) qrsub(by cell.Caller, args []string, _ string) ([]string, error) {
	r, err := submit.ParseReservation(p.submission(args))
	if err != nil {
		return nil, err
	}
	a, err := p.cell.Reserve(p.seconds(), by, r)
	if d, ok := errors.AsType[*cell.DeniedError](err); ok {
		return append(slices.Clone(d.Report), d.Text), nil
	}
	if err != nil {
		return nil, err
	}
	return p.said(a), nil
}

func (p *player) qrdel(by cell.Caller, args []string, _ string) ([]string, error) {
	var ids []string
	for _, a := range args {
		ids = append(ids, strings.Split(a, ",")...)
	}
	return p.said(p.cell.DeleteReservations(p.seconds(), by, ids)), nil
}

// takeUsers takes -u from a command line.
func takeUsers(args []string) (users, rest []string, err error) {
	for len(args) > 0 {
		if args[0] != "-u" {
			rest, args = append(rest, args[0]), args[1:]
			continue
		}
		if len(args) < 2 {
			return nil, nil, errors.New("-u needs a list of users")
		}
		users = append(users, strings.Split(args[1], ",")...)
		args = args[2:]
	}
	return users, rest, nil
}

func (p *player) qhold(by cell.Caller, args []string, _ string) ([]string, error) {
	return p.hold(by, args, "u")
}

func (p *player) qrls(by cell.Caller, args []string, _ string) ([]string, error) {
	return p.hold(by, args, "U")
}

// hold is qhold, or with a capital letter as default, qrls: which means letters of
// either case as capitals.
func (p *player) hold(by cell.Caller, args []string, letters string) ([]string, error) {
	release := letters == strings.ToUpper(letters)
	if i := slices.Index(args, "-h"); i >= 0 && i+1 < len(args) {
		letters = args[i+1]
		if release && letters != "n" {
			letters = strings.ToUpper(letters)
		}
		args = slices.Delete(slices.Clone(args), i, i+2)
	}
	change, err := submit.ParseHolds(letters)
	if err != nil {
		return nil, err
	}
	users, args, err := takeUsers(args)
	if err != nil {
		return nil, err
	}
	jobs, err := submit.ParseJobRanges(args)
	if err != nil {
		return nil, err
	}
	return p.said(p.cell.Hold(p.seconds(), by, jobs, users, change)), nil
}

// What qmod does, by its options.
var (
	queueOperations = map[string]cell.QueueOperation{
		"-d": cell.DisableQueue, "-e": cell.EnableQueue, "-s": cell.SuspendQueue, "-sq": cell.SuspendQueue,
		"-us": cell.UnsuspendQueue, "-usq": cell.UnsuspendQueue, "-c": cell.ClearQueueError, "-cq": cell.ClearQueueError,
		"-rq": cell.RescheduleQueue,
	}
	jobOperations = map[string]cell.JobOperation{
		"-sj": cell.SuspendJob, "-usj": cell.UnsuspendJob, "-cj": cell.ClearJobError, "-rj": cell.RescheduleJob,
	}
)

func (p *player) qmod(by cell.Caller, args []string, _ string) ([]string, error) {
	force := slices.Contains(args, "-f")
	args = slices.DeleteFunc(args, func(a string) bool { return a == "-f" })
	if len(args) < 2 {
		return nil, errors.New("expected an option and what it is about")
	}
	option, args := args[0], args[1:]
	if op, ok := jobOperations[option]; ok || !ok && isBoth(option) && allJobs(args) {
		if !ok {
			op = map[string]cell.JobOperation{"-s": cell.SuspendJob, "-us": cell.UnsuspendJob, "-c": cell.ClearJobError}[option]
		}
		jobs, err := submit.ParseJobRanges(args)
		if err != nil {
			return nil, err
		}
		return p.said(p.cell.ModifyJobs(p.seconds(), by, op, jobs, force)), nil
	}
	op, ok := queueOperations[option]
	if !ok {
		return nil, fmt.Errorf("%q is no option of qmod that is known here", option)
	}
	var references []string
	for _, a := range args {
		references = append(references, strings.Split(a, ",")...)
	}
	return p.said(p.cell.ModifyQueues(p.seconds(), by, op, references, force)), nil
}

// isBoth reports whether an option of qmod is for queues and for jobs.
func isBoth(option string) bool { return option == "-s" || option == "-us" || option == "-c" }

func allJobs(args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool { return a == "" || a[0] < '0' || a[0] > '9' })
}

// qconf changes the configuration. What is in the files that the original was given a
// script does not say, but for the remarks behind the command.
func (p *player) qconf(_ cell.Caller, args []string, remark string) ([]string, error) {
	switch {
	case slices.Equal(args, []string{"-Msconf"}):
		return p.modifyScheduler(remark)
	case len(args) > 0 && args[0] == "-Arqs":
		return addQuota(remark)
	}
	return nil, errors.New("expected -Msconf or -Arqs, with a remark")
}

func (p *player) modifyScheduler(remark string) ([]string, error) {
	settings, err := parameters(remark)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, s := range settings {
		values[s.Name] = s.Value
	}
	if err := p.in.changeScheduler(values); err != nil {
		return nil, err
	}
	cluster, err := p.in.cluster()
	if err != nil {
		return nil, inFolder(err)
	}
	a, err := p.cell.Reconfigure(p.seconds(), cluster)
	if err != nil {
		return nil, err
	}
	p.follow(a.Actions)
	return []string{"changed scheduler configuration"}, nil
}

// addQuota reads a set of which the remark has the rules: "a set with the rule: limit
// ...". One that is valid would be in input/rqs: it is not added here.
func addQuota(remark string) ([]string, error) {
	_, rule, ok := strings.Cut(remark, "rule: ")
	if !ok {
		return nil, errors.New(`expected the remark "a set with the rule: limit ..."`)
	}
	text := "{\nname added\nenabled TRUE\n" + strings.TrimSpace(rule) + "\n}\n"
	if _, err := qconf.ParseResourceQuotas("", []byte(text)); err != nil {
		var lines []string
		for _, e := range qconf.Errors(err) {
			lines = append(lines, e.Problem)
		}
		return lines, nil
	}
	return nil, errors.New("a set that is valid belongs into input/rqs")
}

// jobName is the name that a command gives its job.
func jobName(command string) string {
	words, err := workload.Words(command)
	if err != nil {
		return ""
	}
	if i := slices.Index(words, "-N"); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}
