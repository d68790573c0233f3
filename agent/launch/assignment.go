package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Assignment is a job that has been granted a queue instance on this host, with its request, its
// owner, and the configuration of the host.
type Assignment struct {
	Request *submit.Request
	Owner   *userdb.User
	Host    string // name of this host

	Queue qconf.QueueInstance
	// ProcedureLimits are the limits of the queue if the limits in Queue have been merged with the
	// requests of the job; nil means the limits in Queue.
	ProcedureLimits *job.Limits
	Config          *qconf.Configuration       // of this host
	PE              *qconf.ParallelEnvironment // nil for a serial job
	Slots           int                        // granted on this host; 1 for a serial job
	// TotalSlots is the number of slots on all hosts; 0 means Slots.
	TotalSlots int
	// Hosts are all granted queue instances, that of the master task first: the lines of
	// pe_hostfile (sge_pe(5)). nil means only the queue instance of this assignment.
	Hosts []jobdir.PEHost
	Ckpt  *qconf.Checkpoint // nil without -ckpt
	// Complexes say which limits are requested for the whole job; nil for none.
	Complexes *qconf.Complexes

	// Restarted reports whether the job has run before. CheckpointPID is the process ID of its
	// first process in that run, for a job that continues from a checkpoint. The outcome of the
	// previous run has both values.
	Restarted     job.Restart
	CheckpointPID int

	Submitted time.Time
	// SubmitEnv and SubmitDir are the environment and working directory of the
	// submission, for the SGE_O_ variables.
	SubmitEnv []string
	SubmitDir string
	// Submission is the key under which the user has confirmed the job to the launcher; it is empty
	// for the job of a trusted master. See package internal/submission.
	Submission string
	// SubmitGID is the primary group of the submission, with which the job runs if its
	// owner is in it here, too (USE_QSUB_GID of sge_conf(5)); 0 for that of the owner.
	SubmitGID int
	// Lookup finds a user of this host, for paths that begin with ~user, and for users of
	// procedures.
	Lookup func(name string) (*userdb.User, error)

	// AdminUser is the user whose procedures, besides root's, are trusted to run as other users;
	// empty for none.
	AdminUser string

	SGERoot, SGECell string
	BinaryPath       string // directory of execd's executables
	Arch             string // as Grid Engine names it: lx-amd64

	// Groups makes the control group of the job; nil for none.
	Groups *Groups
	// Devices are the device files that the job may open although cgroups_params (devices) denies
	// them to jobs.
	Devices []string
	// Elements are the elements of resource maps that were granted to the job on this host, by complex.
	Elements map[string][]string
	// Amounts are the granted amounts of other consumables for the whole job, if the master sends
	// them.
	Amounts map[string]float64
	// GrantedBinding is the binding that the master has chosen; nil where this host chooses.
	GrantedBinding *GrantedBinding
	// GPUs are the GPUs of this host; nil if it offers none.
	GPUs *gpu.Inventory
	// GPUCount is how many of them the job gets if its master counts GPUs with the consumable
	// GPUComplex, but does not say which: Prepare chooses. 0 for a job without GPUs, and for one whose
	// Elements names them.
	GPUCount   int
	GPUComplex string
	// GPUAmong are the numbers of the GPUs from which Prepare chooses; nil for all that the host offers.
	GPUAmong []string

	// BookedMemory is the memory, in bytes, that the job has booked for each slot from the memory
	// pool of this host; 0 without a pool. It limits the job. BookedAs is the complex that it comes
	// from.
	BookedMemory uint64
	BookedAs     string

	// Record is the content of the file "start" of the job directory; nil for none. The file exists
	// as soon as the job does, so that the caller can identify the job later.
	Record []byte

	// Interactive gives the job a terminal to attach to; nil for none.
	Interactive *Interactive

	// Relayed says that the command of the request starts another command and connects it with a
	// client of Grid Engine: see job.Description.
	Relayed bool

	// KeepTaskID keeps $TASK_ID in the paths of a job that is not an array job, as Open Cluster Scheduler
	// does. Otherwise it is 0.
	KeepTaskID bool

	// Terminal leaves output that was not sent elsewhere by -o or -e on the
	// standard streams of the shepherd: for a job in the foreground.
	Terminal bool
	// Privileged says that the shepherd runs as root. Otherwise the job runs as the user of this
	// process, and rules about other users do not apply.
	Privileged bool
}

