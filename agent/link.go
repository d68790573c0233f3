package agent

import (
	"context"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/protocol"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/loadsensor/external"
	"github.com/execd-project/execd/submit"
)

// Link is the connection to a master. It translates the messages of the master into calls of
// Commands, and the results of Commands.Reports into messages for the master.
type Link interface {
	// Name says for a log which link it is: "api", "gridengine".
	Name() string
	// Run serves the link until the context ends, and returns nil then. It returns an error only
	// for problems that waiting cannot solve; an unreachable master is not one.
	Run(ctx context.Context, c Commands) error
}

// Commands are the orders of a master and the reports for it. An Agent implements it. All methods
// may be called by several goroutines. They do not wait for jobs unless their comments say so.
// Errors are *Error.
type Commands interface {
	// Start accepts a job, or one task of an array job. When it returns without an error, the job
	// is on the disk and will run. Repeating the same start changes nothing and returns the current
	// report of the job.
	Start(ctx context.Context, s *Start) (JobReport, error)
	// Admit reports whether a start would be accepted now, and changes nothing.
	Admit(ctx context.Context, s *Start) error
	// StartTask starts a task of a parallel job that runs here (sge_pe(5),
	// control_slaves), as qrsh -inherit does. It returns the id of the task.
	StartTask(ctx context.Context, s *TaskStart) (JobReport, error)
	// SawEpoch refuses a master that has been replaced by one with a larger epoch. It is for all
	// orders except Start, which checks the epoch itself. 0 stands for a master without epochs.
	SawEpoch(epoch uint64) error
	// InTurn carries out an order for the whole agent, unless it was carried out before. It refuses
	// an order that a newer one about the same subject has overtaken. It remembers carried-out
	// orders across restarts.
	InTurn(t Sequence, what string, do func() error) error
	// Signal delivers an order to a job, or with ID.Task < 0 to all its tasks. The context
	// may have its turn, see WithTurn.
	Signal(ctx context.Context, id job.ID, o Order) error
	// Attach waits for the start of an interactive job and connects the caller with its terminal.
	// Any attached client is disconnected. While no client is attached, the terminal buffers the
	// output of the job; when the buffer is full, the job blocks. The end of the job is reported as
	// usual.
	Attach(ctx context.Context, id job.ID) (Terminal, error)
	// SignalQueue suspends or resumes all jobs of a queue of this host.
	SignalQueue(ctx context.Context, queue string, o Order) error
	// SetTickets sets the tickets of running jobs, which determine their shares of the processors
	// (sge_priority(5)). Other jobs keep their tickets.
	SetTickets(tickets []Tickets)
	// Configure makes the agent read its configuration again.
	Configure(ctx context.Context) error
	// FullReport makes the next report of load values contain all of them.
	FullReport()
	// Reports waits until there is a report with a number above after, and returns all such
	// reports: for each job its latest state, and the changed load values. 0 returns all reports. A
	// number that was never assigned is an InvalidArgument error, because it comes from another
	// spool area.
	Reports(ctx context.Context, after uint64) (Batch, error)
	// Acknowledge says that all reports up to a number have arrived: jobs whose end
	// is among them are removed.
	Acknowledge(ctx context.Context, number uint64) error
	// AcknowledgeJob acknowledges the end of one job, whose report had this number.
	AcknowledgeJob(ctx context.Context, id job.ID, number uint64) error
	// Jobs returns all jobs of the table, in the order of their numbers.
	Jobs() []JobReport
	// Job returns one job of the table.
	Job(id job.ID) (JobReport, bool)
	// Drain refuses new jobs, for a reason, until Resume.
	Drain(ctx context.Context, reason string) error
	Resume(ctx context.Context) error
	// Shutdown ends the agent. Jobs continue unless endJobs is true.
	Shutdown(endJobs bool)
	// Health returns the status of the agent.
	Health() Health
}

