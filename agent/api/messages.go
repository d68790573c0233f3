package api

import "time"

// How to find an agent, and what is said beside the messages.
const (
	// Name is that of the interface; the number goes up only if a method goes, or a field.
	Name = "execd.v1"
	// Revision is that of the messages: it goes up when fields, lines of Reports or methods
	// come, and when something is said in another place than before. docs/api.md has what
	// a master changes for each.
	Revision = 4
	// Path is what the name of a method follows in a URL.
	Path = "/execd.v1.Agent/"
	// DefaultSocket is where an agent listens on its own host.
	DefaultSocket = "/run/execd/agent.sock"
	// EpochHeader carries the epoch of a master in each of its calls. Masters of a cell
	// that take over from each other count up; an agent refuses those it knows a
	// successor of. A master that does not count leaves the header out.
	EpochHeader = "Execd-Master-Epoch"
	// SequenceHeader carries the number of a call among those of a master with an epoch:
	// repetitions of a call have the same number, and later calls a larger one. An agent
	// carries out a call once, and refuses one that has been overtaken by a later one about
	// the same thing, with FailedPrecondition. Where the header is missing each call
	// counts.
	SequenceHeader = "Execd-Master-Sequence"
)

// Method is the name of a call.
type Method string

// The methods.
const (
	MethodStart       Method = "Start"       // StartRequest, JobAnswer
	MethodStartBatch  Method = "StartBatch"  // BatchRequest, BatchAnswer
	MethodAdmit       Method = "Admit"       // StartRequest, Empty
	MethodStartTask   Method = "StartTask"   // TaskStart, JobAnswer
	MethodAttach      Method = "Attach"      // JobRequest; then the connection is one with a terminal, see Frame
	MethodSignal      Method = "Signal"      // SignalRequest, Empty
	MethodSignalQueue Method = "SignalQueue" // SignalQueueRequest, Empty
	MethodSetTickets  Method = "SetTickets"  // TicketsRequest, Empty
	MethodConfigure   Method = "Configure"   // ConfigureRequest, ConfigureAnswer
	MethodFullReport  Method = "FullReport"  // Empty, Empty
	MethodAcknowledge Method = "Acknowledge" // AcknowledgeRequest, Empty
	MethodJobs        Method = "Jobs"        // Empty, JobsAnswer
	MethodJob         Method = "Job"         // JobRequest, JobAnswer
	MethodDrain       Method = "Drain"       // DrainRequest, Empty
	MethodResume      Method = "Resume"      // Empty, Empty
	MethodShutdown    Method = "Shutdown"    // ShutdownRequest, Empty
	MethodHealth      Method = "Health"      // Empty, Health
	MethodVersion     Method = "Version"     // Empty, VersionAnswer
	MethodReports     Method = "Reports"     // ReportsRequest, and then lines of Report
)

// Empty is a message in which nothing is said.
type Empty struct{}

// ID names a job, a task of an array job, or a task of a parallel job.
type ID struct {
	Job    int    `json:"job"`
	Task   int    `json:"task"`              // 0 for a job that is not an array job
	PETask string `json:"pe_task,omitempty"` // of a task of a parallel job, else empty
}

// Start is a job, or one task of an array job, that a master has placed on the host of
// the agent. Of Command, Script, Environment and Directory, what is no UTF-8 travels in
// the field of the same name with Base64 behind; a Client sees to that.
type Start struct {
	Job  int `json:"job"`
	Task int `json:"task"` // 0 for a job that is not an array job
	// Key is the same for all repetitions of one start, and no other start has it: a
	// job that is run again has another. Empty is "<job>.<task>", or "<job>".
	Key        string `json:"key,omitempty"`
	Owner      string `json:"owner"`
	Group      string `json:"group,omitempty"`      // of the owner on the submit host, for the accounting
	Department string `json:"department,omitempty"` // for the accounting
	// Command is a command line of qsub(1) without the word qsub: options, the script
	// or command, its arguments. Script is the text of the script, of which the lines
	// with #$ count as they do for qsub; there is none with -b y.
	Command       []string `json:"command,omitempty"`
	CommandBase64 [][]byte `json:"command_base64,omitempty"`
	Script        string   `json:"script,omitempty"`
	ScriptBase64  []byte   `json:"script_base64,omitempty"`
	// Environment is that of the submission, by name, for -V, -v NAME and SGE_O_...
	Environment       map[string]string `json:"environment,omitempty"`
	EnvironmentBase64 map[string][]byte `json:"environment_base64,omitempty"`
	Directory         string            `json:"directory,omitempty"` // of the submission, absolute
	DirectoryBase64   []byte            `json:"directory_base64,omitempty"`
	Submitted         time.Time         `json:"submitted,omitzero"`
	// Restarted is 1 for a job that is run again, and 2 if it goes on from a checkpoint
	// (RESTARTED in qsub(1)).
	Restarted int `json:"restarted,omitempty"`
	// CheckpointPID is that of the outcome of the previous run, for a job that goes on from
	// a checkpoint.
	CheckpointPID int `json:"checkpoint_pid,omitempty"`
	// Grants are all queue instances that the job has got, that of its master task first.
	Grants      []Grant `json:"grants"`
	PE          string  `json:"pe,omitempty"` // name of the parallel environment
	Slave       bool    `json:"slave,omitempty"`
	Tickets     float64 `json:"tickets,omitempty"`
	Reservation int     `json:"reservation,omitempty"` // number of the advance reservation it runs in
	// Interactive gives the job a terminal, for Attach.
	Interactive *Interactive `json:"interactive,omitempty"`
}

