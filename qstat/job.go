package qstat

// Cell holds the data for qstat and qhost. Its JSON form is Document.
type Cell struct {
	Jobs   []Job
	Queues []QueueInstance
	Hosts  []Host
}

// Job is a job with the tasks to show. Times are Unix seconds.
type Job struct {
	ID         int    `json:"id"`
	Name       string `json:"name"`
	Owner      string `json:"owner"`
	Project    string `json:"project,omitempty"` // "" for none
	Department string `json:"department,omitempty"`
	Submitted  int64  `json:"submitted"`
	Deadline   int64  `json:"deadline,omitempty"` // -dl; 0 for none

	// POSIXPriority is the priority of -p, -1023 to 1024.
	POSIXPriority int `json:"posixPriority"`
	// Normalized are urgency and POSIX priority between 0 and 1 (sge_priority(5)).
	NormalizedUrgency  float64 `json:"normalizedUrgency"`
	NormalizedPriority float64 `json:"normalizedPriority"`
	Urgency            Urgency `json:"urgency"`
	OverrideTickets    int     `json:"overrideTickets,omitempty"` // qalter -ot
	JobShare           int     `json:"jobShare,omitempty"`        // -js

	Checkpoint string    `json:"checkpoint,omitempty"` // name of the environment, -ckpt
	PE         *PE       `json:"pe,omitempty"`
	Hard       []Request `json:"hard,omitempty"` // -l, in the order that was typed
	Soft       []Request `json:"soft,omitempty"`
	// HardQueues, SoftQueues and MasterQueues are the arguments of -q and -masterq; each element is
	// one queue reference.
	HardQueues   []string `json:"hardQueues,omitempty"`
	SoftQueues   []string `json:"softQueues,omitempty"`
	MasterQueues []string `json:"masterQueues,omitempty"`
	// PredecessorsAsked is the argument of -hold_jid, and Predecessors are the unfinished jobs
	// among them; the fields for -hold_jid_ad are similar.
	PredecessorsAsked      []string `json:"predecessorsAsked,omitempty"`
	Predecessors           []int    `json:"predecessors,omitempty"`
	ArrayPredecessorsAsked []string `json:"arrayPredecessorsAsked,omitempty"`
	ArrayPredecessors      []int    `json:"arrayPredecessors,omitempty"`
	// Binding is the requested binding, e.g. "set linear:2"; "" for none.
	Binding string `json:"binding,omitempty"`

	Tasks []Task `json:"tasks,omitempty"`
}

// Urgency is a job's urgency and its parts (sge_priority(5)).
type Urgency struct {
	Total    float64 `json:"total"`
	Resource float64 `json:"resource"` // rrcontr
	Waiting  float64 `json:"waiting"`  // wtcontr
	Deadline float64 `json:"deadline"` // dlcontr
}

// PE is the request for a parallel environment, -pe.
type PE struct {
	Name  string  `json:"name"` // as typed, with wildcards
	Slots []Range `json:"slots,omitempty"`
}

// Request is a resource request (-l).
type Request struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Urgency is the addend of the request to the job's urgency; soft requests have
	// none.
	Urgency float64 `json:"urgency,omitempty"`
	// Type is the number of the type of the attribute: INT 1, STRING 2, TIME 3, MEMORY 4, BOOL 5,
	// CSTRING 6, HOST 7, DOUBLE 8, RESTRING 9. Number is the value of a numeric type. Consumable is
	// 1 for a consumable per slot, 2 for one per job. Only AppendDetailsXML uses them.
	Type       int     `json:"-"`
	Number     float64 `json:"-"`
	Consumable int     `json:"-"`
}

// Range is the numbers First, First+Step, ... up to Last.
type Range struct {
	First int `json:"first"`
	Last  int `json:"last"`
	Step  int `json:"step"`
}

// Phase is the part of its life that a task is in: in which list it is shown.
type Phase uint8

// The phases.
const (
	Pending  Phase = iota // pending, also if it is to be restarted
	Running               // it has been given queue instances, also when it is suspended
	Finished              // it has ended (qstat -s z)
)

// Task is a row of qstat: either a task with queue instances, or several pending or finished tasks
// with the same state, as ranges of task numbers. The pending tasks of a job are in the order of
// qstat: first tasks that were started before, then tasks without hold, with user hold, operator
// hold, system hold and array dependency.
type Task struct {
	// IDs are the numbers of the tasks; none for a job that is not an array.
	IDs   []Range `json:"ids,omitempty"`
	Phase Phase   `json:"phase"`
	// State are the letters of the state (qstat(1)), e.g. "hqw".
	State   string `json:"state"`
	Started int64  `json:"started,omitempty"` // seconds since the epoch

	Priority          float64 `json:"priority"`
	NormalizedTickets float64 `json:"normalizedTickets"`
	Tickets           Tickets `json:"tickets"`
	Share             float64 `json:"share"` // of the whole system, 0 to 1
	// Usage is nil until the first report. It does not include the Subtasks.
	Usage    *Usage    `json:"usage,omitempty"`
	Subtasks []Subtask `json:"subtasks,omitempty"` // in the order of qstat
	// PastUsage is the usage of finished subtasks.
	PastUsage *Usage `json:"pastUsage,omitempty"`

	// Slots is the number of slots that a pending task requests, or that a finished task had. The
	// slots of a running task are the sum of its Grants.
	Slots  int     `json:"slots,omitempty"`
	Grants []Grant `json:"grants,omitempty"` // the first one has the master task
	// GrantedPE is the parallel environment that the task runs in.
	GrantedPE string `json:"grantedPE,omitempty"`
	// ExtraMaster says that the master task does not occupy one of the slots: job_is_first_task of
	// sge_pe(5) is FALSE.
	ExtraMaster bool `json:"extraMaster,omitempty"`
}

// Tickets are a task's tickets by policy (sge_priority(5)). They are shown without
// their fractions.
type Tickets struct {
	Total      float64 `json:"total"`
	Override   float64 `json:"override"`
	Functional float64 `json:"functional"`
	Share      float64 `json:"share"`
}

// Usage is the usage of a running task.
type Usage struct {
	CPU    float64 `json:"cpu"`    // seconds
	Memory float64 `json:"memory"` // gigabyte seconds
	IO     float64 `json:"io"`     // gigabytes
}

// Grant is the slots that a task has been given in one queue instance.
type Grant struct {
	Queue string `json:"queue"` // name of the instance: queue@host
	Slots int    `json:"slots"`
	// Tickets are the part of the task's tickets for these slots, if the parallel environment
	// controls its slaves (control_slaves of sge_pe(5)); otherwise nil.
	Tickets *Tickets `json:"tickets,omitempty"`
	// Elements are the elements of resource maps that the task has with these slots.
	Elements []MapElements `json:"things,omitempty"`
}

// MapElements holds the elements that a task has been given from a resource map (complex(5), RSMAP), such as
// GPUs.
type MapElements struct {
	Name string   `json:"name"` // of the complex attribute
	Host string   `json:"host"` // that has the map, or "global"
	IDs  []string `json:"ids"`
}

// slots returns the number that qstat shows when it shows one line per task.
func (t *Task) slots() int {
	if t.Phase != Running {
		return t.Slots
	}
	sum := 0
	for i := range t.Grants {
		sum += t.Grants[i].Slots
	}
	return sum
}