// Interactive describes a job to which a client attaches, see Job.OpenTerminal. Its standard
// streams are a pseudo terminal or pipes. It runs the command of the request with the shell of the
// passwd entry, as qrsh does, or that shell alone, as qlogin does; starter methods and the shell of
// the queue only apply to batch jobs.
type Interactive struct {
	Rows, Cols uint16 // size of the terminal; 0 if unknown
	Term       string // TERM; empty for DefaultTerm
	Pipes      bool   // a pipe for each standard stream, instead of a pseudo terminal
	Login      bool   // a login shell instead of a command
	// Awaited says that a client waits to attach as soon as the job runs. If it does not attach,
	// the agent terminates the job as if the client had disappeared.
	Awaited bool
}

// GrantedBinding holds the processors of this host that a master has chosen.
type GrantedBinding struct {
	Instance binding.Instance
	// Trees have the form of topology.Topology.Marked; none for no binding.
	Trees []string
}

// DefaultTerm is the value of TERM if the client's terminal is unknown.
const DefaultTerm = "dumb"

// Resolve looks up the names of a request in a cluster's configuration and returns the assignment
// to a queue on a host. Errors contain the unknown name and the existing ones.
func Resolve(c *qconf.Cluster, r *submit.Request, queue, host string) (*Assignment, error) {
	instance, err := c.Instance(queue, host)
	if err != nil {
		return nil, err
	}
	o := &Assignment{Request: r, Host: host, Queue: instance, Config: c.Config(host), Slots: 1, Complexes: c.Complexes()}
	if r.PE != nil {
		if o.PE, o.Slots, err = grantPE(c, r.PE, instance); err != nil {
			return nil, err
		}
	}
	if o.Ckpt, err = Checkpoint(c, instance, r.Checkpoint); err != nil {
		return nil, err
	}
	o.BookMemory(c)
	return o, errors.Join(o.checkLimits(), o.checkArray())
}

// BookMemory sets BookedMemory and BookedAs according to the configuration, as the scheduler books it.
func (o *Assignment) BookMemory(c *qconf.Cluster) {
	hard := o.hardRequests()
	o.BookedMemory, o.BookedAs = c.BookedMemory(o.Host, hard), c.BookedAs(hard)
}

// Checkpoint looks up the checkpointing environment that a job in a queue requests; nil for the
// name "".
func Checkpoint(c *qconf.Cluster, q qconf.QueueInstance, name string) (*qconf.Checkpoint, error) {
	if name == "" {
		return nil, nil
	}
	if !slices.Contains(q.CkptList, name) {
		return nil, fmt.Errorf("-ckpt %s: queue %s does not offer this checkpointing environment; its ckpt_list is %s",
			name, q.Queue, listOrNone(q.CkptList))
	}
	ckpt, err := c.Checkpoint(name)
	if err != nil {
		return nil, fmt.Errorf("-ckpt %s: %w", name, err)
	}
	return ckpt, nil
}

// checkArray refuses array jobs with more tasks than a master would take
// (sge_conf(5), max_aj_tasks).
func (o *Assignment) checkArray() error {
	a, most := o.Request.Array, o.Config.MaxAJTasks
	if a != nil && most > 0 && a.Len() > most {
		return fmt.Errorf("-t %s: the job has %d tasks, max_aj_tasks allows %d", a, a.Len(), most)
	}
	return nil
}

// grantPE gives a parallel job its slots: the largest requested number that the queue and the PE
// have.
func grantPE(c *qconf.Cluster, want *submit.ParallelRequest, q qconf.QueueInstance) (*qconf.ParallelEnvironment, int, error) {
	var most int
	for _, name := range q.PEList {
		if !matches(want.Name, name) {
			continue
		}
		pe, err := c.PE(name)
		if err != nil {
			return nil, 0, fmt.Errorf("-pe %s: %w", want, err)
		}
		available := min(pe.Slots, q.Slots)
		if fixed := pe.AllocationRule.PerHost; fixed != 0 && fixed <= available {
			if n, ok := want.Slots(fixed); ok && n == fixed {
				return pe, n, nil
			}
			return nil, 0, fmt.Errorf("-pe %s: the allocation_rule of %s places %d slots on each host, and this is the only one", want, name, fixed)
		}
		if n, ok := want.Slots(available); ok {
			return pe, n, nil
		}
		most = max(most, available)
	}
	if most == 0 {
		return nil, 0, fmt.Errorf("-pe %s: queue %s does not offer such a parallel environment; its pe_list is %s",
			want, q.Queue, listOrNone(q.PEList))
	}
	return nil, 0, fmt.Errorf("-pe %s: this host has only %d slots", want, most)
}

