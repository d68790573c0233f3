package qstat

import "strings"

// Subtask is a process that a parallel job has started under Grid Engine's control
// (qrsh -inherit; control_slaves of sge_pe(5)), and that has not ended.
type Subtask struct {
	ID    string `json:"id"`    // a number and the host: 1.host
	Queue string `json:"queue"` // name of the instance that it belongs to: queue@host
	// State are the letters of the state, as qstat -t has them, e.g. "r".
	State     string `json:"state,omitempty"`
	Submitted int64  `json:"submitted,omitempty"` // of the job, seconds since the epoch
	Started   int64  `json:"started,omitempty"`
	// Usage is nil until the first report.
	Usage  *Usage  `json:"usage,omitempty"`
	IOWait float64 `json:"ioWait,omitempty"` // seconds
	// VirtualMemory and MaxVirtualMemory are in bytes.
	VirtualMemory    float64 `json:"virtualMemory,omitempty"`
	MaxVirtualMemory float64 `json:"maxVirtualMemory,omitempty"`
}

// Measure is a kind of usage and its amount, as in accounting(5).
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// amount returns the value of the measure with this name, 0 if there is none.
func amount(list []Measure, name string) float64 {
	for _, m := range list {
		if m.Name == name {
			return m.Value
		}
	}
	return 0
}

// add returns the sum; nil counts as no usage.
func (u *Usage) add(o *Usage) *Usage {
	if u == nil || o == nil {
		if u == nil {
			return o
		}
		return u
	}
	return &Usage{CPU: u.CPU + o.CPU, Memory: u.Memory + o.Memory, IO: u.IO + o.IO}
}

// subtaskState returns the state of a task in the columns of its subtasks: there it still runs
// when it is suspended.
func subtaskState(state string) string {
	const before = "dESThRq" // letters before the r, in the order of qstat
	if strings.ContainsAny(state, "rt") {
		return state
	}
	i := len(state) - len(strings.TrimLeft(state, before))
	return state[:i] + "r" + state[i:]
}

// in returns the subtasks that belong to a queue instance.
func (t *Task) in(queue string) []Subtask {
	var list []Subtask
	for i := range t.Subtasks {
		if t.Subtasks[i].Queue == queue {
			list = append(list, t.Subtasks[i])
		}
	}
	return list
}

// usageAt returns the usage of a task at one of its grants, or at all of them if grant is -1.
func (t *Task) usageAt(grant int32) *Usage {
	var sum *Usage
	if grant <= 0 {
		sum = t.Usage.add(t.PastUsage)
	}
	for i := range t.Subtasks {
		if grant < 0 || t.Subtasks[i].Queue == t.Grants[grant].Queue {
			sum = sum.add(t.Subtasks[i].Usage)
		}
	}
	return sum
}
