package api

import "time"

// Report is one line of the stream of reports: one of its parts. Who has taken all
// lines up to some number goes on with that number.
type Report struct {
	Number        uint64         `json:"number"`
	Job           *Job           `json:"job,omitempty"`
	Usage         *UsageReport   `json:"usage,omitempty"`
	Load          *Load          `json:"load,omitempty"`
	Configuration *Configuration `json:"configuration,omitempty"`
	Service       *Service       `json:"service,omitempty"`
	// Heartbeat says that there is nothing to say. Number is that of the last report.
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
	// Error is the last line of a stream that the agent ends. A Client returns it, or
	// connects again.
	Error *Error `json:"error,omitempty"`
}

// Heartbeat says that the agent is alive.
type Heartbeat struct {
	Time time.Time `json:"time"`
}

// Configuration says that the agent uses another configuration.
type Configuration struct {
	Version string `json:"version"`
}

// Service reports whether the host takes jobs.
type Service struct {
	// Draining is why it does not; empty if it does. Unlike that of Health it says nothing of
	// an agent that begins or ends.
	Draining string `json:"draining"`
}

// Load are load values of a host, and of others that its load sensors know.
type Load struct {
	Full    bool      `json:"full"` // Values are all there are: what one knows besides is gone
	Time    time.Time `json:"time"`
	Values  []Value   `json:"values"`
	Removed []ValueID `json:"removed,omitempty"`
}

// ValueID says what a load value is of.
type ValueID struct {
	Host string `json:"host"` // "global" for the whole cluster
	Name string `json:"name"`
}

// Value is one load value.
type Value struct {
	ValueID
	Text   string    `json:"value"`
	Static bool      `json:"static,omitempty"` // see load_parameters(5); it is shown for hosts that are down
	At     time.Time `json:"at"`               // when it was measured
	Source string    `json:"source,omitempty"` // path of the load sensor; empty for what is built in
}

// UsageReport is what jobs have used of which nothing else has changed: all that were
// looked at together.
type UsageReport struct {
	Time time.Time  `json:"time"` // of the report
	Jobs []JobUsage `json:"jobs"`
}

// JobUsage is what a job that runs has used so far, as in Online. What is 0 is left out.
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
}

// ID is that of the job.
func (u *JobUsage) ID() ID { return ID{Job: u.Job, Task: u.Task, PETask: u.PETask} }

// State is where a job stands on its host.
type State string

// The states, in their order.
const (
	Accepted     State = "accepted"     // it is on the disk and will run
	Starting     State = "starting"     // its supervisor has been started
	Running      State = "running"      //
	Suspended    State = "suspended"    // SuspendedBy says by whom
	Ending       State = "ending"       // its end was ordered
	Ended        State = "ended"        // Outcome says what became of it
	Reported     State = "reported"     // a master was told
	Acknowledged State = "acknowledged" // and knows: nothing of the job is kept
)

// Over reports whether the job has ended.
func (s State) Over() bool { return s == Ended || s == Reported || s == Acknowledged }

// Job is what there is to say of one job at one time. To a user who is neither its
// owner nor a manager, what could have been named by the owner is left out: Directory,
// PID, Notes, and the texts of Outcome.
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

	SuspendedBy []Order   `json:"suspended_by,omitempty"` // those of the orders to suspend that hold
	Submitted   time.Time `json:"submitted,omitzero"`
	// QueuePriority is the priority of queue_conf(5) that the job has got.
	QueuePriority int       `json:"queue_priority,omitempty"`
	Received      time.Time `json:"received,omitzero"`
	Started       time.Time `json:"started,omitzero"` // when the job itself began
	PID           int       `json:"pid,omitempty"`    // of the supervisor
	Usage         *Online   `json:"usage,omitempty"`  // so far; after the end Outcome has it
	Nice          int       `json:"nice,omitempty"`
	Notes         []string  `json:"notes,omitempty"` // what of its limits and binding is not kept, and why
	Outcome       *Outcome  `json:"outcome,omitempty"`
	Directory     string    `json:"directory,omitempty"` // of the job, in the agent's spool area
}

// Online is what a job that runs has used so far.
type Online struct {
	At        time.Time `json:"at"`        // when it was measured to have changed
	Wallclock float64   `json:"wallclock"` // seconds until the report
	CPU       float64   `json:"cpu"`       // seconds of the whole job
	Mem       float64   `json:"mem"`       // GiB times seconds of CPU, as in accounting(5)
	IO        float64   `json:"io"`        // GiB, as in accounting(5)
	IOWait    float64   `json:"iow"`       // seconds
	Vmem      int64     `json:"vmem"`      // bytes of RAM and swap now
	MaxVmem   int64     `json:"maxvmem"`   // and at most
}

// Outcome is what became of a job.
type Outcome struct {
	Failed     int    `json:"failed"` // the code of sge_status(5); 0 for none
	FailedText string `json:"failed_text,omitempty"`
	Class      string `json:"class"`  // whom the failure is held against: none, job, queue, ...
	Effect     string `json:"effect"` // what is to become of the job: finished, requeued, ...
	// Ran is set when the job itself was started; without it there is neither an exit
	// status nor usage.
	Ran        bool   `json:"ran"`
	ExitStatus int    `json:"exit_status"`      // of the job: 0-255, 128+n after signal n
	Signal     int    `json:"signal,omitempty"` // that ended the job, 0 for none
	CoreDumped bool   `json:"core_dumped,omitempty"`
	Reason     string `json:"reason,omitempty"` // one sentence for people; empty after a normal end
	// Notice is one sentence about what the host has refused to the job while it ran, or about what
	// shells do not understand in the script of a job that did not exit with 0.
	Notice string         `json:"notice,omitempty"`
	Limit  *LimitExceeded `json:"limit,omitempty"`
	Start  time.Time      `json:"start,omitzero"` // of the job itself
	End    time.Time      `json:"end,omitzero"`
	// Restart is how a job that migrates is to be run again, and CheckpointPID what its
	// start is to be given then: restarted and checkpoint_pid of Start.
	Restart       int   `json:"restart,omitempty"`
	CheckpointPID int   `json:"checkpoint_pid,omitempty"`
	Usage         Usage `json:"usage"`
}

// LimitExceeded says which limit ended a job. Values are seconds, bytes or a count, as
// the limit has it.
type LimitExceeded struct {
	Name     string  `json:"name"` // "h_rt"
	Value    float64 `json:"value"`
	Measured float64 `json:"measured"`
}

// Usage is what a job used, under the names of accounting(5).
type Usage struct {
	Wallclock float64 `json:"ru_wallclock"` // seconds
	Utime     float64 `json:"ru_utime"`     // seconds
	Stime     float64 `json:"ru_stime"`     // seconds
	MaxRSS    int64   `json:"ru_maxrss"`    // bytes
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
	IO        float64 `json:"io"`      // GiB moved
	IOW       float64 `json:"iow"`     // seconds
	MaxVmem   int64   `json:"maxvmem"` // bytes
}