// Interactive says how an interactive job is. Its command line has -b y and a command,
// which runs as with qrsh(1), or no command for a login shell as with qlogin(1).
type Interactive struct {
	Rows uint16 `json:"rows,omitempty"` // of the window; 0 if it is not known
	Cols uint16 `json:"cols,omitempty"`
	Term string `json:"term,omitempty"` // TERM
	// Pipes gives the job a pipe for each standard stream, in place of a pseudo terminal.
	Pipes bool `json:"pipes,omitempty"`
	// Login runs the login shell of the owner in place of a command.
	Login bool `json:"login,omitempty"`
}

// Grant is a queue instance of which a job has got slots.
type Grant struct {
	Queue string `json:"queue"`
	Host  string `json:"host"`
	Slots int    `json:"slots"`
	// Names are the things of resource maps that the job has got, by complex.
	Names map[string][]string `json:"names,omitempty"`
}

// BatchRequest are several starts. Each is taken or refused by itself.
type BatchRequest struct {
	Starts []Start `json:"starts"`
}

// StartResult is what became of one start: one of the two.
type StartResult struct {
	Job   *Job   `json:"job,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// BatchAnswer has the results in the order of the starts.
type BatchAnswer struct {
	Results []StartResult `json:"results"`
}

// JobAnswer has a job.
type JobAnswer struct {
	Job Job `json:"job"`
}

// TaskStart is a task of a parallel job: a command that runs in the job's slots, as
// with qrsh -inherit. For Base64 see Start.
type TaskStart struct {
	Job   int    `json:"job"`
	Task  int    `json:"task"`  // of the array job
	Key   string `json:"key"`   // see Start; there is no default
	Owner string `json:"owner"` // must be that of the job; may be left out by the owner
	// Command is a program and its arguments.
	Command       []string `json:"command,omitempty"`
	CommandBase64 [][]byte `json:"command_base64,omitempty"`
	// Environment is beside that of the job.
	Environment       map[string]string `json:"environment,omitempty"`
	EnvironmentBase64 map[string][]byte `json:"environment_base64,omitempty"`
	Directory         string            `json:"directory,omitempty"` // empty for that of the job
	DirectoryBase64   []byte            `json:"directory_base64,omitempty"`
}

// Order is what a job is told.
type Order string

// The orders. A job can be suspended for several reasons at once, and goes on when the
// last of them is gone.
const (
	Terminate        Order = "terminate"         // qdel: with notification and terminate method
	Kill             Order = "kill"              // at once
	Suspend          Order = "suspend"           // qmod -sj
	Resume           Order = "resume"            // qmod -usj
	SuspendThreshold Order = "suspend_threshold" // suspend_thresholds of queue_conf(5)
	ResumeThreshold  Order = "resume_threshold"  //
	SuspendQueue     Order = "suspend_queue"     // qmod -sq, subordination, calendar
	ResumeQueue      Order = "resume_queue"      // qmod -usq
	Migrate          Order = "migrate"           // checkpoint and end, to run again
	Reschedule       Order = "reschedule"        // qmod -rj: end, to run again
	Usr1             Order = "usr1"              // the notification before a suspension
	Usr2             Order = "usr2"              // the notification before the end
)

// SignalRequest is an order for a job. Task -1 is for all tasks of the job.
type SignalRequest struct {
	ID
	Order Order `json:"order"`
}

// SignalQueueRequest is suspend_queue or resume_queue for all jobs of a queue of the
// host.
type SignalQueueRequest struct {
	Queue string `json:"queue"` // without a host
	Order Order  `json:"order"`
}

// Tickets are what a job has got of the tickets of its cell.
type Tickets struct {
	ID
	Tickets float64 `json:"tickets"`
}

// TicketsRequest gives jobs their tickets. Those that are not named keep theirs.
type TicketsRequest struct {
	Tickets []Tickets `json:"tickets"`
}

// ConfigureRequest has the agent read its configuration again. With files, these first
// take the place of all that there are; if they cannot be used, nothing changes.
type ConfigureRequest struct {
	// Files are texts by their path in the directory of the configuration, such as
	// "queues/all.q".
	Files map[string]string `json:"files,omitempty"`
}

// ConfigureAnswer has the version of the configuration in use.
type ConfigureAnswer struct {
	Version string `json:"version"`
}

// AcknowledgeRequest says that reports have arrived: all up to a number, or with a job
// the report of its end alone, which had this number. Ended jobs whose end has arrived
// are removed from the agent's host.
type AcknowledgeRequest struct {
	Number uint64 `json:"number"`
	Job    *ID    `json:"job,omitempty"`
}

// JobRequest asks for one job.
type JobRequest struct {
	ID
}

// JobsAnswer has all jobs of the host, in the order of their numbers.
type JobsAnswer struct {
	Jobs []Job `json:"jobs"`
}

// DrainRequest has the agent refuse new jobs.
type DrainRequest struct {
	Reason string `json:"reason"`
}

// ShutdownRequest ends the agent. Jobs go on, unless they are to be ended, too.
type ShutdownRequest struct {
	EndJobs bool `json:"end_jobs,omitempty"`
}

// Health says how an agent fares.
type Health struct {
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Epoch   uint64    `json:"epoch"` // the largest that a master had
	Slots   int       `json:"slots"` // of all queue instances of the host; 0 if not known
	Used    int       `json:"used"`
	// Jobs counts jobs by their states.
	Jobs     map[string]int `json:"jobs"`
	Draining string         `json:"draining"` // why no jobs are taken; empty if they are
	Troubles []string       `json:"troubles"` // what does not work now, one sentence each
	// Configuration is the version in use; ConfigurationError why a newer one is not.
	Configuration      string `json:"configuration"`
	ConfigurationError string `json:"configuration_error,omitempty"`
	// Sensors are the load sensors, in the order of load_sensor of sge_conf(5).
	Sensors []Sensor `json:"sensors,omitempty"`
	// GPUs are those of the host, in the order of their addresses on the PCI bus.
	GPUs []GPU `json:"gpus,omitempty"`
}

// GPU is a GPU of the host.
type GPU struct {
	ID      string `json:"id,omitempty"` // its number in the resource map gpu; empty if it is not offered
	Vendor  string `json:"vendor"`       // NVIDIA, AMD or Intel
	Address string `json:"address"`      // on the PCI bus
	Model   string `json:"model,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	Memory  uint64 `json:"memory,omitempty"` // in bytes; 0 if it is not known
	// Problem is why the host does not offer it, or what is not known of it.
	Problem string `json:"problem,omitempty"`
	// Jobs are those that have it.
	Jobs []string `json:"jobs,omitempty"`
}