// Start is a job, or one task of an array job, that a master has placed here.
type Start struct {
	ID job.ID
	// Key identifies a start: all repetitions of a start have the same key, and a job that runs
	// again has another one. Empty means "<job>.<task>".
	Key string
	// Epoch increases with each new master of the cell. Starts of a replaced master have a smaller
	// epoch and are refused. 0 stands for a master without epochs.
	Epoch uint64

	Owner      string // login name on this host
	Group      string // of the owner on the submit host, for the accounting; may be empty
	Department string
	Request    *submit.Request
	Submitted  time.Time
	SubmitEnv  []string
	SubmitDir  string
	// Submission is the Submission of launch.Assignment.
	Submission string
	Restarted  job.Restart
	// CheckpointPID is the CheckpointPID in the outcome of the previous run, for a job that
	// continues from a checkpoint.
	CheckpointPID int

	// Grants are all queue instances of the job; the master task's is the first. On this host the
	// job runs with the slots of this host's instances.
	Grants []Grant
	PE     string // name of the parallel environment; empty for a serial job
	// Slave says that the master task is on another host; only slave tasks run here.
	Slave bool
	// MasterForksSlaves and DaemonForksSlaves are parameters of sge_pe(5) of Open Cluster Scheduler: no
	// task may be started where the job script runs, and no more than one at a time on a host.
	MasterForksSlaves, DaemonForksSlaves bool

	Tickets     float64
	Reservation int // number of the advance reservation it runs in
	// Interactive gives the job a terminal to attach to; nil for none. Such a job
	// is never run again (sge_status(5)).
	Interactive *Interactive

	// Order is set by a link whose master sends the settings of queue, parallel
	// environment and host with the job. Without one the agent takes these settings
	// from its own configuration, and checks whether the job fits.
	Order *launch.Assignment
}

// Interactive has the properties of an interactive job.
type Interactive = launch.Interactive

// Terminal is a client's connection with the terminal of a job. Its methods may be called by
// several goroutines.
type Terminal interface {
	// Pipes reports whether the job has pipes instead of a pseudo terminal.
	Pipes() bool
	// Read returns io.EOF after the job has ended and all its output was read, ErrTaken when
	// another client has attached, and ErrDetached when the agent stops.
	Read(p []byte) (int, error)
	// ReadErrors is Read for the standard error of a job with pipes. For a job with a pseudo
	// terminal, Read returns all output, and ReadErrors only the end.
	ReadErrors(p []byte) (int, error)
	Write(p []byte) (int, error)
	// EndInput closes the standard input of a job with pipes, also for all clients that attach
	// later. For a pseudo terminal it does nothing.
	EndInput() error
	// Exit returns the exit status of the job. Call it after Read has returned io.EOF. It waits for
	// the end of the job, which may close its output earlier, and returns the errors of Read.
	Exit(ctx context.Context) (*job.Outcome, error)
	// Resize tells the job the size of the window: SIGWINCH.
	Resize(rows, cols uint16) error
	// Detach ends the connection and leaves the job alone.
	Detach()
	// Leave ends the connection because the link ends, not the client. The next agent waits for the
	// client as if it had disappeared without detaching.
	Leave()
	// Close ends the connection of a client that has disappeared without detaching. If no client
	// attaches within Options.HangUp, the job is terminated. A job with pipes is terminated at
	// once, because data in transit is lost unnoticed. After Detach, or when another client has
	// attached, Close does nothing.
	Close()
}

// Grant is a queue instance with the slots that a job has there.
type Grant = protocol.Grant

// TaskStart is a task of a parallel job: a command that runs in the job's slots.
type TaskStart struct {
	Job     job.ID // without PETask
	Key     string // see Start
	Owner   string // must be that of the job
	Command []string
	Dir     string
	Env     []string // NAME=value, in addition to the job's environment
}

// Order is an order to a job.
type Order = protocol.Order

// The orders.
const (
	Terminate        = protocol.Terminate
	Kill             = protocol.Kill
	Suspend          = protocol.Suspend
	Resume           = protocol.Resume
	SuspendThreshold = protocol.SuspendThreshold
	ResumeThreshold  = protocol.ResumeThreshold
	SuspendQueue     = protocol.SuspendQueue
	ResumeQueue      = protocol.ResumeQueue
	Migrate          = protocol.Migrate
	Reschedule       = protocol.Reschedule
	Usr1             = protocol.Usr1
	Usr2             = protocol.Usr2
)

