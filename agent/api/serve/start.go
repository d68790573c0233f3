package serve

import (
	"errors"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/submit"
)

// translateStart reads a start: its command line and the options in its script as qsub
// does.
func translateStart(q *api.Start, epoch uint64) (*agent.Start, *api.Error) {
	id, err := translateID(api.ID{Job: q.Job, Task: q.Task}, false)
	if err != nil {
		return nil, err
	}
	f := fields{}
	s := &agent.Start{
		ID: id, Key: f.line("key", q.Key), Epoch: epoch,
		Owner: f.line("owner", q.Owner), Group: f.line("group", q.Group), Department: f.line("department", q.Department),
		Submitted: q.Submitted, SubmitEnv: f.environment(q.Environment, q.EnvironmentBase64),
		SubmitDir: f.directory(q.Directory, q.DirectoryBase64), Restarted: job.Restart(q.Restarted),
		CheckpointPID: q.CheckpointPID,
		PE:            f.line("pe", q.PE), Slave: q.Slave, Tickets: q.Tickets, Reservation: q.Reservation,
	}
	for _, g := range q.Grants {
		s.Grants = append(s.Grants, agent.Grant{Queue: f.line("grants.queue", g.Queue), Host: f.line("grants.host", g.Host), Slots: g.Slots, Names: g.Names})
	}
	if i := q.Interactive; i != nil {
		s.Interactive = &agent.Interactive{Rows: i.Rows, Cols: i.Cols, Term: f.line("interactive.term", i.Term), Pipes: i.Pipes, Login: i.Login}
	}
	command := f.words(q.Command, q.CommandBase64)
	script := f.text("script", q.Script, q.ScriptBase64)
	switch {
	case f.err != nil:
		return nil, refuse(api.InvalidArgument, "job %s: %v", id, f.err)
	case q.Restarted < int(job.FirstRun) || q.Restarted > int(job.RestartedFromCkpt):
		return nil, refuse(api.InvalidArgument, "job %s: restarted: %d, expected 0, 1 or 2", id, q.Restarted)
	case q.CheckpointPID < 0 || q.CheckpointPID > maxID:
		return nil, refuse(api.InvalidArgument, "job %s: checkpoint_pid: %d, expected a number from 0 to %d", id, q.CheckpointPID, maxID)
	case q.Tickets < 0 || math.IsNaN(q.Tickets):
		return nil, refuse(api.InvalidArgument, "job %s: tickets: %v, expected 0 or more", id, q.Tickets)
	case q.Reservation < 0 || q.Reservation > maxID:
		return nil, refuse(api.InvalidArgument, "job %s: reservation: %d, expected a number from 0 to %d", id, q.Reservation, maxID)
	}
	var problem error
	if s.Interactive != nil && s.Interactive.Login {
		command = append(slices.Clone(command), "-b", "y", loginName)
	}
	if s.Request, problem = request(command, script, s); problem != nil {
		return nil, refuse(api.InvalidArgument, "job %s: command: %v", id, problem)
	}
	return s, nil
}

// loginName is the default name of a job that is a login shell (qlogin(1)), and is shown as its
// command.
const loginName = "QLOGIN"

// request reads the command line of a job.
func request(command []string, script string, s *agent.Start) (*submit.Request, error) {
	text := func() ([]byte, error) {
		if script == "" && !s.Slave { // of a slave job nothing but tasks is run
			return nil, errors.New("the field script is empty")
		}
		return []byte(script), nil
	}
	r, err := submit.Parse(submit.Input{
		Args: command, Env: s.SubmitEnv, Cwd: s.SubmitDir, Master: true,
		ReadFile:  func(string) ([]byte, error) { return text() },
		ReadStdin: text,
		ReadOptions: func(string, bool) ([]byte, error) {
			return nil, errors.New("the agent reads no files of options; put the options into the command line")
		},
	})
	switch {
	case err != nil:
		return nil, err
	case r.Help || r.DryRun:
		return nil, errors.New("it describes a job and does not start one: -help, -verify, -w v or -w p")
	case r.Binary && script != "":
		return nil, errors.New("-b y: the field script is not empty, and would not be used")
	case s.Interactive != nil && s.Interactive.Login && (r.Command != loginName || len(r.Args) > 0):
		return nil, errors.New("a login shell takes no command")
	}
	return r, checkTask(s.ID, r.Array)
}