// Sensor is how a load sensor fares.
type Sensor struct {
	Path  string `json:"path"`
	User  string `json:"user,omitempty"` // whom it runs as
	State string `json:"state"`          // waiting, asked, running, ending, ended
	// Since is when it came to this state. NextStart is when one that waits is started.
	Since     time.Time `json:"since"`
	NextStart time.Time `json:"next_start,omitzero"`
	PID       int       `json:"pid,omitempty"`
	// Fault is why it is not as it should be; empty again with its next whole report.
	Fault      string    `json:"fault,omitempty"`
	Starts     int       `json:"starts"`
	Reports    int       `json:"reports"` // whole ones
	LastReport time.Time `json:"last_report,omitzero"`
	Values     int       `json:"values"` // of the last report
	// Violations is how many times its output was wrong; LastViolation is the last one.
	Violations    int        `json:"violations"`
	LastViolation *Violation `json:"last_violation,omitempty"`
}

// Violation is what was wrong with the output of a load sensor.
type Violation struct {
	Line     int    `json:"line,omitempty"`     // since the sensor was started; 0 where no line is to blame
	Text     string `json:"text,omitempty"`     // the line, shortened if it is long
	Problem  string `json:"problem"`            // what is wrong
	Expected string `json:"expected,omitempty"` // what would have been right
}

// VersionAnswer says with what one talks.
type VersionAnswer struct {
	API      string `json:"api"`      // Name
	Revision int    `json:"revision"` // see Revision
	Version  string `json:"version"`  // of the program
	// Methods are those that this agent has and this caller may call. Capabilities are
	// what else can be relied on.
	Methods      []Method `json:"methods"`
	Capabilities []string `json:"capabilities"`
}

// The capabilities.
const (
	// CanTakeFiles: Configure takes files.
	CanTakeFiles = "configure.files"
)

// ReportsRequest asks for all reports with a number above After, and then for new ones
// as they come.
type ReportsRequest struct {
	After uint64 `json:"after"`
	// Acknowledge says that all reports up to this number have arrived; see
	// AcknowledgeRequest.
	Acknowledge uint64 `json:"acknowledge,omitempty"`
	// Heartbeat is how long nothing may be said, in seconds; 0 is 10.
	Heartbeat float64 `json:"heartbeat,omitempty"`
}
