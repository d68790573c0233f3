package api

import (
	"time"

	"github.com/execd-project/execd/agent/protocol"
)

// The address and the version of the interface, and the HTTP headers of calls.
const (
	// Name is the name of the interface. Its number increases only if a method or a field is
	// removed.
	Name = "execd.v1"
	// Revision is the revision of the messages. It increases when fields, methods or lines of
	// Reports are added, and when a value moves to another field. docs/api.md lists the changes
	// that each revision requires of a master.
	Revision = 4
	// Path is the prefix of a method's name in a URL.
	Path = "/execd.v1.Agent/"
	// PathOpenAPI is where GET returns the OpenAPI document of the interface.
	PathOpenAPI = "/openapi.json"
	// DefaultSocket is the default path of the agent's Unix socket.
	DefaultSocket = "/run/execd/agent.sock"
	// EpochHeader carries the epoch of a master in each of its calls. Each master that takes over a
	// cell uses a larger epoch than the previous master. An agent refuses calls with a smaller epoch
	// than it has seen. A master without an epoch omits the header.
	EpochHeader = "Execd-Master-Epoch"
	// SequenceHeader carries the number of a call of a master with an epoch. Repetitions of a call
	// have the same number, and later calls have larger numbers. An agent carries out each call
	// once. It refuses a call with FailedPrecondition if a later call about the same subject has
	// already arrived. Without the header the agent carries out every call.
	SequenceHeader = "Execd-Master-Sequence"
)

// Method is the name of a method.
type Method string

