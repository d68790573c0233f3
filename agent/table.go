package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/ptf"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// entry is a job of the table.
type entry struct {
	id     job.ID
	record Record
	ready  chan struct{} // closed when the start has been accepted or refused
	failed error         // why it was refused
	found  bool          // a previous agent left it
	wake   chan struct{} // wakes the job's goroutine for orders and new files
	// do serialises operations of agent/launch on the job.
	do sync.Mutex
	// ordering serialises orders to the job, and changes of its client, together with their files.
	// It is acquired before Agent.mu, and never by a holder of do.
	ordering sync.Mutex
	unwatch  func() // ends the watch on the job's directory; of the job's goroutine
	untold   *ended // an end that could not be written or reported; used by the job's goroutine
	told     bool   // the end was reported, but not yet marked as reported; used by the job's goroutine
	watch    int32  // of onlineWatch, in its jobs
	seat     seat   // for the terminal of an interactive job

	// Agent.mu protects the following fields.
	run       *launch.Job
	state     State
	number    uint64 // of the last report that was not only usage
	used      uint64 // of that of usage; 0 for none
	suspended []Order
	endBy     Order // the order that ends the job; empty for none
	orders    []Order
	turns     map[string]Sequence // the last ones, by the aspect of the order
	tickets   Sequence            // of record.Tickets
	began     time.Time
	usage     jobdir.Online
	usageSeen time.Time      // when usage was read
	usageFile jobdir.Version // that was read while it was not watched
	watched   bool           // onlineWatch has the job
	unread    bool           // watched, and the file was written since it was read
	priority  ptf.Priority   // as prioritise has given it
	outcome   *job.Outcome
	acked     bool // the end was acknowledged, and the job is being removed
	parent    *entry
	tasks     []*entry // of a parallel job: the tasks that have not been removed
	lastTask  int      // number of the last task that was started
}

func newEntry(id job.ID, r Record) *entry {
	return &entry{id: id, record: r, state: Received, ready: make(chan struct{}), wake: make(chan struct{}, 1), unwatch: func() {}}
}

// noticeChange handles a change in the job's directory. A change of the usage does not wake the
// job's goroutine.
func (e *entry) noticeChange(name string) {
	if !strings.Contains(name, jobdir.FileOnline) { // or the new version of it
		e.poke()
	}
}

// poke wakes the goroutine of the job.
func (e *entry) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// changes wakes all callers that wait for reports. The caller holds mu.
func (a *Agent) changes() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// set brings a job to a state. mu is held.
func (a *Agent) set(e *entry, to State) {
	if e.state == to {
		return
	}
	if !mayFollow(e.state, to) {
		// An internal error. The change has happened nevertheless.
		a.log.Error("internal error: a job changed to a state that cannot follow its state",
			"job", e.id.String(), "from", string(e.state), "to", string(to))
	}
	e.state = to
	a.bound++
	if to != Reported { // the caller that reported it knows
		e.number = a.numbers.next()
		a.changes()
	}
	a.log.Debug("job", "job", e.id.String(), "state", string(to))
}

// touch has a job reported again in the state in which it is. mu is held.
func (a *Agent) touch(e *entry) {
	e.number = a.numbers.next()
	a.changes()
}

// hasUsed makes the usage of jobs available as one report. The report gets its number only now,
// because larger numbers may have been returned while the jobs were measured. The caller holds mu.
func (a *Agent) hasUsed(list []*entry) {
	list = slices.DeleteFunc(list, func(e *entry) bool { return !e.state.Live() })
	if len(list) == 0 {
		return
	}
	number := a.numbers.next()
	for _, e := range list {
		e.used = number
	}
	a.changes()
}

// insert puts a job into the table. mu is held.
func (a *Agent) insert(e *entry) {
	a.table[e.id] = e
	a.bound++
	a.keys[e.record.Key] = e
	if e.parent != nil {
		e.parent.tasks = append(e.parent.tasks, e)
	}
}

// drop takes a job out of the table. mu is held.
func (a *Agent) drop(e *entry) {
	a.bound++
	a.online.remove(e)
	if a.table[e.id] == e {
		delete(a.table, e.id)
	}
	if a.keys[e.record.Key] == e {
		delete(a.keys, e.record.Key)
	}
	if p := e.parent; p != nil {
		p.tasks = slices.DeleteFunc(p.tasks, func(t *entry) bool { return t == e })
		p.poke()
	}
}