func listOrNone(list []string) string {
	if len(list) == 0 {
		return "NONE"
	}
	return strings.Join(list, " ")
}

// Describe returns the description of the job with an ID. It creates nothing, so that an invalid
// assignment is refused before anything of the job exists. If tmpdir is empty, the TMPDIR has its
// usual name.
func (o *Assignment) Describe(id job.ID, spool jobdir.Area, tmpdir string) (*job.Description, error) {
	d, err := o.Draft(id, spool, tmpdir)
	if err == nil {
		err = jobdir.Check(d)
	}
	return d, err
}

// Draft returns the same description as Describe, without the check whether it can be written. The launcher compares it
// with the front's, which it checks anyway.
func (o *Assignment) Draft(id job.ID, spool jobdir.Area, tmpdir string) (*job.Description, error) {
	if err := o.CheckOwner(); err != nil {
		return nil, err
	}
	r, q, c := o.Request, o.Queue, o.Config
	d := &job.Description{
		ID: id, Name: r.Name, Owner: o.Owner.Name, Account: cmp.Or(r.Account, submit.DefaultAccount), Project: r.Project,
		SubmissionTime: o.Submitted, Restarted: o.Restarted,
		Queue: q.Queue, Host: o.Host, Processors: q.Processors, QueueTmpdir: q.Tmpdir,
		Tmpdir: tmpdir,

		Prolog: c.PrologFor(q), Epilog: c.EpilogFor(q), StarterMethod: q.StarterMethod,
		SuspendMethod: q.SuspendMethod, ResumeMethod: q.ResumeMethod, TerminateMethod: q.TerminateMethod,
		ScriptTimeout: c.ExecdParams.ScriptTimeout,

		HostSlots: o.Slots, Limits: o.limits(), ProcedureLimits: o.procedureLimits(), VmemLimit: o.vmemLimit(), VmemComplex: o.vmemComplex(), Nice: q.Priority,
		LimitGrace: q.Notify, SoftRTWarns: !c.ExecdParams.SRTKill,
		NotifyKill: c.ExecdParams.NotifyKill, NotifySusp: c.ExecdParams.NotifySusp,
		MailList: strings.Join(o.mailList(), ","), MailOptions: r.MailOptions,
		SkipGroupLimit:   c.ExecdParams.IgnoreNGroupsMaxLimit,
		ForbidReschedule: c.QmasterParams.ForbidReschedule, ForbidAppError: c.QmasterParams.ForbidAppError,
		AddGroupKill:  c.ExecdParams.EnableAddGrpKill,
		PTY:           r.PTY,
		UsageInterval: usageInterval(c),
		Relayed:       o.Relayed,
		AdminUser:     o.AdminUser,
	}
	if d.PrivateTmp = o.privateTmp(); d.PrivateTmp {
		if !o.Privileged {
			return nil, errors.New("private_tmp: only a daemon that runs as root can give a job its own /tmp")
		}
		d.PrivateTmpShare = strings.Join(c.ExecdParams.PrivateTmpShare, ":")
	}
	if d.Tmpdir == "" {
		d.Tmpdir = q.Tmpdir + "/" + jobdir.TmpdirName(id, q.Queue)
	}
	if o.Privileged {
		d.QsubGID = o.SubmitGID
		d.MinUID, d.MinGID = c.MinUID, c.MinGID
	}
	if r.Notify {
		d.Notify = q.Notify
	}
	if err := o.describePaths(d, spool); err != nil {
		return nil, err
	}
	if err := o.describeTerminal(d); err != nil {
		return nil, err
	}
	o.describeParallel(d, spool)
	o.describeCheckpoint(d)
	v := o.environment(d, spool)
	d.Environment, d.Trusted = v.list, v.trusted
	divideCommand(d)
	return d, nil
}

