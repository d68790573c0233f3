package qstat

import (
	"time"

	"github.com/execd-project/execd/internal/printable"
)

// Options are the options of qstat (qstat(1)) except for those that select jobs or queue instances:
// the caller makes the selection.
type Options struct {
	Full      bool // -f: the queue instances, each with its jobs
	Resources bool // -F: -f, with the Resources of the queue instances
	// Explain shows why a queue instance is in a state: a for load alarms, A for suspend alarms, c
	// for an ambiguous configuration, E for errors; any of these letters. It also shows the output
	// of -f (-explain).
	Explain    string
	SkipEmpty  bool // -ne: with -f, hide queue instances without used slots
	Extended   bool // -ext: usage and tickets
	Urgency    bool // -urg
	Priorities bool // -pri
	// Subtasks is -t: the effect of EachSlot, and columns for the sub-tasks of tightly integrated
	// jobs.
	Subtasks  bool
	EachTask  bool // -g d: a line for each task of an array that waits
	EachSlot  bool // -g t: a line for each slot of a parallel job
	Requests  bool // -r
	NoBinding bool // -ncb: with -r, no core binding
	// LoadName is the load value that Load of queue instances is, SGE_LOAD_AVG; "" is
	// load_avg. It is the title of the column.
	LoadName string
	// QueueWidth is the width of names of queue instances, SGE_LONG_QNAMES: 0 is 30,
	// less than 10 is 10, less than 0 is that of the longest name.
	QueueWidth int
	// Zone is the time zone of dates; nil is UTC.
	Zone *time.Location
}

func (o Options) zone() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}

// full says that the queue instances are shown.
func (o Options) full() bool { return o.Full || o.Resources || o.Explain != "" }

// eachSlot says that there is a line for each slot. -t has it, too.
func (o Options) eachSlot() bool { return o.EachSlot || o.Subtasks }

// byQueue says that running jobs are listed queue instance by queue instance.
func (o Options) byQueue() bool { return o.full() || o.Urgency || o.EachTask || o.EachSlot }

// dates reports whether there is a column for the time of submission or start: -ext removes it
// unless another option restores it.
func (o Options) dates() bool { return !o.Extended || o.Urgency || o.Priorities || o.Subtasks }

const (
	defaultQueueWidth = 30
	minQueueWidth     = 10
)

// queueWidth returns the width of names; longest is called if it depends on them.
func (o Options) queueWidth(longest func() int) int {
	switch {
	case o.QueueWidth == 0:
		return defaultQueueWidth
	case o.QueueWidth < 0:
		return longest()
	}
	return max(o.QueueWidth, minQueueWidth)
}

func (c *Cell) queueWidth(o Options) int {
	return o.queueWidth(func() int {
		n := 0
		for i := range c.Queues {
			n = max(n, len(printable.String(c.Queues[i].Name())))
		}
		return max(n, minQueueWidth)
	})
}
