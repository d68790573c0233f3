package qstat

// QueueInstance is a queue on a host.
type QueueInstance struct {
	Queue          string `json:"queue"`
	Host           string `json:"host"`
	SequenceNumber int    `json:"sequenceNumber"` // seq_no of queue_conf(5)
	// Type consists of letters: B(atch), I(nteractive), P(arallel), C(heckpointing); an empty Type
	// is shown as N.
	Type string `json:"type"`
	// Reserved is the number of slots of running advance reservations. ReservedMax is the maximum
	// of this number from now on, which qhost shows instead.
	Reserved    int `json:"reserved"`
	ReservedMax int `json:"reservedMax"`
	Used        int `json:"used"`
	Total       int `json:"total"`
	// Load is the host's load average, or the load value that is shown instead of it;
	// nil if there is none.
	Load *float64 `json:"load,omitempty"`
	Arch string   `json:"arch,omitempty"`
	// State are the letters of the state, in the order of the states in qstat:
	// a A C D d u E S s c o.
	State     string     `json:"state,omitempty"`
	Resources []Resource `json:"resources,omitempty"` // qstat -F
	// LoadAlarms and SuspendAlarms are the thresholds that are violated.
	LoadAlarms    []Alarm `json:"loadAlarms,omitempty"`
	SuspendAlarms []Alarm `json:"suspendAlarms,omitempty"`
	// Ambiguities and Errors are messages about the states c and E.
	Ambiguities []string `json:"ambiguities,omitempty"`
	Errors      []string `json:"errors,omitempty"`
}

// Name returns queue@host.
func (q *QueueInstance) Name() string { return q.Queue + "@" + q.Host }

// Resource is the value of a complex attribute at a queue instance or a host.
type Resource struct {
	// Dominance consists of two letters: g(lobal), h(ost) or q(ueue), and the source of the value:
	// l(oad), L(oad, corrected), c(onsumable) or f(ixed).
	Dominance string `json:"dominance"`
	Name      string `json:"name"`
	// Value is formatted; qstat and qhost differ in how.
	Value string `json:"value"`
	// Total is the configured amount of a consumable, of which Value is what remains: a number, bytes
	// or seconds. It is 0 for other values, and for an unlimited amount.
	Total float64 `json:"total,omitempty"`
}

// Alarm is a threshold that is violated.
type Alarm struct {
	Resource
	Threshold string `json:"threshold"`
	// Message is shown instead of the values if there are none to compare, e.g. error: no value for
	// "load" because execd is in unknown state.
	Message string `json:"message,omitempty"`
}

// Host is an execution host, or the host "global". Values that have not been reported are nil or
// empty.
type Host struct {
	Name       string   `json:"name"`
	Arch       string   `json:"arch,omitempty"`
	Processors *int     `json:"processors,omitempty"`
	Sockets    *int     `json:"sockets,omitempty"`
	Cores      *int     `json:"cores,omitempty"`
	Threads    *int     `json:"threads,omitempty"`
	Load       *float64 `json:"load,omitempty"` // load_avg
	// Sizes are in bytes.
	MemoryTotal *float64   `json:"memoryTotal,omitempty"`
	MemoryUsed  *float64   `json:"memoryUsed,omitempty"`
	SwapTotal   *float64   `json:"swapTotal,omitempty"`
	SwapUsed    *float64   `json:"swapUsed,omitempty"`
	Resources   []Resource `json:"resources,omitempty"` // qhost -F
}