// privateTmp reports whether the job has its own /tmp, by its queue or its request.
func (o *Assignment) privateTmp() bool {
	if o.Config.ExecdParams.PrivateTmp.For(o.Queue.Queue) {
		return true
	}
	return o.Complexes.RequestsPrivateTmp(o.hardRequests())
}

// hardRequests returns the hard requests of the job.
func (o *Assignment) hardRequests() (hard []qconf.Setting) {
	for _, r := range o.Request.Resources {
		if !r.Soft {
			hard = append(hard, qconf.Setting{Name: r.Name, Value: r.Value})
		}
	}
	return hard
}

// divideCommand splits a command with line breaks into two words, because the config file of the
// job directory allows no line break in the first word. A shell that runs the command gets the same
// text, because it joins words with blanks. If there is no blank before the first line break, the
// split adds one at the end of the first line, where shells ignore it unless it is within quotes:
// such a command is not split, and is refused.
func divideCommand(d *job.Description) {
	c := &d.Command
	line, _, broken := strings.Cut(c.File, "\n")
	if !broken || !c.Binary || c.NoShell || d.StarterMethod != "" {
		return
	}
	first, rest := line, c.File[len(line):]
	if i := strings.LastIndexByte(line, ' '); i >= 0 {
		first, rest = line[:i], c.File[i+1:]
	} else if strings.ContainsAny(line, "\"'\\`") {
		return
	}
	c.File, c.Args = first, append([]string{rest}, c.Args...)
}

// usageInterval returns the least time between two measurements of a job's usage (PDC_INTERVAL of
// sge_conf(5)). It returns 0 for a second and less, which is shorter than any interval of our
// supervisor.
func usageInterval(c *qconf.Configuration) time.Duration {
	switch i := c.ExecdParams.PDCInterval; {
	case i == qconf.PDCNever:
		return job.NoUsage
	case i == qconf.PDCPerLoadReport:
		return c.LoadReportTime
	case i > time.Second:
		return i
	}
	return 0
}

// CheckOwner refuses an owner below min_uid or min_gid (sge_conf(5)). Prepare does so, too.
func (o *Assignment) CheckOwner() error {
	u := o.Owner
	switch {
	case u.UID == 0:
		return errors.New("root cannot own a job: submit it as another user (execd run: --as USER)")
	case !o.Privileged:
		return nil
	case int64(u.UID) < int64(o.Config.MinUID):
		return fmt.Errorf("user %s has user ID %d, below min_uid %d: system accounts cannot own jobs", u.Name, u.UID, o.Config.MinUID)
	case int64(u.GID) < int64(o.Config.MinGID):
		return fmt.Errorf("user %s has group ID %d, below min_gid %d: system accounts cannot own jobs", u.Name, u.GID, o.Config.MinGID)
	}
	return nil
}

// describePaths fills in everything that is a path.
func (o *Assignment) describePaths(d *job.Description, spool jobdir.Area) error {
	r := o.Request
	vars := submit.PathVars{
		Home: o.Owner.Home, User: o.Owner.Name, JobID: d.ID.Job, JobName: d.Name,
		Host: o.Host, TaskID: d.ID.Task,
		HomeOf: func(name string) (string, error) {
			u, err := o.Lookup(name)
			if err != nil {
				return "", err
			}
			return u.Home, nil
		},
	}
	if o.KeepTaskID && d.ID.Task == 0 {
		vars.TaskID = submit.AnyTask
	}
	files, err := r.Files(vars)
	if err != nil {
		return err
	}
	d.Cwd, vars.Cwd = files.Dir, files.Dir
	for i, path := range files.Streams {
		d.Streams[i].Path = path
		if path == "" && i > 0 {
			d.Streams[i].Inherit = o.Terminal && (i == 1 || !r.Join)
		}
		d.Streams[i].Staging.TmpPath = d.Tmpdir + "/"
	}
	d.MergeError = r.Join
	if in := d.Streams[0].Path; in != "" && in != "/dev/null" && (in == d.Streams[1].Path || in == d.Streams[2].Path) {
		return fmt.Errorf("-i %s: standard input and output are the same file", in)
	}

	d.Command = job.Command{
		File: r.Command, Args: r.Args, Binary: r.Binary, NoShell: r.NoShell && r.Binary,
		Shell: o.Queue.Shell, StartMode: o.Queue.ShellStartMode,
	}
	if !r.Binary {
		d.Command.File = spool.ScriptPath(d.ID.Job)
	}
	shell, err := submit.ExpandShell(r.Shell, vars)
	if err != nil {
		return fmt.Errorf("-S: %w", err)
	}
	if shell != "" {
		d.Command.Shell, d.Command.OwnShell = shell, true
	}
	d.Command.LoginShell = o.Config.IsLoginShell(d.Command.Shell)
	if o.Config.ScriptShellFor(o.Queue) {
		d.Command.StartMode = scriptShell(d.Command, r.Script)
	}
	return nil
}

