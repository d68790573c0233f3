package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/admission"
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
	// It is acquired before the lock of the table, and never by a holder of do.
	ordering sync.Mutex
	unwatch  func() // ends the watch on the job's directory; of the job's goroutine
	untold   *ended // an end that could not be written or reported; used by the job's goroutine
	told     bool   // the end was reported, but not yet marked as reported; used by the job's goroutine
	watch    int32  // of onlineWatch, in its jobs
	seat     seat   // for the terminal of an interactive job

	// The lock of the table protects the following fields.
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
	gpuMeter  gpuMeter
	acked     bool // the end was acknowledged, and the job is being removed
	parent    *entry
	tasks     []*entry // of a parallel job: the tasks that have not been removed
	lastTask  int      // number of the last task that was started
	// withoutScript says that the task does not need the script of its job any more.
	withoutScript bool
}

func newEntry(id job.ID, r Record) *entry {
	return &entry{id: id, record: r, state: Received, ready: make(chan struct{}), wake: make(chan struct{}, 1), unwatch: func() {}}
}

// noticeChange handles a change in the job's directory. Only the files that the job's goroutine waits for
// wake it: a supervisor writes a dozen others, and each wakeup costs several system calls. An empty name
// means that any file may have changed.
func (e *entry) noticeChange(name string) {
	switch name {
	case "", jobdir.FilePID, jobdir.FileJobPID, jobdir.FileTerminal:
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

// table holds the jobs that are on this host, and the numbers of all reports to masters. The two
// have one lock, because reports are numbered in the order in which jobs change.
//
// The lock is held for changes in memory only: a goroutine that holds it reads no file of the spool
// area, writes none and removes none. The agent therefore answers while its disk does not. While it is
// held, a lock may be taken whose holders take no other one, and read and write no files: those of
// settings, troubles, starts, loadBook, seat, finished, goroutines and admission.Book, and that of the
// journal for what it has in memory. The end of disk.begin, userGuard.noted and startFailed take the lock
// of the table themselves.
//
// Methods take the lock, unless their comment says that the caller holds it.
type table struct {
	log    hclog.Logger
	online *onlineWatch

	mu         sync.Mutex
	jobs       map[job.ID]*entry
	keys       map[string]*entry // by the keys of their starts
	rests      map[job.ID]bool   // refused jobs of which files are left
	bound      uint64            // changes when a job enters or leaves the table, or changes its state
	book       *admission.Book   // the resources of this host that the jobs hold
	procedures procedureEnds

	numbers       numbers
	changed       chan struct{} // closed at the next change
	service       ServiceReport // the last one
	version       string        // of the configuration
	versionNumber uint64        // of the report of version
}

func newTable(log hclog.Logger) *table {
	return &table{
		log: log, jobs: map[job.ID]*entry{}, keys: map[string]*entry{}, rests: map[job.ID]bool{}, procedures: procedureEnds{}, changed: make(chan struct{}),
	}
}

// changes wakes all callers that wait for reports. The caller holds mu.
func (t *table) changes() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// set brings a job to a state. The caller holds mu.
func (t *table) set(e *entry, to State) {
	if e.state == to {
		return
	}
	if !mayFollow(e.state, to) {
		// An internal error. The change has happened nevertheless.
		t.log.Error("internal error: a job changed to a state that cannot follow its state",
			"job", e.id.String(), "from", string(e.state), "to", string(to))
	}
	e.state = to
	t.bound++
	if to != Reported { // the caller that reported it knows
		e.number = t.numbers.next()
		t.changes()
	}
	t.log.Debug("job", "job", e.id.String(), "state", string(to))
}

// end brings a job to the state Ended, with the outcome that was written to its directory and the
// number that was promised for it. The caller holds mu.
func (t *table) end(e *entry, outcome *job.Outcome, number uint64) {
	e.outcome = outcome
	t.set(e, Ended)
	e.number = number
	t.numbers.keep(number)
	t.changes()
}

// touch marks a job so that the agent reports its present state again. The caller holds mu.
func (t *table) touch(e *entry) {
	e.number = t.numbers.next()
	t.changes()
}

// hasUsed makes the usage of jobs available as one report. The report gets its number only now,
// because larger numbers may have been returned while the jobs were measured. The caller holds mu.
func (t *table) hasUsed(list []*entry) {
	list = slices.DeleteFunc(list, func(e *entry) bool { return !e.state.Live() })
	if len(list) == 0 {
		return
	}
	number := t.numbers.next()
	for _, e := range list {
		e.used = number
	}
	t.changes()
}

// insert adds a job to the table. The caller holds mu.
func (t *table) insert(e *entry) {
	t.jobs[e.id] = e
	t.bound++
	t.keys[e.record.Key] = e
	if e.parent != nil {
		e.parent.tasks = append(e.parent.tasks, e)
	}
}

// drop removes a job from the table. The caller holds mu.
func (t *table) drop(e *entry) {
	t.bound++
	t.online.remove(e)
	if t.jobs[e.id] == e {
		delete(t.jobs, e.id)
	}
	if t.keys[e.record.Key] == e {
		delete(t.keys, e.record.Key)
	}
	if p := e.parent; p != nil {
		p.tasks = slices.DeleteFunc(p.tasks, func(x *entry) bool { return x == e })
		p.poke()
	}
}

// release gives back what a job held of the host. The caller holds mu.
func (t *table) release(e *entry) {
	if e.parent == nil && e.record.Booking != nil {
		t.book.End(e.id)
	}
}

// list returns all jobs, sorted by ID.
func (t *table) list() []*entry {
	t.mu.Lock()
	list := slices.Collect(maps.Values(t.jobs))
	t.mu.Unlock()
	slices.SortFunc(list, func(x, y *entry) int { return compareIDs(x.id, y.id) })
	return list
}

// state returns the state of a job.
func (t *table) state(e *entry) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.state
}

// releaseScript notes that a task does not need the script of its job any more, and reports whether
// another task of the array on this host still does. Of tasks that end together, the last one that
// calls it gets false.
func (t *table) releaseScript(e *entry) (needed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.withoutScript = true
	for id, other := range t.jobs {
		if id.Job == e.id.Job && !other.withoutScript && id.PETask == "" {
			return true
		}
	}
	return false
}

// boundVersion returns a number that changes whenever the bindings of jobs may have changed.
func (t *table) boundVersion() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bound
}

