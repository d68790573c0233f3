package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/host/mail"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/terminal"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Command is one call of execd run. The caller must set every field.
type Command struct {
	Args                  []string // words after "execd run"
	Stdin, Stdout, Stderr *os.File
	Executable            string // path of execd itself; the shepherd is in the same directory
}

// Run runs the command and returns the exit status. A returned error has not been printed yet. With
// a *options.UsageError the status is options.ExitUsage.
func (c *Command) Run() (int, error) {
	s := &session{Command: c, own: Options{GPURoot: "/"}}
	err := s.prepare()
	if errors.Is(err, options.ErrHelp) {
		_, err := io.WriteString(c.Stdout, Help())
		return 0, err
	}
	if err != nil {
		return statusOf(err), err
	}
	if s.request.DryRun {
		return 0, s.show(c.Stdout)
	}
	return s.run()
}

// statusOf returns the exit status for a command that failed: for a usage error, or for any other
// error.
func statusOf(err error) int {
	var usageError *options.UsageError
	var syntax *submit.Error
	var unreadable *readError
	if errors.As(err, &usageError) || errors.As(err, &syntax) && !errors.As(err, &unreadable) {
		return options.ExitUsage
	}
	return ExitCannotRun
}

// session is one execution of a command.
type session struct {
	*Command
	own      Options
	caller   *userdb.User // who runs the command
	owner    *userdb.User // the owner of the job
	reader   reader       // reads the files that the command names
	request  *submit.Request
	order    *launch.Assignment
	gpus     *gpuRequest // nil if the job requests no GPUs
	spool    string      // path of the spool area
	shepherd string      // path of the shepherd's executable
	warnings []*qconf.Error
	noted    []string  // notes about jobs that were already printed
	began    time.Time // start time of the task
	keyboard *keyboard
	json     *jsonFile
}

// prepare reads and checks all input before it creates anything. It returns options.ErrHelp if only
// help was requested.
func (s *session) prepare() error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	if s.caller, err = userdb.System().UserID(uint32(os.Getuid())); err != nil {
		return err
	}
	if err := s.understand(cwd); err != nil {
		return err
	}
	if s.order, err = s.resolve(cwd); err != nil {
		return err
	}
	var ok bool
	if s.spool, ok = paths.State(os.Getuid() == 0, s.caller.Home); !ok {
		return errors.New("cannot determine the job directory: set XDG_STATE_HOME or HOME to an absolute path")
	}
	if s.shepherd, err = launch.FindShepherd(s.Executable); err != nil {
		return err
	}
	if s.shepherd, err = launch.ShepherdFor(s.order.Config, s.shepherd); err != nil {
		return err
	}
	// The real number is unknown yet, and cannot cause an error.
	_, err = s.order.Describe(job.ID{Job: 1}, jobdir.Area(s.spool), "")
	return err
}

// understand reads options, request files and script.
func (s *session) understand(cwd string) error {
	if len(s.Args) == 0 && terminal.Is(s.Stdin) {
		return options.Usagef("no job script: name one, or pipe it to standard input")
	}
	// The options of execd run come first: they name the user whose rights apply to files.
	args, err := submit.TakeOwn(submit.Qsub, s.Args, s.own.take)
	switch {
	case errors.Is(err, options.ErrHelp):
		return options.ErrHelp
	case err != nil:
		return options.Usagef("%s", err)
	}
	if err := s.findOwner(); err != nil {
		return err
	}
	requests, err := s.requestFiles()
	if err != nil {
		return err
	}
	var textEnv []string
	if s.reader.rights != nil {
		textEnv = []string{} // scripts of the user must not get root's environment
	}
	s.request, err = submit.Parse(submit.Input{
		Args: args, RequestFiles: requests, ReadFile: s.reader.typed, ReadOptions: s.readOptions, ReadStdin: s.readStdin,
		Env: os.Environ(), TextEnv: textEnv, Cwd: cwd,
	})
	if err == nil && s.request.Help {
		return options.ErrHelp
	}
	return err
}

