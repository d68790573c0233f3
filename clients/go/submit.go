package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Submission describes a job. Exactly one of Script, Text and Command is set. All other fields may be
// empty. Fields win over the #$ lines of a script; the name, the directory and the output files are always
// passed to qsub, so that the client knows where the output is.
type Submission struct {
	Script  string   // the path of a script
	Text    string   // the text of a script
	Command []string // a program and its arguments, which no shell reads (-b y -shell n)
	Args    []string // the arguments of Script or Text

	Name      string            // -N; the default is the base name of Script or of the program, or "job"
	Directory string            // -wd; the default is the working directory of this process
	Queue     string            // -q
	Project   string            // -P
	PE        string            // parallel environment (-pe), with Slots
	Slots     int               // slots in PE
	Resources map[string]string // -l, such as h_rt: 0:10:0
	Env       map[string]string // -v
	Tasks     *Tasks            // -t: an array job
	After     []int             // -hold_jid: starts after these jobs have finished
	Hold      bool              // -h: waits until qrls releases it

	// Output is the file of standard output (-o), relative to Directory. $JOB_ID and $TASK_ID in it stand
	// for the numbers. The default is NAME.o$JOB_ID, for array jobs NAME.o$JOB_ID.$TASK_ID. The
	// path must not contain ":" or ",", nor "$" for anything else.
	Output string
	// Errors is the file of standard error (-e), in the same form; empty: the same file (-j y).
	Errors string

	// Options are further options of qsub, as words, such as "-p", "-10".
	Options []string
}

// Tasks are the task numbers First, First+Step, ... up to Last. Step 0 stands for 1.
type Tasks struct{ First, Last, Step int }

// Job is a submitted job. It is plain data: a program may save it and use it in its next run.
type Job struct {
	ID     int
	Tasks  *Tasks // nil if the job is not an array job
	Output string // absolute, with $JOB_ID and $TASK_ID
	Errors string // the same for standard error; equal to Output if both are one file
}

// OutputFile returns the path of a task's standard output. The task is 0 for a job that is not an array job.
func (j *Job) OutputFile(task int) string { return j.fill(j.Output, task) }

// ErrorFile returns the path of a task's standard error.
func (j *Job) ErrorFile(task int) string { return j.fill(j.Errors, task) }

func (j *Job) fill(path string, task int) string {
	number := "undefined" // as Grid Engine has it
	if task > 0 {
		number = strconv.Itoa(task)
	}
	return strings.NewReplacer("$JOB_ID", strconv.Itoa(j.ID), "$TASK_ID", number).Replace(path)
}

// terse finds what qsub -terse prints: other lines may be there, from option files and verifiers.
var terse = regexp.MustCompile(`(?m)^([0-9]+)(?:\.([0-9]+)-([0-9]+):([0-9]+))?$`)

// Submit submits a job (qsub). A *CommandError has the reason for which qsub refused the job.
func (c *Client) Submit(ctx context.Context, s *Submission) (*Job, error) {
	args, env, job, err := s.line()
	if err != nil {
		return nil, fmt.Errorf("cannot submit the job: %w", err)
	}
	var stdin io.Reader
	if s.Text != "" {
		stdin = strings.NewReader(s.Text)
	}
	out, err := c.run(ctx, stdin, env, "qsub", args...)
	if err != nil {
		return nil, err
	}
	found := terse.FindStringSubmatch(out)
	if found == nil {
		return nil, fmt.Errorf("cannot find the number of the job in what qsub printed: %q", out)
	}
	if job.ID, err = strconv.Atoi(found[1]); err != nil {
		return nil, fmt.Errorf("cannot read the number of the job: %w", err)
	}
	return job, nil
}