// entries are all jobs, in the order of their ids.
func (a *Agent) entries() []*entry {
	a.mu.Lock()
	list := make([]*entry, 0, len(a.table))
	for _, e := range a.table {
		list = append(list, e)
	}
	a.mu.Unlock()
	slices.SortFunc(list, func(x, y *entry) int { return compareIDs(x.id, y.id) })
	return list
}

func compareIDs(a, b job.ID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task, b.Task), cmp.Compare(a.PETask, b.PETask))
}

// report returns the report of a job. The caller holds mu.
func (a *Agent) report(e *entry) JobReport {
	r := JobReport{
		Number: e.number, ID: e.id, Key: e.record.Key, State: e.state, Slave: e.record.Slave,
		Owner: e.record.Owner, Name: e.record.Name, Queue: e.record.Queue, PE: e.record.PE, Slots: e.record.Slots,
		SuspendedBy: slices.Clone(e.suspended), Received: e.record.Received, Started: e.began,
		Usage: e.usage, Nice: e.priority.Nice, Outcome: e.outcome, Dir: a.area().JobPath(e.id),
	}
	if (e.state == Running || e.state == Suspended) && !e.usage.At.IsZero() && e.record.Simulated == 0 {
		// Of a job that does nothing the supervisor has nothing to write, and still the
		// time passes. When the job began is of no use for that: the clock may have been set.
		r.Usage.Wallclock += a.clock.Now().Sub(e.usageSeen).Seconds()
	}
	if e.state.Live() {
		r.Number = max(r.Number, e.used)
	}
	if e.run != nil {
		r.Notes = e.run.Notes
		if d := e.run.Description; d != nil {
			r.Submitted, r.QueuePriority = d.SubmissionTime, d.Nice
		}
		if e.state.Live() && e.state != Accepted {
			r.PID = e.run.PID()
		}
	}
	a.reserve(e, &r)
	return r
}

// Bound returns the processors of the cores that jobs are bound to (job.Description.BindingCPUs),
// by the directories of the jobs. The text is empty for a job that is not bound or has ended.
func (a *Agent) Bound() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	bound := make(map[string]string, len(a.table))
	for _, e := range a.table {
		switch {
		case e.run == nil:
		case e.state.Live():
			bound[a.area().JobPath(e.id)] = e.run.Description.BindingCPUs
		default:
			bound[a.area().JobPath(e.id)] = ""
		}
	}
	return bound
}

// BoundVersion returns a number that changes whenever the result of Bound may have changed.
func (a *Agent) BoundVersion() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bound
}

// Jobs returns all jobs, in the order of their numbers. It leaves out jobs that are still being
// accepted.
func (a *Agent) Jobs() []JobReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]JobReport, 0, len(a.table))
	for _, e := range a.table {
		if e.state != Received {
			list = append(list, a.report(e))
		}
	}
	slices.SortFunc(list, func(x, y JobReport) int { return compareIDs(x.ID, y.ID) })
	return list
}

// Job returns one job.
func (a *Agent) Job(id job.ID) (JobReport, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.table[id]
	if e == nil || e.state == Received {
		return JobReport{}, false
	}
	return a.report(e), true
}

// exhausted are the errors of a host that has no room for a job now.
var exhausted = []error{
	launch.ErrNoGroupID, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOMEM, unix.EIO, unix.ESTALE,
}

// full reports whether an error is that of a file system, or of a user, without room.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// roomError gives an error of the system its code.
func roomError(err error) error {
	if err == nil {
		return nil
	}
	if isExhausted(err) {
		return &Error{ResourceExhausted, err}
	}
	return &Error{Internal, err}
}

// isExhausted reports whether an error means that the host has no resources for a job now.
func isExhausted(err error) bool {
	return slices.ContainsFunc(exhausted, func(e error) bool { return errors.Is(err, e) })
}

func notFound(id job.ID) error {
	return &Error{NotFound, fmt.Errorf("job %s is not on this host", id)}
}