// readOptions reads a file named by -@.
func (s *session) readOptions(path string, nested bool) ([]byte, error) {
	if nested {
		return s.reader.nested(path)
	}
	return s.reader.typed(path)
}

// findOwner determines the owner of the job.
func (s *session) findOwner() error {
	s.owner = s.caller
	if len(s.own.Devices) > 0 && os.Getuid() != 0 {
		return options.Usagef("--device: only root may grant devices")
	}
	if s.own.As == "" || s.own.As == s.caller.Name {
		return nil
	}
	if os.Getuid() != 0 {
		return options.Usagef("--as %s: only root may run jobs of other users", s.own.As)
	}
	var err error
	if s.owner, err = userdb.System().User(s.own.As); err != nil {
		return fmt.Errorf("--as %s: %w", s.own.As, err)
	}
	groups, err := userdb.System().Groups(s.owner.Name, s.owner.GID)
	if err != nil {
		return fmt.Errorf("--as %s: %w", s.own.As, err)
	}
	s.reader = reader{as: s.owner.Name, rights: &userfile.Rights{UID: s.owner.UID, GID: s.owner.GID, Groups: groups}}
	return nil
}

// readStdin reads the script from standard input.
func (s *session) readStdin() ([]byte, error) {
	if terminal.Is(s.Stdin) {
		s.say("reading the job script from the terminal; Ctrl-D ends it")
	}
	return readAll(s.Stdin, "standard input")
}

// run runs the job, or the tasks of an array job one after the other.
func (s *session) run() (int, error) {
	s.notices()
	var err error
	if s.json, err = createJSON(s.own.JSON, s.Stdout); err != nil {
		return ExitCannotRun, err
	}
	defer s.json.discard()
	spool, err := jobdir.OpenSpool(s.spool)
	if err != nil {
		return ExitCannotRun, err
	}
	defer spool.Close()
	err = s.withGPUs(func() error {
		s.order.Groups, err = launch.OpenGroups(spool, s.order)
		return err
	})
	if err != nil {
		return ExitCannotRun, err
	}
	defer s.order.Groups.Close()
	if g := s.order.Groups; g != nil && g.Warning != "" {
		s.say("warning: " + g.Warning)
	}
	s.sweep(spool)
	number, err := spool.NextJobID()
	if err != nil {
		return ExitCannotRun, err
	}
	if s.request.Terse {
		printer.Fprintf(s.Stdout, "%s\n", terse(number, s.request.Array))
	}
	s.keyboard = listen()
	defer s.keyboard.stop()

	records, status, err := s.runTasks(spool, number)
	return status, errors.Join(err, s.json.write(records, s.request.Array != nil))
}

// sweep removes the files of jobs whose execd run was killed.
func (s *session) sweep(spool *jobdir.Spool) {
	swept, err := launch.Sweep(spool, s.order.Groups, userdb.System().User)
	if err != nil {
		s.complain(err)
	}
	for _, old := range swept {
		s.say("cleaned up behind an execd run that was killed: " + summary(old.Outcome, old.Description.Name, false))
		if old.Err != nil {
			s.complain(old.Err)
		}
	}
}

// runTasks runs all tasks of a job. It returns their outcomes, and the first exit status that is
// not 0. The error says why it stopped early.
func (s *session) runTasks(spool *jobdir.Spool, number int) (records []record, status int, err error) {
	array := submit.Array{Step: 1} // a single task with number 0
	if s.request.Array != nil {
		array = *s.request.Array
	}
	fail := func(id job.ID, err error) ([]record, int, error) {
		if status == 0 {
			status = ExitCannotRun
		}
		return append(records, newRecord(notStarted(id, err), "")), status, err
	}
	if err := launch.StoreScript(spool, s.order, number); err != nil {
		return fail(job.ID{Job: number, Task: array.First}, err)
	}
	defer func() {
		if e := launch.RemoveScript(spool, s.order, number); e != nil {
			s.complain(e)
		}
	}()
	for task := range array.Tasks() {
		id := job.ID{Job: number, Task: task}
		if s.keyboard.endRequested() {
			break
		}
		r, code, err := s.runTask(spool, id)
		if err != nil {
			return fail(id, err)
		}
		records = append(records, r)
		if status == 0 {
			status = code
		}
	}
	if s.request.Array != nil {
		s.say(arraySummary(number, s.request.Name, array.Len(), records))
	}
	return records, status, nil
}

