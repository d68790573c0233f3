package submit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
)

// Alteration is a qalter command (sge_submit(1)). Each of its options replaces the jobs' values of
// that option.
type Alteration struct {
	Jobs  []JobRange // the master determines their owners
	Users []string   // -u: all jobs of these users, "*" for all users

	Options  []string // the given options except -u, with their dash, each once
	Request  Request  // their values; ignore the fields of other options
	Holds    HoldChange
	Override int // -ot

	contexts []contextChange // -ac, -dc and -sc, in their order
	Help     bool            // -help: no other field is set
}

// Has reports whether an option was given. The option is named with its dash.
func (a *Alteration) Has(option string) bool { return slices.Contains(a.Options, option) }

// contextChange is one of -ac, -dc and -sc.
type contextChange struct {
	option    string
	variables []Variable
}

// ChangeContext returns the context of a job after -ac (add), -dc (delete) and -sc (set) in the
// order of the command line.
func (a *Alteration) ChangeContext(was []Variable) []Variable {
	now := variablesOf(was)
	for _, c := range a.contexts {
		c.change(now)
	}
	return now.all()
}

func (c *contextChange) change(context *variables) {
	if c.option == "-sc" {
		*context = variables{}
	}
	for _, v := range c.variables {
		if c.option == "-dc" {
			context.remove(v.Name)
		} else {
			context.set(v.Name, v)
		}
	}
}

// JobRange is a wc_job_range of sge_types(5).
type JobRange struct {
	Job   string  // number, name or pattern
	Tasks []Array // of the array job; nil for all
}

// String returns the range in the notation of commands.
func (r JobRange) String() string {
	var tasks []string
	for _, a := range r.Tasks {
		tasks = append(tasks, a.String())
	}
	if tasks == nil {
		return r.Job
	}
	return r.Job + " -t " + strings.Join(tasks, ",")
}

// ParseJobRanges reads the wc_job_range_list at the end of a qalter, qdel, qhold, qrls or qmod
// command: jobs separated by commas or as separate words. Task ranges follow after "-t" or,
// directly after a job number, after a dot.
func ParseJobRanges(words []string) ([]JobRange, error) {
	var list []JobRange
	for i := 0; i < len(words); i++ {
		if words[i] == "-t" {
			if len(list) == 0 || i+1 == len(words) {
				return nil, errors.New("-t needs a job before it and task ranges after it")
			}
			i++
			for _, item := range splitList(words[i], ", \t") {
				a, err := ParseArray(item)
				if err != nil {
					return nil, err
				}
				list[len(list)-1].Tasks = append(list[len(list)-1].Tasks, a)
			}
			continue
		}
		for _, item := range splitList(words[i], ",") {
			if item == "-t" {
				return nil, fmt.Errorf("invalid list of jobs %q: -t must be a separate word, after a job", words[i])
			}
			r, err := parseJobRange(item)
			if err != nil {
				return nil, err
			}
			list = append(list, r)
		}
	}
	return list, nil
}

// parseJobRange reads a job of a list. A word that begins with a digit is a job number, possibly
// with tasks, because no name begins with a digit.
func parseJobRange(item string) (JobRange, error) {
	if item[0] < '0' || item[0] > '9' {
		return JobRange{Job: item}, nil
	}
	number, tasks, dotted := strings.Cut(item, ".")
	r := JobRange{Job: number}
	missing := dotted && (tasks == "" || strings.HasSuffix(tasks, "-") || strings.HasSuffix(tasks, ":"))
	if n, err := strconv.ParseUint(number, 10, 32); err != nil || n == 0 || strings.Trim(tasks, "0123456789-:") != "" || missing {
		return r, &Error{Where: CommandLine, Value: item, Problem: "invalid job-task identifier, expected a name, a pattern, JOB_ID or JOB_ID.TASKS", Kind: BadJob}
	}
	if dotted {
		a, err := ParseArray(tasks)
		if err != nil {
			return r, err
		}
		r.Tasks = []Array{a}
	}
	return r, nil
}