// The methods.
const (
	MethodStart       Method = "Start"       // StartRequest, JobAnswer
	MethodStartBatch  Method = "StartBatch"  // BatchRequest, BatchAnswer
	MethodAdmit       Method = "Admit"       // StartRequest, Empty
	MethodStartTask   Method = "StartTask"   // TaskStart, JobAnswer
	MethodAttach      Method = "Attach"      // JobRequest; the connection then carries frames of a terminal, see Frame
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

// Empty is a message without fields.
type Empty struct{}

// ID names a job, a task of an array job, or a task of a parallel job.
type ID struct {
	Job    int    `json:"job"`
	Task   int    `json:"task"`              // 0 for a job that is not an array job
	PETask string `json:"pe_task,omitempty"` // of a task of a parallel job, else empty
}

// Start is a job, or one task of an array job, that a master has scheduled on the host of the
// agent. JSON can only hold UTF-8: other bytes in Command, Script, Environment and Directory travel
// in a field with the same name and the suffix Base64. The Client does this conversion.
type Start struct {
	Job  int `json:"job"`
	Task int `json:"task"` // 0 for a job that is not an array job
	// Key identifies a start. All repetitions of a start have the same key, and a job that runs
	// again gets another key. Empty means "<job>.<task>", or "<job>".
	Key        string `json:"key,omitempty"`
	Owner      string `json:"owner"`
	Group      string `json:"group,omitempty"`      // of the owner on the submit host, for accounting
	Department string `json:"department,omitempty"` // for accounting
	// Command is the arguments of a qsub(1) command line: options, the script or command, its
	// arguments. Script is the text of the script, in which lines beginning with #$ have the
	// meaning that qsub gives them. With -b y there is no script.
	Command       []string `json:"command,omitempty"`
	CommandBase64 [][]byte `json:"command_base64,omitempty"`
	Script        string   `json:"script,omitempty"`
	ScriptBase64  []byte   `json:"script_base64,omitempty"`
	// Environment is the environment of the submission, by name, for -V, -v NAME and SGE_O_...
	Environment       map[string]string `json:"environment,omitempty"`
	EnvironmentBase64 map[string][]byte `json:"environment_base64,omitempty"`
	Directory         string            `json:"directory,omitempty"` // of the submission, absolute
	DirectoryBase64   []byte            `json:"directory_base64,omitempty"`
	Submitted         time.Time         `json:"submitted,omitzero"`
	// Restarted is 1 for a job that runs again from its beginning, and 2 for a job that continues
	// from a checkpoint (RESTARTED in qsub(1)).
	Restarted int `json:"restarted,omitempty"`
	// CheckpointPID is CheckpointPID from the outcome of the previous run, for a job that continues
	// from a checkpoint.
	CheckpointPID int `json:"checkpoint_pid,omitempty"`
	// Grants are all queue instances of the job, the master task's first.
	Grants      []Grant `json:"grants"`
	PE          string  `json:"pe,omitempty"` // name of the parallel environment
	Slave       bool    `json:"slave,omitempty"`
	Tickets     float64 `json:"tickets,omitempty"`
	Reservation int     `json:"reservation,omitempty"` // number of the advance reservation that the job runs in
	// Interactive gives the job a terminal, to which clients attach with Attach.
	Interactive *Interactive `json:"interactive,omitempty"`
}

// Interactive describes an interactive job. The job's command line has -b y and a command, which
// runs as with qrsh(1), or no command for a login shell as with qlogin(1).
type Interactive struct {
	Rows uint16 `json:"rows,omitempty"` // of the window; 0 if unknown
	Cols uint16 `json:"cols,omitempty"`
	Term string `json:"term,omitempty"` // TERM
	// Pipes gives the job a pipe for each standard stream instead of a pseudo terminal.
	Pipes bool `json:"pipes,omitempty"`
	// Login runs the login shell of the owner instead of a command.
	Login bool `json:"login,omitempty"`
}

// Grant is the slots that a job has in a queue instance.
type Grant = protocol.Grant

// BatchRequest contains several starts. The agent accepts or refuses each one separately.
type BatchRequest struct {
	Starts []Start `json:"starts"`
}

// StartResult is the result of one start: either a job or an error.
type StartResult struct {
	Job   *Job   `json:"job,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// BatchAnswer contains the results in the order of the starts.
type BatchAnswer struct {
	Results []StartResult `json:"results"`
}

// JobAnswer contains a job.
type JobAnswer struct {
	Job Job `json:"job"`
}

// TaskStart is a task of a parallel job: a command that runs in the job's slots, as with qrsh
// -inherit. See Start for fields with the suffix Base64.
type TaskStart struct {
	Job   int    `json:"job"`
	Task  int    `json:"task"`  // of the array job
	Key   string `json:"key"`   // see Start; required
	Owner string `json:"owner"` // must be the job's owner; may be omitted by the owner
	// Command is a program and its arguments.
	Command       []string `json:"command,omitempty"`
	CommandBase64 [][]byte `json:"command_base64,omitempty"`
	// Environment is added to the environment of the job.
	Environment       map[string]string `json:"environment,omitempty"`
	EnvironmentBase64 map[string][]byte `json:"environment_base64,omitempty"`
	Directory         string            `json:"directory,omitempty"` // empty for the directory of the job
	DirectoryBase64   []byte            `json:"directory_base64,omitempty"`
}

// Order is an order to a job.
type Order = protocol.Order

// The orders. A job can be suspended for several reasons at once. It continues when the last reason
// ends.
const (
	Terminate        = protocol.Terminate        // qdel: with notification and terminate method
	Kill             = protocol.Kill             // at once
	Suspend          = protocol.Suspend          // qmod -sj
	Resume           = protocol.Resume           // qmod -usj
	SuspendThreshold = protocol.SuspendThreshold // suspend_thresholds of queue_conf(5)
	ResumeThreshold  = protocol.ResumeThreshold  //
	SuspendQueue     = protocol.SuspendQueue     // qmod -sq, subordination, calendar
	ResumeQueue      = protocol.ResumeQueue      // qmod -usq
	Migrate          = protocol.Migrate          // checkpoint and end the job, which then runs again
	Reschedule       = protocol.Reschedule       // qmod -rj: end the job, which then runs again
	Usr1             = protocol.Usr1             // the notification before a suspension
	Usr2             = protocol.Usr2             // the notification before the end
)

// SignalRequest is an order to a job. Task -1 means all tasks of the job.
type SignalRequest struct {
	ID
	Order Order `json:"order"`
}

// SignalQueueRequest is the order suspend_queue or resume_queue for all jobs in a queue of the
// host.
type SignalQueueRequest struct {
	Queue string `json:"queue"` // without a host
	Order Order  `json:"order"`
}

// Tickets are the tickets of a job.
type Tickets struct {
	ID
	Tickets float64 `json:"tickets"`
}

// TicketsRequest sets the tickets of jobs. Other jobs keep their tickets.
type TicketsRequest struct {
	Tickets []Tickets `json:"tickets"`
}

// ConfigureRequest makes the agent read its configuration again. If Files is not empty, they first
// replace the whole configuration. If the agent cannot use them, nothing changes.
type ConfigureRequest struct {
	// Files are the texts of the configuration files, by their path below the configuration
	// directory, such as "queues/all.q".
	Files map[string]string `json:"files,omitempty"`
}

// ConfigureAnswer contains the version of the configuration in use.
type ConfigureAnswer struct {
	Version string `json:"version"`
}

// AcknowledgeRequest confirms that reports have arrived. Without a job it confirms all reports up
// to Number. With a job it confirms only the report of the job's end, which has that number. The
// agent then removes the finished jobs whose end is confirmed.
type AcknowledgeRequest struct {
	Number uint64 `json:"number"`
	Job    *ID    `json:"job,omitempty"`
}

// JobRequest asks for one job.
type JobRequest struct {
	ID
}

// JobsAnswer contains all jobs of the host, in the order of their numbers.
type JobsAnswer struct {
	Jobs []Job `json:"jobs"`
}

// DrainRequest makes the agent refuse new jobs.
type DrainRequest struct {
	Reason string `json:"reason"`
}

// ShutdownRequest stops the agent. Its jobs continue unless the request says to end them.
type ShutdownRequest struct {
	EndJobs bool `json:"end_jobs,omitempty"`
}

// Health is the status of an agent.
type Health struct {
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Epoch   uint64    `json:"epoch"` // the largest epoch of a master so far
	Slots   int       `json:"slots"` // of all queue instances of the host; 0 if unknown
	Used    int       `json:"used"`
	// Jobs counts jobs by state.
	Jobs     map[string]int `json:"jobs"`
	Draining string         `json:"draining"` // why the agent accepts no jobs; empty if it does
	Troubles []string       `json:"troubles"` // current problems, one sentence each
	// Configuration is the version in use. ConfigurationError is the reason why a newer one is not
	// in use.
	Configuration      string `json:"configuration"`
	ConfigurationError string `json:"configuration_error,omitempty"`
	// Sensors are the load sensors, in the order of load_sensor of sge_conf(5).
	Sensors []Sensor `json:"sensors,omitempty"`
	// GPUs are the GPUs of the host, in the order of their addresses on the PCI bus.
	GPUs []GPU `json:"gpus,omitempty"`
}

// GPU is a GPU of the host.
type GPU struct {
	ID      string `json:"id,omitempty"` // its number in the resource map gpu, "0.1.0" for a MIG instance; empty if the host does not offer it
	Vendor  string `json:"vendor"`       // NVIDIA, AMD or Intel
	Address string `json:"address"`      // on the PCI bus
	Model   string `json:"model,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	Memory  uint64 `json:"memory,omitempty"` // in bytes; 0 if unknown
	// Problem is the reason why the host does not offer the GPU, or the reason why a value is
	// unknown.
	Problem string `json:"problem,omitempty"`
	// Jobs are the jobs that use the GPU.
	Jobs []string `json:"jobs,omitempty"`
}

// Sensor is the status of a load sensor.
type Sensor struct {
	Path  string `json:"path"`
	User  string `json:"user,omitempty"` // the user that it runs as
	State string `json:"state"`          // waiting, asked, running, ending, ended
	// Since is when the sensor entered this state. NextStart is when a waiting sensor will be
	// started.
	Since     time.Time `json:"since"`
	NextStart time.Time `json:"next_start,omitzero"`
	PID       int       `json:"pid,omitempty"`
	// Fault is the sensor's current problem. The next complete report clears it.
	Fault      string    `json:"fault,omitempty"`
	Starts     int       `json:"starts"`
	Reports    int       `json:"reports"` // complete ones
	LastReport time.Time `json:"last_report,omitzero"`
	Values     int       `json:"values"` // in the last report
	// Violations counts the violations of the protocol. LastViolation is the last one.
	Violations    int        `json:"violations"`
	LastViolation *Violation `json:"last_violation,omitempty"`
}

// Violation is an error in the output of a load sensor.
type Violation struct {
	Line     int    `json:"line,omitempty"`     // since the sensor was started; 0 if the error is not in a line
	Text     string `json:"text,omitempty"`     // the line, shortened if it is long
	Problem  string `json:"problem"`            // the error
	Expected string `json:"expected,omitempty"` // the correct form
}

// VersionAnswer describes the agent and its interface.
type VersionAnswer struct {
	API      string `json:"api"`      // Name
	Revision int    `json:"revision"` // see Revision
	Version  string `json:"version"`  // of the program
	// Methods are the methods of this agent that the caller may use. Capabilities are further
	// features.
	Methods      []Method `json:"methods"`
	Capabilities []string `json:"capabilities"`
}

// The capabilities.
const (
	// CanTakeFiles means that Configure accepts files.
	CanTakeFiles = "configure.files"
)

// ReportsRequest requests all reports with a number above After, and then new reports as they
// occur.
type ReportsRequest struct {
	After uint64 `json:"after"`
	// Acknowledge confirms that all reports up to this number have arrived; see AcknowledgeRequest.
	Acknowledge uint64 `json:"acknowledge,omitempty"`
	// Heartbeat is the interval of heartbeats in seconds; 0 means 10.
	Heartbeat float64 `json:"heartbeat,omitempty"`
}