// runTask runs one task, from creating its directory to its outcome.
func (s *session) runTask(spool *jobdir.Spool, id job.ID) (record, int, error) {
	var j *launch.Job
	err := s.withGPUs(func() (err error) {
		j, err = launch.Prepare(spool, s.order, id)
		return err
	})
	if err != nil {
		return record{}, 0, err
	}
	if j.Unbound != "" {
		s.say("job " + id.String() + " (" + s.request.Name + ") runs unbound: " + j.Unbound)
	}
	s.note(id, j.Notes)
	s.began = time.Now()
	s.mail(mail.AtBegin(j.Description, s.began))
	outcome, err := s.supervise(j)
	if err != nil {
		return record{}, 0, errors.Join(err, j.Remove(false))
	}
	dir := ""
	if s.own.Keep || s.keeps(outcome) {
		dir = spool.JobPath(id)
	}
	s.mail(mail.AtEnd(j.Description, outcome, false))
	if err := j.Remove(dir != ""); err != nil {
		s.complain(fmt.Errorf("job %s: %w", id, err))
	}
	rerunnable := s.request.Rerun == job.Yes || s.request.Rerun == job.Default && s.order.Queue.Rerun
	s.say(summary(outcome, s.request.Name, rerunnable))
	if dir != "" {
		s.say("the job directory has been kept: " + dir)
	}
	return newRecord(outcome, dir, j.Notes...), exitStatus(outcome), nil
}

// note prints notes about the limits of a job; for an array job once.
func (s *session) note(id job.ID, notes []string) {
	for _, n := range notes {
		if !slices.Contains(s.noted, n) {
			s.noted = append(s.noted, n)
			s.say("job " + id.String() + " (" + s.request.Name + "): " + n)
		}
	}
}

func (s *session) mailer() *mail.Mailer {
	return &mail.Mailer{Command: s.order.Config.Mailer, Users: s.order.Lookup}
}

// mail sends the mail that -m requests. An error is printed and does not fail the job.
func (s *session) mail(m mail.Message, wanted bool) {
	mailer := s.mailer()
	if !wanted || mailer.Check() != nil { // notices has already reported this
		return
	}
	if err := mailer.Send(context.Background(), s.owner, m); err != nil {
		s.complain(fmt.Errorf("cannot send mail: %w", err))
	}
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

// notices prints requests that have no effect, and doubtful settings of the configuration.
func (s *session) notices() {
	for _, w := range s.warnings {
		s.complain(fmt.Errorf("warning: %w", w))
	}
	if words := s.gpus.without(s.request.Notice()); len(words) > 0 {
		s.say("accepted without effect on one host: " + strings.Join(words, ", "))
	}
	if s.request.MailOptions != 0 {
		if err := s.mailer().Check(); err != nil {
			s.complain(fmt.Errorf("no mail will be sent: %w", err))
		}
	}
}

// terse returns the output of -terse (sge_submit(1)).
func terse(number int, a *submit.Array) string {
	if a == nil {
		return fmt.Sprint(number)
	}
	return fmt.Sprintf("%d.%s", number, a)
}

// say prints a line for people.
func (s *session) say(text string) { printer.Fprintf(s.Stderr, "execd: %s\n", text) }

// complain prints an error, each of its lines like say.
func (s *session) complain(err error) {
	for _, line := range printer.ErrorLines(err) {
		printer.Fprintf(s.Stderr, "execd: %s\n", printer.Trusted(line))
	}
}

// show prints what would run (-verify).
func (s *session) show(w io.Writer) error {
	d, err := s.order.Describe(job.ID{Job: 1}, jobdir.Area(s.spool), "")
	if err != nil {
		return err
	}
	b, err := jobdir.FormatConfig(d)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, printable.Lines(string(b)))
	return err
}
