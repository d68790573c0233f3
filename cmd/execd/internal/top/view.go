package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/qstat"
)

// column is a column by which the jobs can be sorted; 0 is the order of qstat.
type column int

// The columns of the table, in its order. The last one cannot be sorted by.
const (
	unsorted column = iota
	jobColumn
	nameColumn
	userColumn
	stateColumn
	timeColumn
	slotsColumn
	gpusColumn
	cpuColumn
	memoryColumn
	placeColumn
)

// Columns are the values of --sort, in the order of the columns.
var Columns = []string{"job", "name", "user", "state", "time", "slots", "gpus", "cpu", "memory"}

// phases are the choices of the key t.
type phases int

const (
	allPhases phases = iota
	onlyRunning
	onlyPending
)

// view holds the last answer of the daemon, and the choices of the user. Its
// methods make lines of text from it.
type view struct {
	shown   *snapshot // nil before the first answer
	problem string    // why there is no newer answer; empty if there is one
	since   time.Time // of the problem

	sort     column
	reverse  bool
	filter   string
	only     phases
	user     string // whose jobs are shown if mine is set
	mine     bool
	interval time.Duration

	width, height int
	selected      int // number of a job; 0 for none
	offset        int // number of jobs above the first line of the table
	help          bool
	typing        bool    // the keys change the filter
	asking        *action // an action that the user has to confirm
	message       string  // the result of the last action
}

// asked returns the choice for the collector.
func (v *view) asked() choice {
	q := choice{user: "*"}
	if v.mine {
		q.user = v.user
	}
	if v.shown == nil {
		return q
	}
	rows := v.rows()
	for _, j := range rows[min(v.offset, len(rows)):min(v.offset+v.height, len(rows))] {
		q.shown = append(q.shown, j.ID)
	}
	return q
}

// rows returns the jobs that are shown, in their order.
func (v *view) rows() []*job {
	if v.shown == nil {
		return nil
	}
	var rows []*job
	for i := range v.shown.jobs {
		if j := &v.shown.jobs[i]; v.wants(j) {
			rows = append(rows, j)
		}
	}
	if v.sort != unsorted {
		slices.SortStableFunc(rows, func(a, b *job) int { return v.compare(a, b) })
	}
	if v.reverse {
		slices.Reverse(rows)
	}
	return rows
}

// wants reports whether a job is shown.
func (v *view) wants(j *job) bool {
	switch v.only {
	case onlyRunning:
		if !j.isRunning() {
			return false
		}
	case onlyPending:
		if !slices.ContainsFunc(j.Tasks, func(t qstat.Task) bool { return t.Phase == qstat.Pending }) {
			return false
		}
	}
	if v.filter == "" {
		return true
	}
	part := strings.ToLower(v.filter)
	has := func(text string) bool { return strings.Contains(strings.ToLower(printable.String(text)), part) }
	return has(strconv.Itoa(j.ID)) || has(j.Name) || has(j.Owner) || has(j.Where) ||
		slices.ContainsFunc(j.States, has) || slices.ContainsFunc(j.Why, has)
}

// compare orders two jobs by a column: names upwards, amounts downwards.
func (v *view) compare(a, b *job) int {
	switch v.sort {
	case jobColumn:
		return a.ID - b.ID
	case nameColumn:
		return strings.Compare(a.Name, b.Name)
	case userColumn:
		return strings.Compare(a.Owner, b.Owner)
	case stateColumn:
		return slices.Compare(a.States, b.States)
	case timeColumn:
		return cmp.Compare(since(a), since(b)) // the longest time first
	case slotsColumn:
		return b.Slots - a.Slots
	case gpusColumn:
		return b.gpus - a.gpus
	case cpuColumn:
		return cmp.Compare(b.part, a.part)
	case memoryColumn:
		return cmp.Compare(b.memory, a.memory)
	}
	return 0
}

// since returns the time since which a job is running or, if no task is running, pending.
func since(j *job) int64 {
	if j.Started > 0 {
		return j.Started
	}
	return j.Submitted
}

// move selects another job, n places further down.
func (v *view) move(n int) {
	rows := v.rows()
	if len(rows) == 0 {
		v.selected = 0
		return
	}
	at := slices.IndexFunc(rows, func(j *job) bool { return j.ID == v.selected })
	v.selected = rows[min(max(at+n, 0), len(rows)-1)].ID
}

// settle selects a job if none of those that are shown is selected, and scrolls to it.
func (v *view) settle(rows []*job, lines int) {
	at := slices.IndexFunc(rows, func(j *job) bool { return j.ID == v.selected })
	if at < 0 && len(rows) > 0 {
		// The selected job has finished: select the one in its place. A job that the user is asked about
		// stays selected.
		at = min(v.offset, len(rows)-1)
		if v.asking == nil {
			v.selected = rows[at].ID
		}
	}
	v.offset = max(min(v.offset, at, len(rows)-lines), at-lines+1, 0)
}

// counts are the numbers of tasks in a snapshot.
type counts struct{ running, pending, held, failed int }

func (s *snapshot) counts() (n counts) {
	for i := range s.jobs {
		for _, t := range s.jobs[i].Tasks {
			tasks := joblist.Count(t.IDs)
			switch {
			case t.Phase == qstat.Running:
				n.running += tasks
				continue
			case t.Phase == qstat.Finished:
				continue
			case strings.Contains(t.State, "E"):
				n.failed += tasks
			case strings.Contains(t.State, "h"):
				n.held += tasks
			}
			n.pending += tasks
		}
	}
	return n
}

// amount is how much of a resource is in use.
type amount struct{ used, total float64 }

func (s *snapshot) slots() (a amount) {
	for _, q := range s.queues {
		a.used += float64(q.Used)
		a.total += float64(q.Total)
	}
	return a
}

func (s *snapshot) memory() (a amount) {
	for _, h := range s.hosts {
		if h.MemoryTotal != nil && h.MemoryUsed != nil {
			a.used += *h.MemoryUsed
			a.total += *h.MemoryTotal
		}
	}
	return a
}

// gpus returns the GPUs of the hosts; ok is false if no host has any.
func (s *snapshot) gpus() (a amount, ok bool) {
	for _, h := range s.hosts {
		for _, r := range h.Resources {
			if r.Name != "gpu" {
				continue
			}
			if free, err := strconv.ParseFloat(r.Value, 64); err == nil {
				a.total += r.Total
				a.used += max(r.Total-free, 0)
				ok = true
			}
		}
	}
	return a, ok
}
