package api

import (
	"time"

	"github.com/execd-project/execd/agent/protocol"
)

// Report is one line of the stream of reports. It has exactly one of these parts. A reader that has
// processed all lines up to a number continues with that number.
type Report struct {
	Number        uint64         `json:"number"`
	Job           *Job           `json:"job,omitempty"`
	Usage         *UsageReport   `json:"usage,omitempty"`
	Load          *Load          `json:"load,omitempty"`
	Configuration *Configuration `json:"configuration,omitempty"`
	Service       *Service       `json:"service,omitempty"`
	// Heartbeat means that there is no news. Its Number is the number of the last report.
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
	// Error is the last line of a stream that the agent closes. A Client returns it, or connects
	// again.
	Error *Error `json:"error,omitempty"`
}

// Heartbeat is a sign of life of the agent.
type Heartbeat struct {
	Time time.Time `json:"time"`
}

// Configuration reports that the agent has changed to another configuration.
type Configuration struct {
	Version string `json:"version"`
}

// Service reports whether the host accepts jobs.
type Service struct {
	// Draining is the reason why the host accepts no jobs; empty if it does. Unlike Draining of
	// Health it is not set while the agent starts or stops.
	Draining string `json:"draining"`
}

// Load contains load values of a host, and of other hosts that its load sensors report.
type Load struct {
	Full    bool      `json:"full"` // Values are complete: the reader discards all other values
	Time    time.Time `json:"time"`
	Values  []Value   `json:"values"`
	Removed []ValueID `json:"removed,omitempty"`
}

// ValueID identifies a load value.
type ValueID struct {
	Host string `json:"host"` // "global" for the whole cluster
	Name string `json:"name"`
}

// Value is one load value.
type Value struct {
	ValueID
	Text   string    `json:"value"`
	Static bool      `json:"static,omitempty"` // see load_parameters(5); shown for hosts that are down as well
	At     time.Time `json:"at"`               // when the value was measured
	Source string    `json:"source,omitempty"` // path of the load sensor; empty for built-in values
}

// UsageReport contains the usage of running jobs of which nothing else has changed. The values were
// measured together.
type UsageReport struct {
	Time time.Time  `json:"time"` // of the report
	Jobs []JobUsage `json:"jobs"`
}

// JobUsage is the usage of a running job so far, as in Online. Zero values are omitted.
type JobUsage struct {
	Job     int     `json:"job"`
	Task    int     `json:"task,omitempty"`
	PETask  string  `json:"pe_task,omitempty"`
	CPU     float64 `json:"cpu,omitempty"`
	Mem     float64 `json:"mem,omitempty"`
	IO      float64 `json:"io,omitempty"`
	IOWait  float64 `json:"iow,omitempty"`
	Vmem    int64   `json:"vmem,omitempty"`
	MaxVmem int64   `json:"maxvmem,omitempty"`

	GPU *GPUUsage `json:"gpu,omitempty"` // of a job with GPUs
}

// ID returns the ID of the job.
func (u *JobUsage) ID() ID { return ID{Job: u.Job, Task: u.Task, PETask: u.PETask} }

// State is the state of a job on its host.
type State = protocol.State

// The states, in their order.
const (
	Accepted     = protocol.Accepted     // the job is on disk and will run
	Starting     = protocol.Starting     // its supervisor has been started
	Running      = protocol.Running      //
	Suspended    = protocol.Suspended    // SuspendedBy contains the reasons
	Ending       = protocol.Ending       // the job was ordered to end
	Ended        = protocol.Ended        // Outcome contains the result
	Reported     = protocol.Reported     // the agent has sent the report to a master
	Acknowledged = protocol.Acknowledged // the master has confirmed the report; the agent keeps nothing of the job
)

// Job is the state of one job at one time. Directory, PID, Notes and the texts of Outcome may
// contain names that the owner chose. Only the owner and managers get them.
type Job struct {
	ID
	Number uint64 `json:"number"` // of the report
	Key    string `json:"key"`
	State  State  `json:"state"`
	Slave  bool   `json:"slave,omitempty"`
	Owner  string `json:"owner"`
	Name   string `json:"name"`
	Queue  string `json:"queue"` // of the master task, without a host
	PE     string `json:"pe,omitempty"`
	Slots  int    `json:"slots"` // on this host

	SuspendedBy []Order   `json:"suspended_by,omitempty"` // the orders to suspend that are in effect
	Submitted   time.Time `json:"submitted,omitzero"`
	// QueuePriority is the priority of queue_conf(5) that applies to the job.
	QueuePriority int       `json:"queue_priority,omitempty"`
	Received      time.Time `json:"received,omitzero"`
	Started       time.Time `json:"started,omitzero"` // when the job itself began, after the prolog
	PID           int       `json:"pid,omitempty"`    // of the supervisor
	Usage         *Online   `json:"usage,omitempty"`  // so far; after the end see Outcome
	GPU           *GPUUsage `json:"gpu,omitempty"`    // so far, of a job with GPUs
	Nice          int       `json:"nice,omitempty"`
	Notes         []string  `json:"notes,omitempty"` // limits and bindings that cannot be enforced, with reasons
	Outcome       *Outcome  `json:"outcome,omitempty"`
	Directory     string    `json:"directory,omitempty"` // of the job, in the agent's spool directory
}

