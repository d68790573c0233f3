package foreground

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/nss"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Command is one call of execd run. The zero value of a field is not a default.
type Command struct {
	Args           []string // words after "execd run"
	Stdin          *os.File
	Stdout, Stderr io.Writer
	Executable     string // path of execd itself: the shepherd lies beside it
}

// Run carries the command out and returns the exit status. The error, if there
// is one, has not been shown yet: with a *UsageError the status is ExitUsage.
func (c *Command) Run() (int, error) {
	session, err := c.prepare()
	if err != nil {
		var usageError *UsageError
		var syntax *submit.Error
		if errors.As(err, &usageError) || errors.As(err, &syntax) {
			return ExitUsage, err
		}
		return ExitCannotRun, err
	}
	switch {
	case session.own.Help || session.request.Help:
		_, err := io.WriteString(c.Stdout, usage()+"\n"+submit.Usage())
		return 0, err
	case session.request.DryRun:
		return 0, session.show(c.Stdout)
	}
	return session.run()
}

// session is a command that has been understood.
type session struct {
	*Command
	own     Options
	request *submit.Request
	order   *launch.Order
	spool   string
}

// prepare reads everything that was said and checks it, before anything is
// made.
func (c *Command) prepare() (*session, error) {
	s := &session{Command: c}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	s.request, err = submit.Parse(submit.Input{
		Args: c.Args, RequestFiles: requestFiles(), ReadFile: os.ReadFile, ReadStdin: c.readStdin,
		Env: os.Environ(), Cwd: cwd, OwnOption: s.own.take,
	})
	if err != nil {
		var syntax *submit.Error
		if !errors.As(err, &syntax) {
			err = &UsageError{err}
		}
		return nil, err
	}
	if s.request.Help || s.own.Help {
		return s, nil
	}
	caller, err := nss.System().UserID(uint32(os.Getuid()))
	if err != nil {
		return nil, err
	}
	owner := caller
	if s.own.As != "" && s.own.As != caller.Name {
		if os.Getuid() != 0 {
			return nil, &UsageError{fmt.Errorf("--as %s: only root may run jobs of other users", s.own.As)}
		}
		if owner, err = nss.System().User(s.own.As); err != nil {
			return nil, fmt.Errorf("--as %s: %w", s.own.As, err)
		}
	}
	if s.order, err = c.resolve(s, owner, cwd); err != nil {
		return nil, err
	}
	s.spool, err = spoolPath()
	if err != nil {
		return nil, err
	}
	// The number is not known yet, and no part of what can be wrong.
	_, err = s.order.Describe(job.ID{Job: 1}, jobdir.Area(s.spool), "")
	return s, err
}