// ParseAlteration reads the command line of qalter: options, the jobs, and, after "--", their new
// arguments. It uses Args, Env and Cwd of in. The error is an *Error.
func ParseAlteration(in Input) (*Alteration, error) {
	in.Master = true
	p := parser{in: &in, command: Qalter}
	words, rest := in.Args, []string(nil)
	if i := slices.Index(words, "--"); i >= 0 {
		words, rest = words[:i], words[i+1:]
	}
	in.Args = words
	line, words, err := p.alterationLine()
	if err != nil {
		return nil, err
	}
	a := &Alteration{}
	b := builder{in: &in, alteration: a}
	b.req = Request{Args: rest, Rerun: job.Default, PTY: job.Default}
	for _, s := range line.settings {
		if s.option.Name == "-help" {
			return &Alteration{Help: true}, nil
		}
		if err := b.apply(s); err != nil {
			return nil, err
		}
		if s.option.Name != "-u" && !slices.Contains(a.Options, s.option.Name) {
			a.Options = append(a.Options, s.option.Name)
		}
	}
	if len(words) > 0 {
		if i := slices.IndexFunc(words, func(w string) bool { return len(splitList(w, ",")) == 0 }); i >= 0 {
			return nil, &Error{Where: CommandLine, Value: words[i], Problem: "the list of jobs is empty", Kind: NoJobs}
		}
		if a.Jobs, err = ParseJobRanges(words); err != nil {
			if _, ok := errors.AsType[*Error](err); ok {
				return nil, err
			}
			return nil, &Error{Where: CommandLine, Value: strings.Join(words, " "), Problem: err.Error()}
		}
	}
	if err := b.alterUnits(a); err != nil {
		return nil, &Error{Where: CommandLine, Problem: err.Error()}
	}
	switch {
	case len(a.Jobs) == 0 && len(a.Users) == 0:
		return nil, &Error{Where: CommandLine, Problem: "no job is named"}
	case len(a.Jobs) > 0 && len(a.Users) > 0:
		return nil, &Error{Where: CommandLine, Option: "-u", Problem: "jobs are named beside users, expected either (sge_submit(1))"}
	case len(a.Options) == 0 && rest == nil:
		return nil, &Error{Where: CommandLine, Problem: "no option says what is to be changed", Kind: NoChange}
	}
	b.collect()
	b.req.DryRun = b.verify
	a.Request = b.req
	return a, nil
}

// alterationLine reads options and jobs of qalter, whose options may follow the jobs (tested). A -t
// after a job belongs to the job.
func (p *parser) alterationLine() (line commandLine, jobs []string, err error) {
	for {
		next, err := p.commandLine()
		line.settings = append(line.settings, next.settings...)
		if err != nil || !next.hasCommand {
			return line, jobs, err
		}
		words := append([]string{next.command}, next.args...)
		i := 0
		for i < len(words) && (!strings.HasPrefix(words[i], "-") || words[i] == "-t") {
			if words[i] == "-t" {
				i++
			}
			i++
		}
		i = min(i, len(words))
		jobs, p.in.Args = append(jobs, words[:i]...), words[i:]
		if len(p.in.Args) == 0 {
			return line, jobs, nil
		}
	}
}

// setUsers reads -u. For qalter it names the owners of the jobs to change, for qrsub the users and
// @lists that may use the reservation.
func setUsers(b *builder, s setting) error {
	users := splitList(s.value(), ",")
	for _, u := range users {
		if hasControl(u) || strings.ContainsAny(u, " :/") {
			return errors.New(strconv.Quote(u) + " is not a name of a user")
		}
	}
	switch {
	case len(users) == 0:
		return errors.New("no user is named")
	case b.alteration != nil:
		b.alteration.Users = append(b.alteration.Users, users...)
	case b.reservation != nil:
		b.reservation.Users = append(b.reservation.Users, users...)
	}
	return nil
}
