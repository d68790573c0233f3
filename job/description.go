package job

import (
	"math"
	"strconv"
	"time"
)

// Description is everything about one job (or one task of an array job) that
// its execution needs. The comments name the key of the original's config file
// where it is not obvious.
type Description struct {
	ID             ID
	Name           string // job_name; "petask" for a task of a parallel job
	Owner          string // job_owner: login name on this host
	Account        string // -A
	Project        string // acct_project; empty for none
	SubmissionTime time.Time
	Restarted      Restart

	Queue       string // cluster queue, without a host
	Host        string // host name of the queue instance
	Processors  string // queue_conf(5) processors, ranges like 1-4,8; empty for UNDEFINED
	QueueTmpdir string // queue_conf(5) tmpdir: parent of Tmpdir
	Tmpdir      string // the job's TMPDIR, absolute

	Command    Command
	Cwd        string // absolute; the owner's home when nothing was asked
	Streams    [3]Stream
	MergeError bool // -j y: standard error goes where standard output goes

	Prolog          string // "[user@]path args", empty for none
	Epilog          string
	StarterMethod   string        // path, empty for none
	SuspendMethod   string        // signal name, command line, or empty for SIGSTOP
	ResumeMethod    string        // the same, SIGCONT
	TerminateMethod string        // the same, SIGKILL
	ScriptTimeout   time.Duration // prolog, epilog and PE procedures are ended after it; 0 for never

	PE   *ParallelEnvironment // nil for a serial job
	Ckpt *Checkpoint          // nil for a job without checkpointing

	// HostSlots is the number of slots that the job has on this host; limits
	// that are per slot are multiplied by it. 0 counts as 1.
	HostSlots int
	Limits    Limits
	// ProcedureLimits are those of the queue without the requests of the job, for procedures
	// and methods. nil where whoever made the directory did not say, as a real execd.
	ProcedureLimits *Limits
	VmemLimit       VmemLimit // what s_vmem and h_vmem limit
	Nice            int       // queue_conf(5) priority
	Binding         string    // core binding as the config file has it; empty for none
	// BindingCPUs are the processors of the cores in Binding, as a list such as
	// 0-3,8; empty where whoever wrote Binding did not say, as a real execd.
	BindingCPUs string

	Notify time.Duration // delay between notification and signal; 0 without -notify
	// LimitGrace is queue_conf(5) notify, whether or not the job has -notify:
	// what a job has between s_rt and its end, and a terminate method between
	// a limit and SIGKILL.
	LimitGrace time.Duration
	// SoftRTWarns makes s_rt a warning only (S_RT_KILL=false of execd_params):
	// the original's behaviour, where queue_conf(5) promises the end.
	SoftRTWarns bool
	NotifyKill  Notification
	NotifySusp  Notification
	// UsageInterval is how often at most usage is measured for the accounting alone
	// (PDC_INTERVAL): 0 is as often as the supervisor thinks right, NoUsage never before
	// the end. What limits need is measured in any case.
	UsageInterval time.Duration
	// UserProcesses is how many processes and threads the owner of the job may have on the
	// host, whatever they belong to, for the job to be allowed a further one (RLIMIT_NPROC); 0
	// for any number. It stands in for a limit of those of the job (pids_limit of
	// cgroups_params) on a host that cannot count them.
	UserProcesses int

	MailList    string
	MailOptions MailOptions

	// AddGroupID is the additional group id that marks the processes of the
	// job; 0 for none.
	AddGroupID int
	// SkipGroupLimit runs the job without its additional group id, instead of
	// failing it, where the owner is already in as many groups as the kernel
	// takes (IGNORE_NGROUPS_MAX_LIMIT).
	SkipGroupLimit bool
	MinUID, MinGID int
	QsubGID        int    // primary group of the submitter (USE_QSUB_GID); 0 for the passwd entry's
	AdminUser      string // owner of the spool files; empty for the user that we run as

	InheritEnv       bool // the job's environment starts from the daemon's
	ForbidReschedule bool // exit status 99 has no meaning
	ForbidAppError   bool // exit status 100 has no meaning
	AddGroupKill     bool // ENABLE_ADDGRP_KILL

	// Environment is what the job finds in its environment, as NAME=value,
	// without what the shepherd adds for each procedure.
	Environment []string
	// Trusted names the variables of Environment whose values the daemon chose: those on
	// which a procedure may rely that runs as another user than the owner. It is empty in
	// the directory of a real execd, which does not record them.
	Trusted []string

	// PTY is -pty; Interactive is set for jobs of qrsh, qlogin and qsh.
	PTY         Tristate
	Interactive *Interactive

	// Terminal is set for a job whose standard streams are a pseudo terminal, or pipes,
	// that its supervisor keeps, for whoever attaches to it.
	Terminal *Terminal

	// Relayed is set for a job whose first process connects the command, which is a child
	// of that one and leads a process group, with a client of the original: it has to live
	// a little longer than the command, to tell the client how that has ended.
	Relayed bool
}