func (o *Assignment) describeParallel(d *job.Description, spool jobdir.Area) {
	if o.PE == nil {
		return
	}
	d.PE = &job.ParallelEnvironment{
		Name: o.PE.Name, Slots: o.allSlots(), Start: o.PE.Start, Stop: o.PE.Stop, Qsort: o.PE.QsortArgs,
		HostFile:   spool.JobPath(d.ID) + "/" + jobdir.FilePEHosts,
		StdoutPath: d.Streams[1].Path, StderrPath: d.Streams[2].Path,
	}
}

// describeCheckpoint merges the checkpoint object with -c (sge_submit(1)): the
// occasions of the job replace those of the object, and the interval is the
// larger of the job's and the queue's min_cpu_interval.
func (o *Assignment) describeCheckpoint(d *job.Description) {
	if o.Ckpt == nil {
		return
	}
	c, r := o.Ckpt, o.Request
	d.Ckpt = &job.Checkpoint{
		Name: c.Name, Interface: string(c.Interface),
		Command: c.Command, MigrationCommand: c.MigrationCommand, RestartCommand: c.RestartCommand, CleanCommand: c.CleanCommand,
		Dir: c.Dir, Signal: c.Signal, When: c.When, PID: o.CheckpointPID,
	}
	if r.CheckpointWhen != "" {
		d.Ckpt.When = r.CheckpointWhen
	}
	if r.CheckpointInterval > 0 && !strings.Contains(d.Ckpt.When, "m") {
		d.Ckpt.When += "m"
	}
	if strings.Contains(d.Ckpt.When, "m") {
		d.Ckpt.Interval = max(o.Queue.MinCPUInterval, r.CheckpointInterval)
	}
}

func (o *Assignment) vmemLimit() job.VmemLimit {
	return o.Config.ExecdParams.VmemLimits.For(o.Queue.Queue)
}

// allSlots returns the number of slots of the job on all hosts.
func (o *Assignment) allSlots() int { return cmp.Or(o.TotalSlots, o.Slots) }

// granted counts the hosts and the queue instances of the job.
func (o *Assignment) granted() (hosts, queues int) {
	var names, instances []string
	for _, h := range o.peHosts() {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, h.Host) }) {
			names = append(names, h.Host)
		}
		if !slices.Contains(instances, h.Queue) {
			instances = append(instances, h.Queue)
		}
	}
	return len(names), len(instances)
}

// ProcedureUsers returns the IDs of the users that procedures of the site run as: they may have left
// files in the TMPDIR of the job.
func ProcedureUsers(d *job.Description, lookup func(name string) (*userdb.User, error)) []int {
	commands := []string{d.Prolog, d.Epilog}
	if d.PE != nil {
		commands = append(commands, d.PE.Start, d.PE.Stop)
	}
	var ids []int
	for _, c := range commands {
		name, _ := job.Procedure(c)
		if name == "" {
			continue
		}
		if u, err := lookup(name); err == nil && !slices.Contains(ids, int(u.UID)) {
			ids = append(ids, int(u.UID))
		}
	}
	return ids
}

func (o *Assignment) mailList() []string {
	if len(o.Request.Mail) > 0 {
		return o.Request.Mail
	}
	return []string{o.Owner.Name + "@" + o.Host}
}