// checkTask compares the task with -t.
func checkTask(id job.ID, a *submit.Array) error {
	switch {
	case a == nil && id.Task != 0:
		return errors.New("-t is missing, but the job ID has the task " + id.String())
	case a != nil && (id.Task < a.First || id.Task > a.Last || (id.Task-a.First)%a.Step != 0):
		return errors.New("-t " + a.String() + ": " + id.String() + " is not one of its tasks")
	}
	return nil
}

// translateTask reads the start of a task.
func translateTask(q *api.TaskStart) (*agent.TaskStart, *api.Error) {
	id, err := translateID(api.ID{Job: q.Job, Task: q.Task}, false)
	if err != nil {
		return nil, err
	}
	f := fields{}
	t := &agent.TaskStart{
		Job: id, Key: f.line("key", q.Key), Owner: f.line("owner", q.Owner),
		Command: f.words(q.Command, q.CommandBase64), Dir: f.directory(q.Directory, q.DirectoryBase64),
		Env: f.environment(q.Environment, q.EnvironmentBase64),
	}
	switch {
	case f.err != nil:
	case t.Key == "":
		f.err = errors.New("key is empty: it is needed to tell a repeated call from a new task")
	case len(t.Command) == 0 || t.Command[0] == "":
		f.err = errors.New("command is empty")
	}
	if f.err != nil {
		return nil, refuse(api.InvalidArgument, "task of job %s: %v", id, f.err)
	}
	return t, nil
}

// fields checks fields for bytes that Unix does not allow in them, and keeps the first error.
type fields struct{ err error }

func (f *fields) wrong(name, value, expected string) {
	if f.err == nil {
		if len(value) > 80 {
			value = value[:80] + "…"
		}
		f.err = &fieldError{name, value, expected}
	}
}

// fieldError is a value that a field cannot have.
type fieldError struct{ name, value, expected string }

func (e *fieldError) Error() string {
	return e.name + ": " + strconv.Quote(e.value) + ", expected " + e.expected
}

// line returns a text that has to fit into lines of files.
func (f *fields) line(name, value string) string {
	if strings.ContainsAny(value, "\x00\n\r") {
		f.wrong(name, value, "one line")
	}
	return value
}

// text returns a text that is in one of two fields.
func (f *fields) text(name, plain string, encoded []byte) string {
	if plain != "" && encoded != nil {
		f.wrong(name, plain, "either that or "+name+"_base64")
	}
	if plain == "" {
		return string(encoded)
	}
	return plain
}

func (f *fields) directory(plain string, encoded []byte) string {
	dir := f.text("directory", plain, encoded)
	if dir != "" && !path.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		f.wrong("directory", dir, "an absolute path")
	}
	return dir
}

func (f *fields) words(plain []string, encoded [][]byte) []string {
	if plain != nil && encoded != nil {
		f.wrong("command", strings.Join(plain, " "), "either that or command_base64")
	}
	words := plain
	for _, w := range encoded {
		words = append(words, string(w))
	}
	for _, w := range words {
		if strings.ContainsRune(w, 0) {
			f.wrong("command", w, "a word without NUL")
		}
	}
	return words
}

// environment returns the variables in the order of their names.
func (f *fields) environment(plain map[string]string, encoded map[string][]byte) []string {
	all := maps.Clone(plain)
	if all == nil {
		all = map[string]string{}
	}
	for name, v := range encoded {
		if _, ok := all[name]; ok {
			f.wrong("environment", name, "a name either there or in environment_base64")
		}
		all[name] = string(v)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			f.wrong("environment", name, "the name of a variable")
		}
		if strings.ContainsRune(all[name], 0) {
			f.wrong("environment", name+"="+all[name], "a value without NUL")
		}
		list = append(list, name+"="+all[name])
	}
	return list
}