// NoUsage is the UsageInterval of a job whose usage is measured at its end only.
const NoUsage = time.Duration(math.MaxInt32) * time.Second

// ID names one job, one task of an array job, or one task of a parallel job.
type ID struct {
	Job    int
	Task   int    // 0 when the job is not an array job
	PETask string // "N.host" for a task started by qrsh -inherit
}

// TaskDir returns the task number that paths use: 1 for a job that is not an array job.
func (id ID) TaskDir() int {
	if id.Task == 0 {
		return 1
	}
	return id.Task
}

// String is "job.task", or "job" when the job is not an array job.
func (id ID) String() string {
	s := strconv.Itoa(id.Job)
	if id.Task != 0 {
		s += "." + strconv.Itoa(id.Task)
	}
	if id.PETask != "" {
		s += "/" + id.PETask
	}
	return s
}

// OutputName returns the name of the file that takes standard output ("o") or error ("e") of a job in a
// directory: NAME.oJOB, and a further .TASK for a task of an array job (sge_submit(1), -o and -e).
func (id ID) OutputName(name, letter string) string {
	name += "." + letter + strconv.Itoa(id.Job)
	if id.Task != 0 {
		name += "." + strconv.Itoa(id.Task)
	}
	return name
}

// Command is the program of a job and how it is started.
type Command struct {
	File       string   // script_file: the spooled script, or the command of a binary job
	Args       []string // any bytes but NUL
	Binary     bool     // handle_as_binary, -b y
	NoShell    bool     // no_shell, -shell n
	Shell      string   // shell_path: -S, else the queue's shell
	StartMode  ShellStartMode
	LoginShell bool // the shell is one of login_shells: argv[0] begins with "-"
	// OwnShell says that Shell is the job's choice (-S): then it is the job's
	// error when it cannot be run. Who starts the job knows; it is in no file.
	OwnShell bool
}

// ShellStartMode is shell_start_mode of queue_conf(5).
type ShellStartMode string

// The shell start modes of queue_conf(5). RawExec exists in the original's
// sources only; its qconf refuses it.
const (
	PosixCompliant  ShellStartMode = "posix_compliant"
	UnixBehavior    ShellStartMode = "unix_behavior"
	ScriptFromStdin ShellStartMode = "script_from_stdin"
	RawExec         ShellStartMode = "raw_exec"
)

// Valid reports whether m is one of the documented modes.
func (m ShellStartMode) Valid() bool {
	return m == PosixCompliant || m == UnixBehavior || m == ScriptFromStdin || m == RawExec
}

