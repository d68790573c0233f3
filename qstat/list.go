package qstat

import (
	"time"
)

// AppendText appends the output of qstat. It is empty without queue instances and jobs.
func (c *Cell) AppendText(dst []byte, o Options) []byte {
	s := c.sections(o)
	l := lister{Options: o, page: page{dst}, zone: o.zone(), width: c.queueWidth(o)}
	if o.full() {
		l.queues(s)
		return l.text
	}
	add := func(r *row) {
		if !l.headed {
			l.header()
			l.headed = true
		}
		l.row(r)
	}
	s.eachRunning(add)
	s.eachIn(Pending, add)
	s.eachIn(Finished, add)
	return l.text
}

// lister prints rows.
type lister struct {
	Options
	page
	zone   *time.Location
	width  int // of names of queue instances
	headed bool
}

const subtaskTitle = "task-ID state cpu        mem     io      stat failed "

// Widths of the columns that options add, in the rule below the header; the columns themselves have
// other widths.
const (
	plainRule    = 83 // and the name of the queue instance
	extendedRule = 79
	urgencyRule  = 64
	priorityRule = 35
)

func (l *lister) header() {
	rule := plainRule + l.width
	l.put("job-ID  prior   ")
	if l.Priorities || l.Urgency {
		l.put("nurg    ")
	}
	if l.Priorities {
		l.put("npprior ")
	}
	if l.Priorities || l.Extended {
		l.put("ntckts  ")
	}
	if l.Urgency {
		l.put("urg      rrcontr  wtcontr  dlcontr  ")
		rule += urgencyRule
	}
	if l.Priorities {
		l.put(" ppri ")
		rule += priorityRule
	}
	l.put("name       user         ")
	if l.Extended {
		l.put("project          department ")
		rule += extendedRule
	}
	l.put("state ")
	if l.dates() {
		l.put("submit/start at     ")
	}
	if l.Urgency {
		l.put(" deadline           ")
	}
	if l.Extended {
		l.put("cpu        mem     io      tckts ovrts otckt ftckt stckt share ")
	}
	l.left("queue", l.width)
	l.space()
	if l.eachSlot() {
		l.put("master ")
		rule++
	} else {
		l.put("slots ")
	}
	l.put("ja-task-ID ")
	if l.Subtasks {
		l.put(subtaskTitle)
		rule += len(subtaskTitle)
	}
	l.end()
	l.rule('-', rule)
	l.end()
}

func (l *lister) row(r *row) {
	if r.first {
		l.head(r)
	} else {
		l.blanks(l.headWidth())
	}
	if l.Extended {
		l.usage(r)
		l.tickets(r)
	}
	if !l.full() {
		l.clipped(r.queue, l.width)
		l.space()
	}
	if l.eachSlot() {
		l.left(r.role, len(roleMaster))
	} else {
		l.int(r.slots, 5)
	}
	l.space()
	if len(r.ids) > 0 {
		l.ranges(r.ids, true)
	} else {
		l.blanks(7)
	}
	if l.Subtasks {
		l.subtask(r)
	}
	l.end()
	if l.Requests {
		l.requests(r)
	}
}

// head adds the columns that only the first line of a task has.
func (l *lister) head(r *row) {
	l.int(r.job.ID, 7)
	l.space()
	l.share(r.task.Priority)
	if l.Priorities || l.Urgency {
		l.share(r.job.NormalizedUrgency)
	}
	if l.Priorities {
		l.share(r.job.NormalizedPriority)
	}
	if l.Priorities || l.Extended {
		l.share(r.task.NormalizedTickets)
	}
	if l.Urgency {
		u := &r.job.Urgency
		for _, v := range [...]float64{u.Total, u.Resource, u.Waiting, u.Deadline} {
			l.text = appendUrgency(l.text, v, 8)
			l.space()
		}
	}
	if l.Priorities {
		l.int(r.job.POSIXPriority, 5)
		l.space()
	}
	l.column(r.job.Name, 10)
	l.column(r.job.Owner, 12)
	if l.Extended {
		l.column(orNA(r.job.Project), 16)
		l.column(orNA(r.job.Department), 10)
	}
	l.column(r.task.State, 5)
	if l.dates() {
		at := r.job.Submitted
		if r.task.Phase == Running {
			at = r.task.Started
		}
		l.time(at, l.zone)
		l.space()
	}
	if l.Urgency {
		if r.job.Deadline == 0 {
			l.blanks(timeWidth)
		} else {
			l.time(r.job.Deadline, l.zone)
		}
		l.space()
	}
}

// column adds text that is cut at the width of its column, and a blank.
func (p *page) column(s string, width int) {
	p.clipped(s, width)
	p.space()
}

// share adds a number from 0 to 1, and a blank.
func (p *page) share(v float64) {
	p.fixed(v, 7, 5)
	p.space()
}

