package job

import (
	"math"
	"strconv"
	"time"
)

// Description holds everything that the execution of one job needs, or of one task of an array job.
// The comments name the key of the original's config file where it is not obvious.
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
	// PrivateTmp gives the job its own /tmp, /var/tmp and /dev/shm. PrivateTmpShare lists what of
	// these it shares with the host, as absolute paths separated by colons.
	PrivateTmp      bool
	PrivateTmpShare string
	// Scratch is the size, in bytes, to which TMPDIR is limited, with the job's own /tmp and /var/tmp
	// if it has them; 0 for none. ScratchLimit says how: quota, image or tmpfs.
	Scratch      uint64
	ScratchLimit string

	Command    Command
	Cwd        string // absolute; by default the owner's home directory
	Streams    [3]Stream
	MergeError bool // -j y: standard error goes where standard output goes

	Prolog          string // "[user@]path args", empty for none
	Epilog          string
	StarterMethod   string        // path, empty for none
	SuspendMethod   string        // signal name, command line, or empty for SIGSTOP
	ResumeMethod    string        // the same, SIGCONT
	TerminateMethod string        // the same, SIGKILL
	ScriptTimeout   time.Duration // time limit of prolog, epilog and PE procedures; 0 for none

	PE   *ParallelEnvironment // nil for a serial job
	Ckpt *Checkpoint          // nil for a job without checkpointing

	// HostSlots is the number of slots that the job has on this host. Limits per slot are
	// multiplied by it. 0 counts as 1.
	HostSlots int
	Limits    Limits
	// ProcedureLimits are the limits of the queue without the requests of the job. They apply to
	// procedures and methods. It is nil if the program that wrote the job directory did not record
	// them; sge_execd does not.
	ProcedureLimits *Limits
	VmemLimit       VmemLimit // what s_vmem and h_vmem limit
	// VmemComplex is the complex that the job's hard limit of Vmem comes from if that is not
	// h_vmem: a memory request that is also a limit, such as mem_free. Reports about the limit name
	// it.
	VmemComplex string
	Nice        int    // queue_conf(5) priority
	Binding     string // core binding as the config file has it; empty for none
	// BindingCPUs are the processors of the cores in Binding, as a list such as 0-3,8. It is empty
	// if the program that wrote Binding did not record them; sge_execd does not.
	BindingCPUs string

	// Daemon is the daemon that started the supervisor.
	Daemon Daemon
	// BindingMask are the processors that the scheduler of Open Cluster Scheduler 9.1 has chosen, as its
	// sge_execd writes them: hexadecimal digits in groups of 32 bits. It is empty if the job is not to be bound.
	BindingMask string

	Notify time.Duration // delay between notification and signal; 0 without -notify
	// LimitGrace is notify of queue_conf(5), with or without -notify: the time between s_rt and the
	// end of a job, and the time that a terminate method gets before a limit leads to SIGKILL.
	LimitGrace time.Duration
	// SoftRTWarns makes s_rt only a warning (S_RT_KILL=false of execd_params), as the original
	// does. queue_conf(5) says that s_rt ends the job.
	SoftRTWarns bool
	NotifyKill  Notification
	NotifySusp  Notification
	// UsageInterval is the shortest interval at which the usage is measured for accounting
	// (PDC_INTERVAL). With 0 the supervisor chooses the interval, with NoUsage it measures only at
	// the end. It always measures the usage that limits need.
	UsageInterval time.Duration
	// UserProcesses limits the processes and threads of the job's owner on the host, inside and
	// outside the job (RLIMIT_NPROC): above it the job cannot create another one. 0 is no limit. It
	// replaces pids_limit of cgroups_params on a host that cannot count the processes of a job.
	UserProcesses int

	MailList    string
	MailOptions MailOptions

	// AddGroupID is the additional group id that marks the processes of the
	// job; 0 for none.
	AddGroupID int
	// SkipGroupLimit makes a job run without its additional group ID if the owner is already in as
	// many groups as the kernel allows. Otherwise such a job fails (IGNORE_NGROUPS_MAX_LIMIT).
	SkipGroupLimit bool
	MinUID, MinGID int
	QsubGID        int    // primary group of the submitter (USE_QSUB_GID); 0 for the passwd entry's
	AdminUser      string // owner of the spool files; empty for the user of this process

	InheritEnv       bool // the job's environment starts from the daemon's
	ForbidReschedule bool // exit status 99 has no meaning
	ForbidAppError   bool // exit status 100 has no meaning
	AddGroupKill     bool // ENABLE_ADDGRP_KILL

	// Environment is the environment of the job as NAME=value. It lacks the variables that the
	// shepherd adds for each procedure.
	Environment []string
	// Trusted names the variables of Environment whose values the daemon chose. A procedure that
	// runs as a user other than the owner may rely on these. It is empty for a directory of
	// sge_execd, which does not record them.
	Trusted []string

	// PTY is -pty; Interactive is set for jobs of qrsh, qlogin and qsh.
	PTY         Tristate
	Interactive *Interactive

	// Terminal is set for a job whose supervisor keeps its standard streams, as a pseudo terminal
	// or as pipes, and connects them with clients that attach.
	Terminal *Terminal

	// Relayed is set for a job whose first process connects the command with a client of the
	// original. The command is a child of that process and leads a process group. After the command
	// has exited, the process stays until it has sent the exit status to the client.
	Relayed bool
}

