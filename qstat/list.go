package qstat

import (
	"strconv"
	"time"
)

// AppendText appends what qstat prints. Without a queue instance or a job to show that
// is nothing.
func (c *Cell) AppendText(dst []byte, o Options) []byte {
	s := c.sections(o)
	l := lister{Options: o, zone: o.zone(), width: c.queueWidth(o)}
	if o.full() {
		return l.appendQueues(dst, s)
	}
	add := func(r *row) {
		if !l.headed {
			dst, l.headed = l.appendHeader(dst), true
		}
		dst = l.appendRow(dst, r)
	}
	s.eachRunning(add)
	s.eachIn(Pending, add)
	s.eachIn(Finished, add)
	return dst
}

// lister prints rows.
type lister struct {
	Options
	zone   *time.Location
	width  int // of names of queue instances
	headed bool
}

const subtaskTitle = "task-ID state cpu        mem     io      stat failed "

// Widths of the columns that options add, as the rule below the header has them: not
// those of the columns.
const (
	plainRule    = 83 // and the name of the queue instance
	extendedRule = 79
	urgencyRule  = 64
	priorityRule = 35
)

func (l *lister) appendHeader(dst []byte) []byte {
	rule := plainRule + l.width
	dst = append(dst, "job-ID  prior   "...)
	if l.Priorities || l.Urgency {
		dst = append(dst, "nurg    "...)
	}
	if l.Priorities {
		dst = append(dst, "npprior "...)
	}
	if l.Priorities || l.Extended {
		dst = append(dst, "ntckts  "...)
	}
	if l.Urgency {
		dst = append(dst, "urg      rrcontr  wtcontr  dlcontr  "...)
		rule += urgencyRule
	}
	if l.Priorities {
		dst = append(dst, " ppri "...)
		rule += priorityRule
	}
	dst = append(dst, "name       user         "...)
	if l.Extended {
		dst = append(dst, "project          department "...)
		rule += extendedRule
	}
	dst = append(dst, "state "...)
	if l.dates() {
		dst = append(dst, "submit/start at     "...)
	}
	if l.Urgency {
		dst = append(dst, " deadline           "...)
	}
	if l.Extended {
		dst = append(dst, "cpu        mem     io      tckts ovrts otckt ftckt stckt share "...)
	}
	dst = append(appendLeft(dst, "queue", l.width), ' ')
	if l.eachSlot() {
		dst = append(dst, "master "...)
		rule++
	} else {
		dst = append(dst, "slots "...)
	}
	dst = append(dst, "ja-task-ID "...)
	if l.Subtasks {
		dst = append(dst, subtaskTitle...)
		rule += len(subtaskTitle)
	}
	dst = append(dst, '\n')
	return append(appendRepeated(dst, '-', rule), '\n')
}

func (l *lister) appendRow(dst []byte, r *row) []byte {
	if r.first {
		dst = l.appendHead(dst, r)
	} else {
		dst = appendBlanks(dst, l.headWidth())
	}
	if l.Extended {
		dst = appendUsage(dst, r)
		dst = appendTickets(dst, r)
	}
	if !l.full() {
		dst = append(appendClipped(dst, r.queue, l.width), ' ')
	}
	if l.eachSlot() {
		dst = append(appendLeft(dst, r.role, len(roleMaster)), ' ')
	} else {
		dst = append(appendInt(dst, r.slots, 5), ' ')
	}
	if len(r.ids) > 0 {
		dst = appendRanges(dst, r.ids, true)
	} else {
		dst = appendBlanks(dst, 7)
	}
	if l.Subtasks {
		dst = appendSubtask(dst, r)
	}
	dst = append(dst, '\n')
	if l.Requests {
		dst = appendRequests(dst, r, l.NoBinding)
	}
	return dst
}