// Stream is one of the three standard streams of a job.
type Stream struct {
	// Path is absolute. For standard output and error it may be a directory:
	// then the file in it has the default name. Empty is /dev/null for
	// standard input and the working directory for the others.
	Path string
	// Inherit leaves the stream as the shepherd has it: a job in the
	// foreground writes to the terminal.
	Inherit bool
	// Staging is DRMAA's delegated file staging, done by prolog and epilog.
	Staging Staging
}

// Staging describes delegated file staging of one stream. It is only passed on
// to prolog and epilog through their pseudo variables.
type Staging struct {
	Host, Path, TmpPath string
	Enabled             bool
}

// ParallelEnvironment is what a job of sge_pe(5) needs on its host.
type ParallelEnvironment struct {
	Name                   string
	Slots                  int    // of the job on all hosts
	HostFile               string // absolute path of pe_hostfile
	Start                  string // start_proc_args, "[user@]path args", empty for none
	Stop                   string // stop_proc_args
	Qsort                  string // qsort_args, not used on the host
	StdoutPath, StderrPath string
}

// Checkpoint is what a job submitted with -ckpt needs (checkpoint(5)).
type Checkpoint struct {
	Name                                                    string // of the checkpoint object, for SGE_CKPT_ENV
	Interface                                               string // userdefined, hibernator, transparent, application-level, cpr, cray-ckpt
	Command, MigrationCommand, RestartCommand, CleanCommand string // empty for none
	Dir                                                     string
	Signal                                                  string        // signal name, empty for none
	Interval                                                time.Duration // 0: no periodic checkpoint
	When                                                    string        // of the object, letters of s m x r
	// PID and OSJobID are those of the previous run, for a kernel-level restart.
	PID, OSJobID int
}

// Restart reports whether a job has run before: the RESTARTED variable.
type Restart int

// The values of RESTARTED (sge_submit(1)).
const (
	FirstRun          Restart = 0
	RestartedJob      Restart = 1
	RestartedFromCkpt Restart = 2
)

// Notification is the signal sent before SIGSTOP or SIGKILL to a job with
// -notify: NOTIFY_KILL and NOTIFY_SUSP of execd_params (sge_conf(5)).
type Notification struct {
	Kind   NotificationKind
	Signal string // with NotifySignal: its name
}

// NotificationKind is notify_kill_type and notify_susp_type of the config file.
type NotificationKind int

// The kinds of notification, with the numbers of the config file.
const (
	NotifySignal  NotificationKind = 0 // the named signal
	NotifyDefault NotificationKind = 1 // SIGUSR2 before a kill, SIGUSR1 before a suspension
	NotifyNone    NotificationKind = 2 // no signal and no delay
)

// MailOptions is -m as the bits of mail_options.
type MailOptions int

// The occasions of -m (sge_submit(1)), with the original's bits.
const (
	MailAtAbort   MailOptions = 1 << 18
	MailAtBegin   MailOptions = 1 << 19
	MailAtEnd     MailOptions = 1 << 20
	MailNever     MailOptions = 1 << 21
	MailAtSuspend MailOptions = 1 << 22
)

// Tristate is yes, no, or what the situation makes of it.
type Tristate int

// The values of a Tristate, with the numbers of the config file.
const (
	No      Tristate = 0
	Yes     Tristate = 1
	Default Tristate = 2
)

// Terminal is what an interactive job has for whoever attaches to it.
type Terminal struct {
	Rows, Cols int // 0 where it is not known
	// Pipes are in place of a pseudo terminal, one for each standard stream: what goes
	// through them is not changed, and has an end (submit(1), -pty n).
	Pipes bool
	// Login runs the shell of the job as a login shell, in place of a command.
	Login bool
}

// Interactive is what the config file says about a job of qrsh, qlogin or qsh.
type Interactive struct {
	ControlPort string // qrsh_control_port, "host:port"
	Daemon      string // the configured daemon for the kind of job
	Tmpdir      string // qrsh_tmpdir
	PIDFile     string // qrsh_pid_file
	Display     string
	MasterHost  string
	Xterm       string // exec_file
}
