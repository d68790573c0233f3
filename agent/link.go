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

// Link is the way to a master. It translates: what a master says becomes calls of
// Commands, and what Commands.Reports returns becomes what the master understands.
type Link interface {
	// Name says for a log which link it is: "api", "gridengine".
	Name() string
	// Run serves the link until the context ends, and returns nil then. An error is
	// for what cannot be mended by waiting; a master that is away is none.
	Run(ctx context.Context, c Commands) error
}

// Commands is what a master may order, and what it is told. An Agent implements it.
// All of it may be used from several goroutines; nothing waits for a job to do
// something, except where it is said. Errors are *Error.
type Commands interface {
	// Start takes a job, or one task of an array job. When it returns without an
	// error, the job is on the disk and will run, and Start is not needed again. The
	// same start again changes nothing and is answered with what became of the job.
	Start(ctx context.Context, s *Start) (JobReport, error)
	// Admit reports whether a start would be accepted now, and changes nothing.
	Admit(ctx context.Context, s *Start) error
	// StartTask starts a task of a parallel job that runs here (sge_pe(5),
	// control_slaves), as qrsh -inherit does. It returns the id of the task.
	StartTask(ctx context.Context, s *TaskStart) (JobReport, error)
	// SawEpoch refuses a master that has been replaced by one with a larger epoch, as Start
	// does, for all other orders. 0 is for one that does not count.
	SawEpoch(epoch uint64) error
	// InTurn carries out an order for the whole agent, unless it was carried out before;
	// one that was overtaken by a newer one about the same is refused. What was carried out
	// is remembered over restarts.
	InTurn(t Sequence, what string, do func() error) error
	// Signal delivers an order to a job, or with ID.Task < 0 to all its tasks. The context
	// may have its turn, see WithTurn.
	Signal(ctx context.Context, id job.ID, o Order) error
	// Attach connects the caller with the terminal of an interactive job, from the moment
	// on at which the job has begun, for which it waits. Who was attached before is so no
	// more. What the job writes while nobody is attached waits in its terminal, and when
	// that has no more room the job waits. How the job ends is reported.
	Attach(ctx context.Context, id job.ID) (Terminal, error)
	// SignalQueue suspends or resumes all jobs of a queue of this host.
	SignalQueue(ctx context.Context, queue string, o Order) error
	// SetTickets gives running jobs their tickets, from which their shares of the
	// processors come (sge_priority(5)). Jobs that are not named keep theirs.
	SetTickets(tickets []Tickets)
	// Configure has the configuration read again.
	Configure(ctx context.Context) error
	// FullReport makes the next report of load values one of all of them.
	FullReport()
	// Reports waits until there is something that has a number above after, and
	// returns all of that: of each job its last state, of load values those that have
	// changed. 0 is for everything. A number that was not given out yet is an
	// InvalidArgument: it is of another spool area.
	Reports(ctx context.Context, after uint64) (Batch, error)
	// Acknowledge says that all reports up to a number have arrived: jobs whose end
	// is among them are removed.
	Acknowledge(ctx context.Context, number uint64) error
	// AcknowledgeJob does so for the end of one job, of which the report had this
	// number.
	AcknowledgeJob(ctx context.Context, id job.ID, number uint64) error
	// Jobs returns all jobs of the table, in the order of their numbers.
	Jobs() []JobReport
	// Job returns one of them.
	Job(id job.ID) (JobReport, bool)
	// Drain refuses new jobs, for a reason, until Resume.
	Drain(ctx context.Context, reason string) error
	Resume(ctx context.Context) error
	// Shutdown ends the agent. Jobs go on unless they are to be ended, too.
	Shutdown(endJobs bool)
	// Health returns the status of the agent.
	Health() Health
}

// Start is a job, or one task of an array job, that a master has placed here.
type Start struct {
	ID job.ID
	// Key is the same for all repetitions of one start, and no other start has it:
	// a job that is run again has another. Empty is "<job>.<task>".
	Key string
	// Epoch counts the masters of the cell: one that has been replaced has a smaller
	// one, and its starts are refused. 0 for a master that does not count.
	Epoch uint64

	Owner      string // login name on this host
	Group      string // of the owner on the submit host, for the accounting; may be empty
	Department string
	Request    *submit.Request
	Submitted  time.Time
	SubmitEnv  []string
	SubmitDir  string
	// Submission is that of launch.Assignment.
	Submission string
	Restarted  job.Restart
	// CheckpointPID is that of the outcome of the previous run, for a job that goes on
	// from a checkpoint.
	CheckpointPID int

	// Grants are all queue instances that the job has got, that of its master task
	// first. On this host it runs with the slots of those that are of this host.
	Grants []Grant
	PE     string // name of the parallel environment; empty for a serial job
	// Slave says that the master task is on another host: only tasks run here.
	Slave       bool
	Tickets     float64
	Reservation int // number of the advance reservation it runs in
	// Interactive gives the job a terminal to attach to; nil for none. Such a job
	// is never run again (sge_status(5)).
	Interactive *Interactive

	// Order is set by a link whose master sends the settings of queue, parallel
	// environment and host with the job. Without one the agent's own configuration
	// says them, and whether the job fits is checked.
	Order *launch.Assignment
}

