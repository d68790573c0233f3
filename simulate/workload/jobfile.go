package workload

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/submit"
)

// Options are settings that a file of jobs does not contain.
type Options struct {
	User, Group string // of jobs without user=
	// RequestFiles, ReadFile, Env and Cwd are passed to submit.Input. Each file is read once.
	// Without ReadFile, scripts and -@ are errors.
	RequestFiles []submit.File
	ReadFile     func(path string) ([]byte, error)
	Env          []string
	Cwd          string
}

// Error is an error in a file of jobs.
type Error struct {
	File    string
	Line    int    // from 1; the first line of a continued line
	Value   string // the invalid word; empty for the whole line
	Problem string // the error, and what was expected
	Err     error  // a *submit.Error for an error in the options of qsub
}

// Error returns "file:line: "value": problem".
func (e *Error) Error() string {
	s := e.File + ":" + strconv.Itoa(e.Line) + ": "
	if e.Value != "" {
		s += textfile.Shorten(strconv.Quote(e.Value)) + ": "
	}
	return s + textfile.Shorten(e.Problem)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Read reads a file of jobs and returns them in the order of submission; jobs with the same time
// are in the order of the file. The error joins the first hundred errors, each an *Error; no jobs
// are returned then.
func Read(file submit.File, o Options) ([]Job, error) {
	r := reader{file: file.Name, options: o, read: map[string]content{}}
	var jobs []Job
	for l := range split(string(file.Text)) {
		if len(r.errs) >= maxErrors {
			r.fail(l.number, "", fmt.Sprintf("there are %d errors, what follows has not been read", maxErrors), nil)
			break
		}
		if len(jobs) == maxJobs {
			r.fail(l.number, "", fmt.Sprintf("there are more than %d jobs, which is the limit", maxJobs), nil)
			break
		}
		if l.err != nil {
			r.fail(l.number, "", l.err.Error(), nil)
			continue
		}
		if j := r.job(l); len(r.errs) == 0 {
			jobs = append(jobs, j)
		}
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs, nil
}

// reader is the state of reading a file.
type reader struct {
	file    string
	options Options
	before  int64 // submission time of the job in the previous line
	read    map[string]content
	size    int // number of bytes read from other files
	errs    []error
}

// content holds the content of a file, or the error of reading it.
type content struct {
	text []byte
	err  error
}

func (r *reader) fail(line int, value, problem string, cause error) {
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Value: value, Problem: problem, Err: cause})
}

// job reads a line.
func (r *reader) job(l line) Job {
	j := Job{Line: l.number, Submit: r.before, User: r.options.User, Group: r.options.Group}
	seen := map[string]bool{}
	for i, word := range l.words {
		var err error
		key, value, isSetting := strings.Cut(word, "=")
		switch {
		case word == "qsub":
			r.before = j.Submit
			r.request(&j, l.words[i+1:], seen["run"])
			return j
		case strings.HasPrefix(word, "@"):
			key = "@"
			j.Submit, err = r.submission(word[1:])
		case isSetting && key == "run":
			j.Run, err = runTime(value)
		case isSetting && key == "user":
			j.User, j.Group, err = user(value)
		default:
			r.fail(l.number, word, "expected @TIME, run=TIME, user=NAME[:GROUP] or qsub", nil)
			return j
		}
		if seen[key] && err == nil {
			err = errors.New("there is one already in this line")
		}
		seen[key] = true
		if err != nil {
			r.fail(l.number, word, err.Error(), nil)
		}
	}
	r.before = j.Submit
	r.fail(l.number, "", "the line has no qsub, expected it behind @TIME, run=TIME and user=NAME", nil)
	return j
}

// submission parses the text after the @.
func (r *reader) submission(text string) (int64, error) {
	later, isLater := strings.CutPrefix(text, "+")
	at, err := seconds(later)
	if err != nil {
		return r.before, err
	}
	if isLater {
		at += r.before
	}
	if at > MaxTime {
		return r.before, tooLate(at)
	}
	return at, nil
}

func runTime(text string) (int64, error) {
	if quantity.IsInfinity(text) {
		return Endless, nil
	}
	return seconds(text)
}

func seconds(text string) (int64, error) {
	if quantity.IsInfinity(text) {
		return 0, errors.New("nothing is submitted at that time, expected seconds or hours:minutes:seconds")
	}
	v, err := quantity.Time(text)
	if err == nil && v > MaxTime {
		err = tooLate(int64(min(v, 1<<62)))
	}
	return int64(min(v, MaxTime)), err
}

func tooLate(v int64) error {
	return fmt.Errorf("%d seconds are more than the %d that are possible", v, int64(MaxTime))
}

func user(text string) (name, group string, err error) {
	name, group, hasGroup := strings.Cut(text, ":")
	if err := qconf.CheckName(name); err != nil {
		return name, group, fmt.Errorf("the user: %w", err)
	}
	if hasGroup {
		if err := qconf.CheckName(group); err != nil {
			return name, group, fmt.Errorf("the group: %w", err)
		}
	}
	return name, group, nil
}

// request parses the options of qsub, and derives the run time from them unless it is given.
func (r *reader) request(j *Job, args []string, isRunKnown bool) {
	request, err := submit.Parse(submit.Input{
		Args: args, RequestFiles: r.options.RequestFiles, ReadFile: r.readFile, Env: r.options.Env, Cwd: r.options.Cwd,
		ReadStdin: func() ([]byte, error) { return []byte("#!/bin/sh\n"), nil },
	})
	if err != nil {
		var e *submit.Error
		if errors.As(err, &e) && e.Where == submit.CommandLine {
			r.fail(j.Line, strings.TrimSpace(e.Option+" "+e.Value), e.Problem, err)
		} else {
			r.fail(j.Line, "", err.Error(), err)
		}
		return
	}
	if request.Help || request.DryRun {
		r.fail(j.Line, "", "the line submits nothing, expected none of -help, -verify, -w v and -w p", nil)
		return
	}
	j.Request = request
	if isRunKnown {
		return
	}
	j.Run = Endless
	if path.Base(request.Command) == "sleep" && len(request.Args) > 0 {
		if v, err := strconv.ParseInt(request.Args[0], 10, 64); err == nil && v >= 0 && v <= MaxTime {
			j.Run = v
		}
	}
}

// readFile reads each file at most once.
func (r *reader) readFile(name string) ([]byte, error) {
	c, known := r.read[name]
	if !known {
		if r.options.ReadFile == nil {
			c.err = errors.New("files cannot be read here")
		} else {
			c.text, c.err = r.options.ReadFile(name)
			if r.size += len(c.text); r.size > textfile.MaxList {
				c.text, c.err = nil, fmt.Errorf("the scripts of all jobs have more than %d MiB together, which is the limit", textfile.MaxList>>20)
			}
		}
		r.read[name] = c
	}
	return c.text, c.err
}