// noteRest records that files of a refused job are left, or that they are not.
func (t *table) noteRest(id job.ID, left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left {
		t.rests[id] = true
	} else {
		delete(t.rests, id)
	}
}

// hasRest reports whether files of a refused job are left.
func (t *table) hasRest(id job.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rests[id]
}

func compareIDs(a, b job.ID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task, b.Task), cmp.Compare(a.PETask, b.PETask))
}

// report returns the report of a job. The caller holds the lock of the table.
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
	r.GPU = a.gpuReport(e)
	a.reserve(e, &r)
	return r
}

// Bound returns the processors of the cores that jobs are bound to (job.Description.BindingCPUs),
// by the directories of the jobs. The text is empty for a job that is not bound or has ended.
func (a *Agent) Bound() map[string]string {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	bound := make(map[string]string, len(a.table.jobs))
	for _, e := range a.table.jobs {
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
func (a *Agent) BoundVersion() uint64 { return a.table.boundVersion() }

// Jobs returns all jobs, in the order of their numbers. It leaves out jobs that are still being
// accepted.
func (a *Agent) Jobs() []JobReport {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	list := make([]JobReport, 0, len(a.table.jobs))
	for _, e := range a.table.jobs {
		if e.state != Received {
			list = append(list, a.report(e))
		}
	}
	slices.SortFunc(list, func(x, y JobReport) int { return compareIDs(x.ID, y.ID) })
	return list
}

// Job returns one job.
func (a *Agent) Job(id job.ID) (JobReport, bool) {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	e := a.table.jobs[id]
	if e == nil || e.state == Received {
		return JobReport{}, false
	}
	return a.report(e), true
}

// exhausted are the errors of a host that has no room for a job now.
var exhausted = []error{
	launch.ErrNoGroupID, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOMEM, unix.EIO, unix.ESTALE,
}

// full reports whether an error means that a file system is full, or that a user's quota is used up.
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