// Online is the usage of a running job so far.
type Online struct {
	At        time.Time `json:"at"`        // when the last change was measured
	Wallclock float64   `json:"wallclock"` // seconds until the report
	CPU       float64   `json:"cpu"`       // seconds of the whole job
	Mem       float64   `json:"mem"`       // GiB times seconds of CPU, as in accounting(5)
	IO        float64   `json:"io"`        // GiB, as in accounting(5)
	IOWait    float64   `json:"iow"`       // seconds
	Vmem      int64     `json:"vmem"`      // bytes of RAM and swap now
	MaxVmem   int64     `json:"maxvmem"`   // the largest Vmem so far
}

// Outcome is the result of a job.
type Outcome struct {
	Failed     int    `json:"failed"` // the code of sge_status(5); 0 for success
	FailedText string `json:"failed_text,omitempty"`
	Class      string `json:"class"`  // the object that the failure is attributed to: none, job, queue, ...
	Effect     string `json:"effect"` // what happens to the job next: finished, requeued, ...
	// Ran is true if the job itself was started. Otherwise there is neither an exit status nor
	// usage.
	Ran        bool   `json:"ran"`
	ExitStatus int    `json:"exit_status"`      // of the job: 0-255, 128+n after signal n
	Signal     int    `json:"signal,omitempty"` // that terminated the job, 0 for none
	CoreDumped bool   `json:"core_dumped,omitempty"`
	Reason     string `json:"reason,omitempty"` // one sentence for people; empty after a normal exit
	// Notice is one sentence about a request that the host refused while the job ran, or about a
	// part of a script that shells do not understand if the job did not exit with 0.
	Notice string         `json:"notice,omitempty"`
	Limit  *LimitExceeded `json:"limit,omitempty"`
	Start  time.Time      `json:"start,omitzero"` // of the job itself
	End    time.Time      `json:"end,omitzero"`
	// Restart and CheckpointPID are the values for the fields Restarted and CheckpointPID of the
	// next Start of a job that migrates.
	Restart       int   `json:"restart,omitempty"`
	CheckpointPID int   `json:"checkpoint_pid,omitempty"`
	Usage         Usage `json:"usage"`
}

// LimitExceeded says which limit ended a job. Values are seconds, bytes or a count, depending on
// the limit.
type LimitExceeded struct {
	Name     string  `json:"name"` // "h_rt"
	Value    float64 `json:"value"`
	Measured float64 `json:"measured"`
}

// Usage is the usage of a job, under the names of accounting(5).
type Usage struct {
	Wallclock float64 `json:"ru_wallclock"` // seconds
	Utime     float64 `json:"ru_utime"`     // seconds
	Stime     float64 `json:"ru_stime"`     // seconds
	MaxRSS    int64   `json:"ru_maxrss"`    // bytes, of the largest process
	PeakRSS   int64   `json:"maxrss"`       // bytes of RAM of the whole job; 0 if only ru_maxrss is known
	IxRSS     int64   `json:"ru_ixrss"`
	IdRSS     int64   `json:"ru_idrss"`
	IsRSS     int64   `json:"ru_isrss"`
	Minflt    int64   `json:"ru_minflt"`
	Majflt    int64   `json:"ru_majflt"`
	Nswap     int64   `json:"ru_nswap"`
	Inblock   int64   `json:"ru_inblock"` // of 512 bytes
	Oublock   int64   `json:"ru_oublock"` // of 512 bytes
	Msgsnd    int64   `json:"ru_msgsnd"`
	Msgrcv    int64   `json:"ru_msgrcv"`
	Nsignals  int64   `json:"ru_nsignals"`
	Nvcsw     int64   `json:"ru_nvcsw"`
	Nivcsw    int64   `json:"ru_nivcsw"`
	CPU       float64 `json:"cpu"`     // seconds of the whole job
	Mem       float64 `json:"mem"`     // GiB times seconds of CPU
	IO        float64 `json:"io"`      // GiB transferred
	IOOps     int64   `json:"ioops"`   // reads and writes
	IOW       float64 `json:"iow"`     // seconds
	MaxVmem   int64   `json:"maxvmem"` // bytes

	GPU *GPUUsage `json:"gpu,omitempty"` // of a job with GPUs
}

// GPUUsage is the usage of a job's GPUs.
type GPUUsage struct {
	Count     int     `json:"count"`      // GPUs of the job on this host
	Seconds   float64 `json:"seconds"`    // for which the job had them, times their number
	Measured  float64 `json:"measured"`   // the part of seconds of which the utilisation is known
	Busy      float64 `json:"busy"`       // the part of measured in which the GPUs computed
	MaxMemory int64   `json:"max_memory"` // largest measured memory of all GPUs of the job together, bytes; 0 if it is not known
	// Idle has the GPUs that a running job has not used for ten minutes or longer, and the times when it
	// stopped using them.
	Idle map[string]time.Time `json:"idle,omitempty"`
}