// NoUsage is a UsageInterval: usage is measured only at the end of the job.
const NoUsage = time.Duration(math.MaxInt32) * time.Second

// ID names one job, one task of an array job, or one task of a parallel job.
type ID struct {
	Job    int
	Task   int    // 0 when the job is not an array job
	PETask string // "N.host" for a task started by qrsh -inherit
}

// TaskDir returns the task number used in paths: 1 for a job that is not an array job.
func (id ID) TaskDir() int {
	if id.Task == 0 {
		return 1
	}
	return id.Task
}

// String returns "job.task", or "job" if the job is not an array job.
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

// OutputName returns the name of the file for standard output (letter "o") or standard error ("e")
// if the path of -o or -e is a directory: NAME.oJOB, followed by .TASK for a task of an array job
// (sge_submit(1), -o and -e).
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
	// OwnShell is set if the job chose Shell (-S). If the shell cannot be run, the failure is then
	// attributed to the job. The agent sets OwnShell; no file contains it.
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
	// Path is absolute. For standard output and error it may be a directory, in which the shepherd
	// creates a file with the default name. An empty path is /dev/null for standard input, and the
	// working directory for standard output and error.
	Path string
	// Inherit makes the job use the shepherd's own stream. A job that runs in the foreground writes
	// to the terminal this way.
	Inherit bool
	// Staging is the delegated file staging of DRMAA, which prolog and epilog carry out.
	Staging Staging
}

// Staging describes delegated file staging of one stream. Only prolog and epilog use it, through
// their pseudo variables.
type Staging struct {
	Host, Path, TmpPath string
	Enabled             bool
}

// ParallelEnvironment holds the settings of sge_pe(5) that a job needs on its host.
type ParallelEnvironment struct {
	Name                   string
	Slots                  int    // of the job on all hosts
	HostFile               string // absolute path of pe_hostfile
	Start                  string // start_proc_args, "[user@]path args", empty for none
	Stop                   string // stop_proc_args
	Qsort                  string // qsort_args, unused on the host
	StdoutPath, StderrPath string
}

// Checkpoint holds the settings of checkpoint(5) for a job with -ckpt.
type Checkpoint struct {
	Name                                                    string // of the checkpoint object, for SGE_CKPT_ENV
	Interface                                               string // userdefined, hibernator, transparent, application-level, cpr, cray-ckpt
	Command, MigrationCommand, RestartCommand, CleanCommand string // empty for none
	Dir                                                     string
	Signal                                                  string        // signal name, empty for none
	Interval                                                time.Duration // 0: no periodic checkpoint
	When                                                    string        // of the object, letters of s m x r
	// PID and OSJobID come from the previous run, for a restart by the kernel.
	PID, OSJobID int
}

// Restart says whether a job has run before, and how it continues: the variable RESTARTED.
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

// Tristate is yes, no, or a default that depends on the job.
type Tristate int

// The values of a Tristate, with the numbers of the config file.
const (
	No      Tristate = 0
	Yes     Tristate = 1
	Default Tristate = 2
)

// Terminal describes the standard streams of an interactive job.
type Terminal struct {
	Rows, Cols int // 0 if unknown
	// Pipes replaces the pseudo terminal by a pipe for each standard stream. Pipes do not change
	// the data, and they pass on the end of file (submit(1), -pty n).
	Pipes bool
	// Login runs the shell of the job as a login shell instead of a command.
	Login bool
}

// Interactive holds the entries of the config file for a job of qrsh, qlogin or qsh.
type Interactive struct {
	ControlPort string // qrsh_control_port, "host:port"
	Daemon      string // the configured daemon for the kind of job
	Tmpdir      string // qrsh_tmpdir
	PIDFile     string // qrsh_pid_file
	Display     string
	MasterHost  string
	Xterm       string // exec_file
}

// VmemName returns the name of the hard limit of Vmem in reports to users.
func (d *Description) VmemName() string {
	if d.VmemComplex != "" {
		return d.VmemComplex
	}
	return "h_" + Vmem.String()
}

// Daemon is the family of the daemon that has written a description, which decides some forms of the
// files that daemon and supervisor share.
type Daemon int

// The daemons.
const (
	DaemonGridEngine Daemon = iota // execd, or the sge_execd of 8.1.9
	DaemonOCS90                    // the sge_execd of Open Cluster Scheduler 9.0
	DaemonOCS91                    // that of 9.1
)

// Micros reports whether the daemon writes and reads times in microseconds since 1970, not in seconds.
func (d Daemon) Micros() bool { return d != DaemonGridEngine }