// appendHead appends what the lines of one task do not repeat.
func (l *lister) appendHead(dst []byte, r *row) []byte {
	dst = append(appendInt(dst, r.job.ID, 7), ' ')
	dst = append(appendFixed(dst, r.task.Priority, 7, 5), ' ')
	if l.Priorities || l.Urgency {
		dst = append(appendFixed(dst, r.job.NormalizedUrgency, 7, 5), ' ')
	}
	if l.Priorities {
		dst = append(appendFixed(dst, r.job.NormalizedPriority, 7, 5), ' ')
	}
	if l.Priorities || l.Extended {
		dst = append(appendFixed(dst, r.task.NormalizedTickets, 7, 5), ' ')
	}
	if l.Urgency {
		u := &r.job.Urgency
		dst = append(appendUrgency(dst, u.Total, 8), ' ')
		dst = append(appendUrgency(dst, u.Resource, 8), ' ')
		dst = append(appendUrgency(dst, u.Waiting, 8), ' ')
		dst = append(appendUrgency(dst, u.Deadline, 8), ' ')
	}
	if l.Priorities {
		dst = append(appendInt(dst, r.job.POSIXPriority, 5), ' ')
	}
	dst = append(appendClipped(dst, r.job.Name, 10), ' ')
	dst = append(appendClipped(dst, r.job.Owner, 12), ' ')
	if l.Extended {
		dst = append(appendClipped(dst, orNA(r.job.Project), 16), ' ')
		dst = append(appendClipped(dst, orNA(r.job.Department), 10), ' ')
	}
	dst = append(appendClipped(dst, r.task.State, 5), ' ')
	if l.dates() {
		at := r.job.Submitted
		if r.task.Phase == Running {
			at = r.task.Started
		}
		dst = append(appendTime(dst, at, l.zone), ' ')
	}
	if l.Urgency {
		if r.job.Deadline == 0 {
			dst = appendBlanks(dst, timeWidth)
		} else {
			dst = appendTime(dst, r.job.Deadline, l.zone)
		}
		dst = append(dst, ' ')
	}
	return dst
}

// headWidth is the number of blanks that stand for what appendHead appends: its width
// where nothing overflows, but for -pri, which leaves too much room.
func (l *lister) headWidth() int {
	n := 8 + 8 + 11 + 13 + 6
	for _, c := range []struct {
		shown bool
		width int
	}{
		{l.Priorities || l.Urgency, 8},
		{l.Priorities, 8},
		{l.Priorities || l.Extended, 8},
		{l.Urgency, 4*9 + timeWidth + 1},
		{l.Priorities, 6 + 12},
		{l.Extended, 17 + 11},
		{l.dates(), timeWidth + 1},
	} {
		if c.shown {
			n += c.width
		}
	}
	return n
}

func orNA(s string) string {
	if s == "" {
		return "NA"
	}
	return s
}

// appendUrgency appends a whole number if that has a chance to fit.
func appendUrgency(dst []byte, v float64, width int) []byte {
	const maxWhole = 99999999
	if v > maxWhole {
		return appendShort(dst, v, width, 3)
	}
	return appendFixed(dst, v, width, 0)
}

func appendUsage(dst []byte, r *row) []byte {
	u := r.usage
	switch {
	case r.task.Phase != Running:
		return appendBlanks(dst, 11+8+8)
	case u == nil:
		return append(dst, "NA         NA      NA      "...)
	}
	seconds := int64(u.CPU)
	dst = strconv.AppendInt(dst, seconds/(24*60*60), 10)
	for _, part := range []int64{seconds / 3600 % 24, seconds / 60 % 60, seconds % 60} {
		dst = append(dst, ':', byte('0'+part/10), byte('0'+part%10))
	}
	dst = append(appendFixed(append(dst, ' '), u.Memory, 0, 5), ' ')
	return append(appendFixed(dst, u.IO, 0, 5), ' ')
}

// appendSubtask appends the columns of -t: those of a subtask, or of the task that has
// them. What has ended is not there any more, and so nothing has an exit status.
func appendSubtask(dst []byte, r *row) []byte {
	var id, state string
	u := r.usage
	switch {
	case r.subtask != nil:
		id, state = r.subtask.ID, r.subtask.State
	case r.role == roleMaster && len(r.task.Subtasks) > 0:
		state = subtaskState(r.task.State)
	default:
		return dst
	}
	if u == nil {
		u = &Usage{}
	}
	const idWidth = 12
	dst = append(appendLeft(append(dst, "   "...), id, idWidth), ' ')
	dst = append(appendLeft(dst, state, 5), ' ')
	dst = append(appendCPU(dst, u.CPU), ' ')
	dst = append(appendFixed(dst, u.Memory, 0, 5), ' ')
	return append(appendFixed(dst, u.IO, 0, 5), ' ')
}