// line returns the arguments of qsub, additions to its environment, and a Job without its ID.
func (s *Submission) line() (args, env []string, job *Job, err error) {
	kinds := 0
	for _, set := range []bool{s.Script != "", s.Text != "", len(s.Command) > 0} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return nil, nil, nil, errors.New("expected exactly one of Script, Text and Command")
	}
	job = &Job{Tasks: s.Tasks}
	dir, err := filepath.Abs(s.Directory)
	if err != nil {
		return nil, nil, nil, err
	}
	name := s.name()
	args = []string{"-terse", "-N", name, "-wd", dir}
	if args, err = s.output(args, job, dir, name); err != nil {
		return nil, nil, nil, err
	}
	for _, o := range []struct{ option, value string }{{"-q", s.Queue}, {"-P", s.Project}} {
		if o.value != "" {
			args = append(args, o.option, o.value)
		}
	}
	if s.PE != "" {
		args = append(args, "-pe", s.PE, strconv.Itoa(s.Slots))
	} else if s.Slots != 0 {
		return nil, nil, nil, errors.New("slots are set, but no parallel environment")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Resources)) {
		request := name + "=" + s.Resources[name]
		if name == "" || strings.ContainsAny(name, "=,") || strings.Contains(s.Resources[name], ",") {
			return nil, nil, nil, fmt.Errorf("invalid resource request %q: names and values must not contain a comma", request)
		}
		args = append(args, "-l", request)
	}
	if args, env, err = s.environment(args); err != nil {
		return nil, nil, nil, err
	}
	if t := s.Tasks; t != nil {
		if t.First < 1 || t.Last < t.First || t.Step < 0 {
			return nil, nil, nil, fmt.Errorf("invalid tasks %d-%d:%d: expected 1 <= first <= last", t.First, t.Last, t.Step)
		}
		job.Tasks = &Tasks{t.First, t.Last, max(1, t.Step)}
		args = append(args, "-t", fmt.Sprintf("%d-%d:%d", t.First, t.Last, job.Tasks.Step))
	}
	for _, id := range s.After {
		args = append(args, "-hold_jid", strconv.Itoa(id))
	}
	if s.Hold {
		args = append(args, "-h")
	}
	args = append(args, s.Options...)
	return append(args, s.operands()...), env, job, nil
}

func (s *Submission) name() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Script != "":
		return filepath.Base(s.Script)
	case len(s.Command) > 0:
		return filepath.Base(s.Command[0])
	}
	return "job"
}

// output adds the options for the output files.
func (s *Submission) output(args []string, job *Job, dir, name string) ([]string, error) {
	path := func(file string) (string, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if rest := strings.NewReplacer("$JOB_ID", "", "$TASK_ID", "").Replace(file); strings.ContainsAny(rest, "$:,") {
			return "", fmt.Errorf(`invalid output file %q: qsub gives "$", ":" and "," a meaning`, file)
		}
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return "", fmt.Errorf("invalid output file %q: it is a directory", file)
		}
		return file, nil
	}
	output := s.Output
	if output == "" {
		if output = name + ".o$JOB_ID"; s.Tasks != nil {
			output += ".$TASK_ID"
		}
	}
	var err error
	if job.Output, err = path(output); err != nil {
		return nil, err
	}
	args = append(args, "-o", job.Output)
	if s.Errors == "" {
		job.Errors = job.Output
		return append(args, "-j", "y"), nil
	}
	if job.Errors, err = path(s.Errors); err != nil {
		return nil, err
	}
	return append(args, "-j", "n", "-e", job.Errors), nil
}

// environment adds -v. A value that qsub would split is passed in qsub's own environment.
func (s *Submission) environment(args []string) (_, env []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value := s.Env[name]
		switch {
		case name == "" || strings.ContainsAny(name, "=,\x00") || strings.Contains(value, "\x00"):
			return nil, nil, fmt.Errorf("invalid variable %q: expected a name without = and comma, and no zero byte", name)
		case strings.ContainsAny(value, ",\\\"' \t\n"):
			args, env = append(args, "-v", name), append(env, name+"="+value)
		default:
			args = append(args, "-v", name+"="+value)
		}
	}
	return args, env, nil
}

// operands returns the words behind the options.
func (s *Submission) operands() []string {
	dash := func(path string) string {
		if strings.HasPrefix(path, "-") { // no option
			return "./" + path
		}
		return path
	}
	switch {
	case len(s.Command) > 0:
		return append([]string{"-shell", "n", "-b", "y", dash(s.Command[0])}, s.Command[1:]...)
	case s.Script != "":
		return append([]string{"-b", "n", dash(s.Script)}, s.Args...)
	}
	return append([]string{"-b", "n", "-"}, s.Args...)
}
