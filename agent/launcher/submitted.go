package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// Site holds the settings of root's configuration for the programs and variables of jobs.
type Site struct {
	Host   string // the name of this host
	Config *qconf.Configuration
	Objects
	// SGERoot, SGECell and BinaryPath are as in launch.Assignment.
	SGERoot, SGECell, BinaryPath string
	Arch                         string
}

// verifies reports whether root's configuration has a verifier for all jobs (jsv_url of sge_conf(5)).
func (s *Site) verifies() bool { return s.Config != nil && s.Config.JSVURL != "" }

// checkSubmitted refuses a job that its owner has not submitted. It describes the job again from
// what the owner has submitted, and compares.
func (r *Rules) checkSubmitted(p *launch.Plan, s *submitted, area jobdir.Area, script []byte) error {
	d := p.Description
	if s == nil || len(s.Text) == 0 || !submission.ValidKey(s.Key) {
		return errors.New("the order has no submission of the job")
	}
	owner, err := r.user(d.Owner)
	if err != nil {
		return err
	}
	of, is, err := r.Submissions.known.read(s)
	if err != nil {
		return err
	}
	digest, err := r.Submissions.Find(owner.UID, s.Key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("user %s has not submitted job %d", d.Owner, d.ID.Job)
	case err != nil:
		return &failure{err}
	case is != digest:
		return fmt.Errorf("user %s has submitted something other than the front's description of job %d", d.Owner, d.ID.Job)
	case !of.Binary && submission.ScriptSum(script) != of.Script:
		return fmt.Errorf("the script of job %d is not the one that user %s has submitted", d.ID.Job, d.Owner)
	}
	for _, check := range []func() error{
		func() error { return checkTask(d, of) },
		func() error { return r.checkDescribed(p, of, owner, area, script) },
		func() error { return r.checkCommands(d) },
		func() error { return r.checkQueue(d) },
		func() error { return checkLimits(d, of) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if err := r.Submissions.Bind(owner.UID, s.Key, d.ID.Job); errors.Is(err, errBound) {
		return fmt.Errorf("job %d: %w", d.ID.Job, err)
	} else if err != nil {
		return &failure{err}
	}
	return nil
}

// failure is why the launcher cannot determine whether an order may be given: a disk that is full, or a directory of users
// that does not answer.
type failure struct{ err error }

// Error returns the text.
func (f *failure) Error() string { return "cannot check the order: " + f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// checkTask refuses tasks that the job does not have.
func checkTask(d *job.Description, s *submission.Submission) error {
	a, task := s.Array, d.ID.Task
	switch {
	case a == nil && task != 0:
		return fmt.Errorf("job %d has no task %d: it is not an array job", d.ID.Job, task)
	case a != nil && (a.Step < 1 || task < a.First || task > a.Last || (task-a.First)%a.Step != 0):
		return fmt.Errorf("job %d has no task %d", d.ID.Job, task)
	}
	return nil
}

// checkDescribed compares the description with the one that results from a submission.
func (r *Rules) checkDescribed(p *launch.Plan, s *submission.Submission, owner *userdb.User, area jobdir.Area, script []byte) error {
	d := p.Description
	if d.Host != r.Site.Host {
		return fmt.Errorf("the host %q is not this host, %s", d.Host, r.Site.Host)
	}
	if len(p.Hosts) == 0 {
		return errors.New("the plan has no host in pe_hostfile")
	}
	for _, h := range p.Hosts {
		if h.Host != r.Site.Host {
			return fmt.Errorf("the host %q in pe_hostfile is not this host, %s", h.Host, r.Site.Host)
		}
	}
	o := &launch.Assignment{
		Request: s.Request(script), Owner: owner, Host: d.Host, Config: r.Site.Config,
		Queue: qconf.QueueInstance{
			Queue: d.Queue, Tmpdir: d.QueueTmpdir, Shell: d.Command.Shell, ShellStartMode: d.Command.StartMode, StarterMethod: d.StarterMethod,
		},
		Slots: d.HostSlots, Hosts: p.Hosts, Restarted: d.Restarted,
		SubmitEnv: s.Environment(), SubmitDir: string(s.Directory), Lookup: r.user, Privileged: true,
		SGERoot: r.Site.SGERoot, SGECell: r.Site.SGECell, BinaryPath: r.Site.BinaryPath, Arch: r.Site.Arch,
	}
	if d.PE != nil {
		control := slices.ContainsFunc(d.Environment, func(v string) bool { return strings.HasPrefix(v, "SGE_RSH_COMMAND=") })
		o.PE, o.TotalSlots = &qconf.ParallelEnvironment{Name: d.PE.Name, ControlSlaves: control}, d.PE.Slots
	}
	others := len(otherUsers(d)) > 0
	if q := r.Site.queue(d.Queue); q != nil && others {
		o.Queue.Limits = q.Limits
	}
	if err := interactive(o, s, d); err != nil {
		return err
	}
	if d.Ckpt != nil {
		o.Ckpt = &qconf.Checkpoint{Name: d.Ckpt.Name, Dir: d.Ckpt.Dir}
	}
	want, err := o.Draft(d.ID, area, d.Tmpdir)
	if err != nil {
		return err
	}
	if !s.Interactive && !want.Command.OwnShell && !slices.Contains(r.Site.Shells, d.Command.Shell) {
		return fmt.Errorf("the shell %q is not one of the queues in root's configuration: %s", d.Command.Shell, strings.Join(r.Site.Shells, ", "))
	}
	if d.Command.StartMode == job.RawExec {
		return fmt.Errorf("shell_start_mode %s is not possible with --front-user", d.Command.StartMode)
	}
	want.Command.StartMode, want.Command.LoginShell = d.Command.StartMode, d.Command.LoginShell // of the queue and the host
	if len(d.Command.Args)+len(want.Command.Args) == 0 {
		d.Command.Args = want.Command.Args // an empty list is none
	}
	for _, c := range []struct {
		what     string
		is, want any
	}{
		{"name", d.Name, want.Name},
		{"account", d.Account, want.Account},
		{"command", d.Command, want.Command},
		{"working directory", d.Cwd, want.Cwd},
		{"input and output", d.Streams, want.Streams},
		{"merged error", d.MergeError, want.MergeError},
		{"terminal", d.Terminal, want.Terminal},
	} {
		if !reflect.DeepEqual(c.is, c.want) {
			return fmt.Errorf("the %s of job %d is not the one that user %s has submitted: %+v, expected %+v", c.what, d.ID.Job, d.Owner, c.is, c.want)
		}
	}
	if d.PE != nil {
		if p := d.PE; p.StdoutPath != want.PE.StdoutPath || p.StderrPath != want.PE.StderrPath {
			return fmt.Errorf("the files of the parallel environment of job %d are not those that user %s has submitted", d.ID.Job, d.Owner)
		}
		d.PE.StdoutPath, d.PE.StderrPath = want.PE.StdoutPath, want.PE.StderrPath
	}
	// The front may give a job private files, but not take them from it.
	if !d.PrivateTmp && (s.PrivateTmp || r.Site.Config.ExecdParams.PrivateTmp.For(d.Queue)) {
		return fmt.Errorf("job %d lacks the private files (private_tmp) that user %s has requested, or that root's configuration has for queue %s", d.ID.Job, d.Owner, d.Queue)
	}
	// Whether a job is marked, and can be found again, is root's decision.
	d.AddGroupKill, d.SkipGroupLimit = want.AddGroupKill, want.SkipGroupLimit
	d.ScriptTimeout = want.ScriptTimeout
	if others { // the front cannot have them stopped halfway
		d.ProcedureLimits = want.ProcedureLimits
	}
	p.Processes = launch.MostProcesses(r.Site.Config, d.HostSlots)
	d.Name, d.Account, d.Command, d.Cwd, d.Streams = want.Name, want.Account, want.Command, want.Cwd, want.Streams
	return checkVariables(d, want)
}

// interactive makes the assignment of a job of qrsh or qlogin one of an interactive job. The front chooses the size of
// the terminal, and whether there is a terminal or pipes.
func interactive(o *launch.Assignment, s *submission.Submission, d *job.Description) error {
	if s.Interactive != (d.Terminal != nil) {
		return fmt.Errorf("user %s has submitted job %d by another command: only qrsh and qlogin submit interactive jobs", d.Owner, d.ID.Job)
	}
	if !s.Interactive {
		return nil
	}
	o.Interactive = &launch.Interactive{Rows: uint16(d.Terminal.Rows), Cols: uint16(d.Terminal.Cols), Pipes: d.Terminal.Pipes, Login: s.Login}
	for _, v := range d.Environment {
		if term, ok := strings.CutPrefix(v, "TERM="); ok {
			o.Interactive.Term = term
		}
	}
	if term := o.Interactive.Term; strings.Trim(term, termCharacters) != "" || len(term) > mostTerm {
		return fmt.Errorf("TERM %.200q is not a terminal type: expected at most %d letters, digits and %s", term, mostTerm, "._+-")
	}
	return nil
}

// Terminal types are names of files below a directory of terminfo(5).
const (
	termCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"
	mostTerm       = 64
)

// checkVariables compares the environment with the one that results from a submission. Variables of
// resource maps follow after these.
func checkVariables(d, want *job.Description) error {
	if len(d.Environment) < len(want.Environment) {
		return fmt.Errorf("the environment of job %d lacks variables that user %s has submitted", d.ID.Job, d.Owner)
	}
	for i, v := range want.Environment {
		if d.Environment[i] != v {
			return fmt.Errorf("the environment of job %d is not the one that user %s has submitted: %.200q, expected %.200q", d.ID.Job, d.Owner, d.Environment[i], v)
		}
	}
	more := d.Environment[len(want.Environment):]
	trusted := slices.Clone(want.Trusted)
	for _, v := range more {
		name, _, _ := strings.Cut(v, "=")
		if !launch.IsElement(name) {
			return fmt.Errorf("the environment of job %d has %.200q, which user %s has not submitted", d.ID.Job, v, d.Owner)
		}
		trusted = append(trusted, name)
	}
	d.Environment, d.Trusted = append(want.Environment, more...), trusted
	return nil
}

// procedureKinds are the attributes whose programs may run as other users than the owner.
var procedureKinds = []string{"prolog", "epilog", "start_proc_args", "stop_proc_args"}

// checkCommands refuses programs of the site that root's configuration does not have: they run with the rights
// of the owner.
func (r *Rules) checkCommands(d *job.Description) error {
	type command struct{ what, text string }
	list := []command{{"prolog", d.Prolog}, {"epilog", d.Epilog}, {"starter_method", d.StarterMethod}}
	for _, c := range []command{{"suspend_method", d.SuspendMethod}, {"resume_method", d.ResumeMethod}, {"terminate_method", d.TerminateMethod}} {
		if strings.Contains(c.text, "/") { // otherwise it is the name of a signal
			list = append(list, c)
		}
	}
	if d.PE != nil {
		list = append(list, command{"start_proc_args", d.PE.Start}, command{"stop_proc_args", d.PE.Stop})
	}
	if c := d.Ckpt; c != nil {
		list = append(list, command{"ckpt_command", c.Command}, command{"migr_command", c.MigrationCommand},
			command{"restart_command", c.RestartCommand}, command{"clean_command", c.CleanCommand})
	}
	for _, c := range list {
		if user, _ := job.Procedure(c.text); user != "" && user != d.Owner && slices.Contains(procedureKinds, c.what) {
			continue // see checkProcedures
		}
		if c.text != "" && !slices.Contains(r.Site.Commands, c.text) {
			return fmt.Errorf("%s %q is not in root's configuration: with --front-user, set it as root with qconf", c.what, c.text)
		}
	}
	return nil
}

// checkLimits refuses limits above the user's requests.
func checkLimits(d *job.Description, s *submission.Submission) error {
	for i, l := range d.Limits {
		resource := job.Resource(i)
		for _, c := range []struct {
			prefix string
			hard   bool
			value  uint64
		}{{"s_", false, l.Soft}, {"h_", true, l.Hard}} {
			if most, ok := s.Ceiling(resource, c.hard); ok && c.value > most {
				return fmt.Errorf("the limit %s of job %d is %s, above the %s that user %s has requested",
					c.prefix+resource.String(), d.ID.Job, resource.Format(c.value), resource.Format(most), d.Owner)
			}
		}
	}
	return nil
}