// Interactive says how an interactive job is.
type Interactive = launch.Interactive

// Terminal is the terminal of a job somebody is attached to. Its methods may be used
// from several goroutines.
type Terminal interface {
	// Pipes reports whether the job has pipes in place of a pseudo terminal.
	Pipes() bool
	// Read returns io.EOF after all that the job has written, when the job has ended,
	// ErrTaken when somebody else has attached, and ErrDetached when the agent ends.
	Read(p []byte) (int, error)
	// ReadErrors is Read for the standard error of a job with pipes. What a job writes to
	// a pseudo terminal is read by Read alone, and here is nothing but the end.
	ReadErrors(p []byte) (int, error)
	Write(p []byte) (int, error)
	// EndInput closes the standard input of a job with pipes, once and for all who attach
	// later. For a pseudo terminal it does nothing.
	EndInput() error
	// Exit returns the exit status of the job. Call it after Read has returned io.EOF. It waits for
	// the end of the job, which may close its output earlier, and returns the errors of Read.
	Exit(ctx context.Context) (*job.Outcome, error)
	// Resize tells the job the size of the window: SIGWINCH.
	Resize(rows, cols uint16) error
	// Detach ends the connection and leaves the job alone.
	Detach()
	// Leave ends the connection of one who has not gone: the link ends. He is waited for
	// by the next agent as if he had gone without a word.
	Leave()
	// Close ends the connection of someone who has gone without a word. The job is
	// terminated when nobody attaches to it within Options.HangUp; one with pipes at once:
	// what was on its way is lost, which nobody would notice. After Detach, or when
	// somebody else has attached, it does nothing.
	Close()
}

// Grant is a queue instance of which a job has got slots.
type Grant = protocol.Grant

// TaskStart is a task of a parallel job: a command that runs in the job's slots.
type TaskStart struct {
	Job     job.ID // without PETask
	Key     string // see Start
	Owner   string // must be that of the job
	Command []string
	Dir     string
	Env     []string // NAME=value, beside that of the job
}

// Order is what a job is told.
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

// Tickets are what a job has got of the tickets of its cell.
type Tickets struct {
	ID      job.ID   `json:"-"`
	Tickets float64  `json:"tickets"`
	Turn    Sequence `json:"-"`
}

// Batch is what Reports returns. A master that has taken all of it goes on with
// Number; one that has taken all reports up to some number goes on with that. So each
// report has a number of its own, of whichever kind it is. What jobs have used is one
// report for all that were looked at together (JobReport.Used).
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
	// Draining is why the host takes no jobs, whoever wants that; empty if it does. Unlike
	// Health.Draining it says nothing of an agent that begins or ends.
	Draining string
}

// LoadReport are load values of this host, and of others that load sensors know.
type LoadReport struct {
	Number  uint64 // of the report, among those of jobs
	Full    bool   // Values are all there are
	Time    time.Time
	Values  []loadsensor.Value
	Removed []loadsensor.Key
}

// JobReport is what there is to say of one job at one time.
type JobReport struct {
	Number uint64 // of the report; larger than those of all before
	// Used says that nothing but Usage can have changed since the report from which on
	// reports were asked for. All that were seen at one look have the same number.
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

	SuspendedBy []Order // those of the Suspend orders that hold
	Submitted   time.Time
	// QueuePriority is the priority of queue_conf(5) that the job has got, a nice value.
	QueuePriority int
	Received      time.Time
	Started       time.Time     // when the job itself began; zero before
	PID           int           // of the supervisor; 0 for none
	Usage         jobdir.Online // so far; after the end Outcome has it
	Nice          int
	Notes         []string // what of its limits and binding is not kept, and why
	Outcome       *job.Outcome
	Dir           string // the job directory
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
	Troubles []string // what does not work now, one sentence each
	// Sensors are the load sensors, in the order of the configuration.
	Sensors []external.Status
	// GPUs are those of the host, in the order of their addresses.
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

// Code says what kind of an error it is.
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

// Error is the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