func appendTickets(dst []byte, r *row) []byte {
	if r.task.Phase == Finished {
		return append(dst, "   NA    NA    NA    NA    NA    NA "...)
	}
	dst = append(appendInt(dst, int(r.tickets.Total), 5), ' ')
	dst = append(appendInt(dst, r.job.OverrideTickets, 5), ' ')
	dst = append(appendInt(dst, int(r.tickets.Override), 5), ' ')
	dst = append(appendInt(dst, int(r.tickets.Functional), 5), ' ')
	dst = append(appendInt(dst, int(r.tickets.Share), 5), ' ')
	return append(appendFixed(dst, r.task.Share, 0, 2), "  "...)
}

// requestTitle begins a line of qstat -r.
func requestTitle(dst []byte, title string) []byte {
	const width = 18
	return append(appendLeft(append(dst, "       "...), title, width-1), ' ')
}

// appendRequests appends what -r adds to a row (qstat(1), Expanded Format).
func appendRequests(dst []byte, r *row, noBinding bool) []byte {
	j := r.job
	dst = append(append(requestTitle(dst, "Full jobname:"), j.Name...), '\n')
	if r.queue != "" {
		dst = append(append(requestTitle(dst, "Master Queue:"), r.queue...), '\n')
	}
	if j.PE != nil {
		dst = append(append(requestTitle(dst, "Requested PE:"), j.PE.Name...), ' ')
		dst = append(appendRanges(dst, j.PE.Slots, false), '\n')
	}
	if r.task.GrantedPE != "" {
		dst = append(append(requestTitle(dst, "Granted PE:"), r.task.GrantedPE...), ' ')
		dst = append(strconv.AppendInt(dst, int64(r.task.slots()), 10), '\n')
	}
	if j.Checkpoint != "" {
		dst = append(append(requestTitle(dst, "Checkpoint Env.:"), j.Checkpoint...), '\n')
	}
	dst = appendResources(requestTitle(dst, "Hard Resources:"), j.Hard, true)
	dst = appendResources(requestTitle(dst, "Soft Resources:"), j.Soft, false)
	for _, list := range []struct {
		title string
		items []string
	}{
		{"Hard requested queues: ", j.HardQueues},
		{"Soft requested queues: ", j.SoftQueues},
		{"Master task hard requested queues: ", j.MasterQueues},
		{"Predecessor Jobs (request): ", j.PredecessorsAsked},
	} {
		if len(list.items) > 0 {
			dst = append(append(dst, "       "...), list.title...)
			dst = append(appendList(dst, list.items, ", "), '\n')
		}
	}
	if len(j.Predecessors) > 0 {
		dst = append(dst, "       Predecessor Jobs: "...)
		dst = append(appendNumbers(dst, j.Predecessors, ", "), '\n')
	}
	if len(j.ArrayPredecessorsAsked) > 0 {
		dst = append(dst, "       Predecessor Array Jobs (request): "...)
		dst = append(appendList(dst, j.ArrayPredecessorsAsked, ", "), '\n')
	}
	if len(j.ArrayPredecessors) > 0 {
		dst = append(dst, "       Predecessor Array Jobs: "...)
		dst = append(appendNumbers(dst, j.ArrayPredecessors, ", "), '\n')
	}
	if noBinding {
		return dst
	}
	return append(append(requestTitle(dst, "Binding:"), orNone(j.Binding)...), '\n')
}

// appendResources appends requests, each on a line.
func appendResources(dst []byte, requests []Request, urgency bool) []byte {
	for i, r := range requests {
		if i > 0 {
			dst = appendBlanks(dst, 25)
		}
		dst = append(append(append(dst, r.Name...), '='), r.Value...)
		if urgency {
			dst = append(appendFixed(append(dst, " ("...), r.Urgency, 0, 6), ')')
		}
		dst = append(dst, '\n')
	}
	if len(requests) == 0 {
		dst = append(dst, '\n')
	}
	return dst
}