// resolve finds the queue and everything else that the request names.
func (c *Command) resolve(s *session, owner *nss.User, cwd string) (*launch.Order, error) {
	cluster := qconf.Builtin(runtime.NumCPU())
	if s.own.Conf != "" {
		var err error
		if cluster, err = qconf.Load(os.DirFS(s.own.Conf), cluster); err != nil {
			return nil, inDirectory(s.own.Conf, err)
		}
	}
	queue := s.own.Queue
	names := cluster.QueueNames()
	switch {
	case queue == "" && len(names) == 1:
		queue = names[0]
	case queue == "":
		return nil, &UsageError{fmt.Errorf("there are %d queues: name one of %s with --queue", len(names), strings.Join(names, ", "))}
	}
	if _, err := cluster.Queue(queue); err != nil {
		return nil, &UsageError{fmt.Errorf("--queue %s: there is no such queue; there are %s", queue, strings.Join(names, ", "))}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	order, err := launch.Resolve(cluster, s.request, queue, host)
	if err != nil {
		return nil, err
	}
	order.Owner = owner
	order.Submitted = time.Now()
	order.SubmitEnv, order.SubmitDir = os.Environ(), cwd
	order.HomeOf = func(name string) (string, error) {
		u, err := nss.System().User(name)
		if err != nil {
			return "", err
		}
		return u.Home, nil
	}
	order.SGERoot = os.Getenv("SGE_ROOT")
	order.SGECell = "default"
	if cell := os.Getenv("SGE_CELL"); cell != "" {
		order.SGECell = cell
	}
	order.BinaryPath = filepath.Dir(c.Executable)
	order.Arch = launch.Arch(runtime.GOARCH)
	order.Terminal = true
	order.Privileged = os.Getuid() == 0
	return order, nil
}

// inDirectory puts the name of the configuration directory before the names of
// its files.
func inDirectory(dir string, err error) error {
	list := qconf.Errors(err)
	if len(list) == 0 {
		return fmt.Errorf("--conf %s: %w", dir, err)
	}
	all := make([]error, len(list))
	for i, e := range list {
		all[i] = fmt.Errorf("%s/%w", strings.TrimRight(dir, "/"), e)
	}
	return errors.Join(all...)
}

// requestFiles are the default request files of sge_request(5) that exist.
func requestFiles() []submit.File {
	var paths []string
	if root := os.Getenv("SGE_ROOT"); root != "" {
		cell := os.Getenv("SGE_CELL")
		if cell == "" {
			cell = "default"
		}
		paths = append(paths, filepath.Join(root, cell, "common", "sge_request"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, ".sge_request"))
	}
	paths = append(paths, ".sge_request")
	var files []submit.File
	for _, p := range paths {
		if text, err := os.ReadFile(p); err == nil {
			files = append(files, submit.File{Name: p, Text: text})
		}
	}
	return files
}

// readStdin reads the script from standard input, unless that is a terminal at
// which nobody knows that a script is expected.
func (c *Command) readStdin() ([]byte, error) {
	if isTerminal(c.Stdin) && len(c.Args) == 0 {
		return nil, errNoCommand
	}
	return io.ReadAll(c.Stdin)
}

// spoolPath is where jobs without a daemon have their directories.
func spoolPath() (string, error) {
	if os.Getuid() == 0 {
		return "/var/spool/execd", nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "execd"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("no place for the job: set XDG_STATE_HOME or HOME to an absolute path")
	}
	return filepath.Join(home, ".local", "state", "execd"), nil
}

// run runs the job, or the tasks of an array job one after another.
func (s *session) run() (int, error) {
	if notice := s.request.Notice(); len(notice) > 0 {
		s.say("accepted without effect on one host: " + strings.Join(notice, " "))
	}
	if isTerminal(s.Stdin) && s.own.Keep {
		s.say("job directories are below " + s.spool)
	}
	spool, err := jobdir.OpenSpool(s.spool)
	if err != nil {
		return ExitCannotRun, err
	}
	defer spool.Close()
	number, err := spool.NextJobID()
	if err != nil {
		return ExitCannotRun, err
	}
	if s.request.Terse {
		fmt.Fprintln(s.Stdout, terse(number, s.request.Array))
	}
	terminal := listen()
	defer terminal.stop()

	status := 0
	var records []record
	list := tasks(s.request.Array)
	for i, task := range list {
		if terminal.ended {
			break
		}
		r, code, err := s.runTask(spool, job.ID{Job: number, Task: task}, i == len(list)-1, terminal)
		if err != nil {
			return ExitCannotRun, errors.Join(err, s.writeJSON(records))
		}
		records = append(records, r)
		if status == 0 {
			status = code
		}
	}
	return status, s.writeJSON(records)
}

// tasks are the task numbers of an array job, or the 0 of one that is none.
func tasks(a *submit.Array) []int {
	if a == nil {
		return []int{0}
	}
	var list []int
	for t := range a.Tasks() {
		list = append(list, t)
	}
	return list
}

// terse is what -terse prints (sge_submit(1)).
func terse(number int, a *submit.Array) string {
	if a == nil {
		return fmt.Sprint(number)
	}
	return fmt.Sprintf("%d.%s", number, a)
}

// runTask runs one task from its directory to its outcome.
func (s *session) runTask(spool *jobdir.Spool, id job.ID, last bool, t *terminal) (record, int, error) {
	j, err := launch.Prepare(spool, s.order, id, last)
	if err != nil {
		return record{}, 0, err
	}
	if j.Unbound != "" {
		s.say("job " + id.String() + " runs unbound: " + j.Unbound)
	}
	s.mail(j.Description, job.MailAtBegin, nil)
	status, err := s.supervise(j, t)
	if err != nil {
		return record{}, 0, errors.Join(err, j.Remove(false))
	}
	outcome := launch.Collect(j.Dir, j.Description, status)
	keep := s.own.Keep || s.keeps(outcome)
	dir := ""
	if keep {
		dir = spool.JobPath(id)
	}
	r := newRecord(outcome, dir)
	s.mail(j.Description, job.MailAtEnd, outcome)
	if err := j.Remove(keep); err != nil {
		s.say("job " + id.String() + ": " + err.Error())
	}
	s.say(summary(outcome, j.Description.Name))
	return r, exitStatus(outcome), nil
}

// keeps applies KEEP_ACTIVE of execd_params (sge_conf(5)).
func (s *session) keeps(o *job.Outcome) bool {
	switch s.order.Config.ExecdParams.KeepActive {
	case qconf.KeepAll:
		return true
	case qconf.KeepFailed:
		return o.Failed != job.FailedNone
	}
	return false
}

func (s *session) writeJSON(records []record) error {
	if s.own.JSON == "" {
		return nil
	}
	b, err := formatJSON(records, s.request.Array != nil)
	if err != nil {
		return err
	}
	if s.own.JSON == "-" {
		_, err = s.Stdout.Write(b)
		return err
	}
	return os.WriteFile(s.own.JSON, b, 0o644)
}

// say prints a line for people.
func (s *session) say(text string) { fmt.Fprintln(s.Stderr, "execd: "+text) }

// show says what would run (-verify).
func (s *session) show(w io.Writer) error {
	d, err := s.order.Describe(job.ID{Job: 1}, jobdir.Area(s.spool), "")
	if err != nil {
		return err
	}
	b, err := jobdir.FormatConfig(d)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