// Tickets are the tickets of a job.
type Tickets struct {
	ID      job.ID   `json:"-"`
	Tickets float64  `json:"tickets"`
	Turn    Sequence `json:"-"`
}

// Batch is the result of Reports. A master that has processed the whole batch continues with
// Number; one that has processed all reports up to another number continues with that number. So
// each report, of any kind, has a different number. The usage of all jobs that were measured
// together is one report (JobReport.Used).
type Batch struct {
	Number uint64
	Jobs   []JobReport // in any order
	Load   *LoadReport // nil for no change
	// Configuration is the version of the configuration in use, when it has changed;
	// ConfigurationNumber is the number of that report.
	Configuration       string
	ConfigurationNumber uint64
	Service             *ServiceReport // nil for no change
}

// ServiceReport reports whether the host takes jobs.
type ServiceReport struct {
	Number uint64
	// Draining says why the host takes no jobs, for all sources; it is empty if the host takes
	// jobs. Unlike Health.Draining it does not cover an agent that is starting or stopping.
	Draining string
}

// LoadReport are load values of this host, and of others that load sensors know.
type LoadReport struct {
	Number  uint64 // of the report
	Full    bool   // Values are all there are
	Time    time.Time
	Values  []loadsensor.Value
	Removed []loadsensor.Key
}

// JobReport is the state of one job at one time.
type JobReport struct {
	Number uint64 // of the report; larger than all earlier ones
	// Used says that only Usage can have changed since the report after which reports were
	// requested. All jobs that were measured together have the same number.
	Used  bool
	ID    job.ID
	Key   string // no other job or task has it; for tasks see StartKey
	State State
	Slave bool
	Owner string
	Name  string // of the job
	Queue string // of the master task, without a host
	PE    string
	Slots int // on this host

	SuspendedBy []Order // the Suspend orders in effect
	Submitted   time.Time
	// QueuePriority is the priority of queue_conf(5) that the job has got, a nice value.
	QueuePriority int
	Received      time.Time
	Started       time.Time     // when the job itself began; zero before
	PID           int           // of the supervisor; 0 for none
	Usage         jobdir.Online // so far; after the end Outcome has it
	GPU           *GPUReport    // nil for a job without GPUs
	Nice          int
	Notes         []string // limits and bindings that are not enforced, and why
	Outcome       *job.Outcome
	Dir           string // the job directory
}

// GPUReport is the usage of a running job's GPUs so far.
type GPUReport struct {
	job.GPUUsage
	// Idle has the numbers of the GPUs that the job has not used for IdleGPU or longer, and the times
	// when it stopped using them.
	Idle map[string]time.Time
}

// Health is the status of the agent.
type Health struct {
	Host     string
	Version  string
	Started  time.Time
	Epoch    uint64 // the largest of a master
	Slots    int    // of all queue instances of this host; 0 if not known
	Used     int
	Jobs     map[State]int
	Draining string   // why no jobs are taken; empty if they are
	Troubles []string // current problems, one sentence each
	// Sensors are the load sensors, in the order of the configuration.
	Sensors []external.Status
	// GPUs are the GPUs of the host, sorted by address.
	GPUs []GPU
	// Configuration is the version in use; ConfigurationError why a newer one is not.
	Configuration      string
	ConfigurationError string
}

// GPU is a GPU of the host, and the jobs that have it.
type GPU struct {
	gpu.GPU
	Jobs []job.ID
}

// Code is the kind of an error.
type Code = protocol.Code

// The codes of the errors of an agent.
const (
	InvalidArgument    = protocol.InvalidArgument
	NotFound           = protocol.NotFound
	AlreadyExists      = protocol.AlreadyExists
	PermissionDenied   = protocol.PermissionDenied
	FailedPrecondition = protocol.FailedPrecondition
	ResourceExhausted  = protocol.ResourceExhausted
	Unavailable        = protocol.Unavailable
	Internal           = protocol.Internal
)

// Error is an order that was not carried out.
type Error struct {
	Code Code
	Err  error
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