// headWidth returns the number of blanks in the further lines of a task: the width of appendHead's
// columns without overflow, except for -pri, which has more.
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

func (p *page) usage(r *row) {
	u := r.usage
	switch {
	case r.task.Phase != Running:
		p.blanks(11 + 8 + 8)
		return
	case u == nil:
		p.put("NA         NA      NA      ")
		return
	}
	seconds := int64(u.CPU)
	p.number(seconds / (24 * 60 * 60))
	for _, part := range []int64{seconds / 3600 % 24, seconds / 60 % 60, seconds % 60} {
		p.put(":")
		p.twoDigits(part)
	}
	p.space()
	p.amounts(u)
}

// amounts adds memory and io, each with a blank.
func (p *page) amounts(u *Usage) {
	p.fixed(u.Memory, 0, 5)
	p.space()
	p.fixed(u.IO, 0, 5)
	p.space()
}

// subtask adds the columns of -t: of a subtask, or of the task with subtasks. Finished subtasks are
// not listed, so no row has an exit status.
func (p *page) subtask(r *row) {
	var id, state string
	u := r.usage
	switch {
	case r.subtask != nil:
		id, state = r.subtask.ID, r.subtask.State
	case r.role == roleMaster && len(r.task.Subtasks) > 0:
		state = subtaskState(r.task.State)
	default:
		return
	}
	if u == nil {
		u = &Usage{}
	}
	const idWidth = 12
	p.put("   ")
	p.left(id, idWidth)
	p.space()
	p.left(state, 5)
	p.space()
	p.cpu(u.CPU)
	p.space()
	p.amounts(u)
}

func (p *page) tickets(r *row) {
	if r.task.Phase == Finished {
		p.put("   NA    NA    NA    NA    NA    NA ")
		return
	}
	t := &r.tickets
	for _, n := range [...]int{int(t.Total), r.job.OverrideTickets, int(t.Override), int(t.Functional), int(t.Share)} {
		p.int(n, 5)
		p.space()
	}
	p.fixed(r.task.Share, 0, 2)
	p.put("  ")
}

// requestTitle begins a line of qstat -r.
func (p *page) requestTitle(title string) {
	const width = 18
	p.put("       ")
	p.left(title, width-1)
	p.space()
}

// requestLine writes a line of qstat -r.
func (p *page) requestLine(title, value string) {
	p.requestTitle(title)
	p.line(value)
}

// requests adds the lines of -r to a row (qstat(1), Expanded Format).
func (l *lister) requests(r *row) {
	j := r.job
	l.requestLine("Full jobname:", j.Name)
	if r.queue != "" {
		l.requestLine("Master Queue:", r.queue)
	}
	if j.PE != nil {
		l.requestTitle("Requested PE:")
		l.value(j.PE.Name)
		l.space()
		l.ranges(j.PE.Slots, false)
		l.end()
	}
	if r.task.GrantedPE != "" {
		l.requestTitle("Granted PE:")
		l.value(r.task.GrantedPE)
		l.space()
		l.number(int64(r.task.slots()))
		l.end()
	}
	if j.Checkpoint != "" {
		l.requestLine("Checkpoint Env.:", j.Checkpoint)
	}
	l.requestTitle("Hard Resources:")
	l.requested(j.Hard, true)
	l.requestTitle("Soft Resources:")
	l.requested(j.Soft, false)
	l.names("Hard requested queues: ", j.HardQueues)
	l.names("Soft requested queues: ", j.SoftQueues)
	l.names("Master task hard requested queues: ", j.MasterQueues)
	l.names("Predecessor Jobs (request): ", j.PredecessorsAsked)
	l.ids("Predecessor Jobs: ", j.Predecessors)
	l.names("Predecessor Array Jobs (request): ", j.ArrayPredecessorsAsked)
	l.ids("Predecessor Array Jobs: ", j.ArrayPredecessors)
	if !l.NoBinding {
		l.requestLine("Binding:", orNone(j.Binding))
	}
}

// names writes a line of qstat -r with a list, or nothing if the list is empty.
func (p *page) names(title label, list []string) {
	if len(list) > 0 {
		p.put("       ")
		p.put(title)
		p.list(list, ", ")
		p.end()
	}
}

// ids writes a line of qstat -r with job numbers, or nothing if there are none.
func (p *page) ids(title label, list []int) {
	if len(list) > 0 {
		p.put("       ")
		p.put(title)
		p.numbers(list, ", ")
		p.end()
	}
}

// requested adds requests, each on a line.
func (p *page) requested(requests []Request, urgency bool) {
	for i, r := range requests {
		if i > 0 {
			p.blanks(25)
		}
		p.request(r)
		if urgency {
			p.put(" (")
			p.fixed(r.Urgency, 0, 6)
			p.put(")")
		}
		p.end()
	}
	if len(requests) == 0 {
		p.end()
	}
}
