package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// resumeOf is the order that takes back a suspension.
var resumeOf = map[Order]Order{
	Suspend: Resume, SuspendThreshold: ResumeThreshold, SuspendQueue: ResumeQueue,
}

// Signal delivers an order to a job. See Commands.
func (a *Agent) Signal(ctx context.Context, id job.ID, o Order) error {
	if !valid(o) {
		return &Error{InvalidArgument, fmt.Errorf("%q is not an order", o)}
	}
	var found []*entry
	for _, e := range a.table.list() {
		if e.id == id || id.Task < 0 && e.id.Job == id.Job && e.id.PETask == id.PETask {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return notFound(id)
	}
	return a.signalAll(ctx, found, o)
}

// signalAll delivers an order to all of some jobs, and returns the first error.
func (a *Agent) signalAll(ctx context.Context, jobs []*entry, o Order) error {
	var first error
	for _, e := range jobs {
		if err := a.signal(e, o, turnOf(ctx)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// SignalQueue suspends or resumes the jobs of a queue.
func (a *Agent) SignalQueue(ctx context.Context, queue string, o Order) error {
	switch o {
	case Suspend, SuspendQueue:
		o = SuspendQueue
	case Resume, ResumeQueue:
		o = ResumeQueue
	default:
		return &Error{InvalidArgument, fmt.Errorf("queue %s: %q is not an order for a queue, expected %q or %q", queue, o, Suspend, Resume)}
	}
	name, host, ok := strings.Cut(queue, "@")
	if ok && !strings.EqualFold(host, a.options.Host) {
		return &Error{NotFound, fmt.Errorf("queue instance %s is not on this host, %s", queue, a.options.Host)}
	}
	jobs := slices.DeleteFunc(a.table.list(), func(e *entry) bool { return e.record.Queue != name || e.parent != nil })
	return a.signalAll(ctx, jobs, o)
}

func valid(o Order) bool {
	switch o {
	case Terminate, Kill, Suspend, Resume, SuspendThreshold, ResumeThreshold, SuspendQueue, ResumeQueue, Migrate, Reschedule, Usr1, Usr2:
		return true
	}
	return false
}

// signal records a lasting order on the disk, and makes the goroutine of the job deliver it. An
// order without effect is not an error: the job may have ended, or be suspended already. Orders to
// a parallel job also apply to its tasks.
func (a *Agent) signal(e *entry, o Order, t Sequence) error {
	e.ordering.Lock()
	defer e.ordering.Unlock()
	a.table.mu.Lock()
	c, err := e.change(o, t)
	a.table.mu.Unlock()
	if err != nil || c == nil {
		return err
	}
	err = a.writeChange(e, c)
	failpoint.At("agent-signal-noted")
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	if !e.state.Live() {
		return nil // it has ended meanwhile, and its directory may have been removed
	}
	if err == nil {
		a.apply(e, c)
	}
	return err
}

// change describes what an order changes of a job. It is written to the disk before it takes effect.
type change struct {
	order     Order
	suspended []Order
	turns     map[string]Sequence
	ends      bool // the order ends the job
	again     bool // neither the supervisor nor the master needs to be informed
}

// change returns the changes that an order makes, or nil. The caller holds ordering and the lock of
// the table.
func (e *entry) change(o Order, t Sequence) (*change, error) {
	if !e.state.Live() || e.endBy != "" && o != Kill {
		return nil, nil //nolint:nilnil // no change is not an error
	}
	c := &change{order: o, suspended: e.suspended, turns: e.turns}
	if aspect := aspectOf(o); t.Number > 0 && aspect != "" {
		if again, err := t.Check("job "+e.id.String()+": "+string(o), e.turns[aspect]); again || err != nil {
			return nil, err
		}
		c.turns = map[string]Sequence{}
		maps.Copy(c.turns, e.turns)
		c.turns[aspect] = t
	}
	switch o {
	case Suspend, SuspendThreshold, SuspendQueue:
		if c.again = slices.Contains(e.suspended, o); !c.again {
			c.suspended = append(slices.Clone(e.suspended), o)
		}
	case Resume, ResumeThreshold, ResumeQueue:
		kept := slices.DeleteFunc(slices.Clone(e.suspended), func(s Order) bool { return resumeOf[s] == o })
		if c.again = len(kept) == len(e.suspended); !c.again {
			c.suspended = kept
		}
	case Terminate, Kill, Reschedule, Migrate:
		c.ends = e.endBy == ""
	}
	return c, nil
}

// writeChange writes the change of an order. The caller holds ordering.
func (a *Agent) writeChange(e *entry, c *change) error {
	defer a.disk.begin("writing an order about job " + e.id.String())()
	if c.ends {
		err := writeJSON(e.run.Files(), fileEnding, &ending{c.order})
		switch {
		case err == nil || c.order == Kill:
		case c.order == Terminate && full(err):
			// The end of the job may free space.
			a.log.Warn("cannot record that a job was ordered to end", "job", e.id.String(), "error", err)
		default:
			return roomError(err)
		}
	}
	if slices.Equal(c.suspended, e.suspended) && maps.Equal(c.turns, e.turns) {
		return nil
	}
	return writeSuspended(e.run.Files(), c.suspended, c.turns)
}

// apply makes a change take effect after it was written to the disk. The caller holds the lock of the table.
func (a *Agent) apply(e *entry, c *change) {
	before := len(e.suspended) > 0
	e.suspended, e.turns = c.suspended, c.turns
	if c.ends {
		e.endBy = c.order
	}
	after := len(e.suspended) > 0
	if c.again {
		return
	}
	// Orders to supervisors carry no reasons.
	told := c.order
	switch {
	case e.endBy != "" || c.order == Usr1 || c.order == Usr2:
	case after && !before:
		told = Suspend
	case before && !after:
		told = Resume
	default:
		a.table.touch(e) // for one reason more, or less
		return
	}
	e.orders = append(e.orders, told)
	e.poke()
	for _, t := range e.tasks {
		if t.state.Live() {
			t.orders = append(t.orders, told)
			t.poke()
		}
	}
}

// turnWord begins a line of the file "suspended" with the turn of an order.
const turnWord = "turn"

// writeSuspended writes the reasons why a job is suspended, together with the sequence numbers of
// its orders.
func writeSuspended(d launch.Files, by []Order, turns map[string]Sequence) error {
	var text []byte
	for _, o := range by {
		text = append(append(text, o...), '\n')
	}
	for _, aspect := range sortedKeys(turns) {
		text = fmt.Appendf(text, "%s %s %d %d\n", turnWord, aspect, turns[aspect].Epoch, turns[aspect].Number)
	}
	return roomError(d.WriteDurably(fileSuspended, text))
}

// deliver passes orders on to the supervisor, as soon as that can take them.
func (a *Agent) deliver(e *entry) {
	if ok, err := e.run.Dir.Exists(jobdir.FilePID); err != nil || !ok {
		return
	}
	for {
		a.table.mu.Lock()
		if len(e.orders) == 0 {
			a.table.mu.Unlock()
			return
		}
		o := e.orders[0]
		if e.state == Starting && (o == Suspend || o == Resume) {
			a.table.mu.Unlock()
			return // there is nothing yet that could be suspended
		}
		e.orders = e.orders[1:]
		before := e.state
		switch {
		case o == Suspend && e.state == Running && !e.run.Migrates():
			a.table.set(e, Suspended)
		case o == Resume && e.state == Suspended:
			a.table.set(e, Running)
		case e.endBy != "":
			a.table.set(e, Ending)
		}
		after, began := e.state, e.began
		a.table.mu.Unlock()
		if after != before && after != Ending {
			a.options.Observer.Suspended(e.run.Description, began, after == Running)
		}
		failpoint.At("agent-signal-" + string(o))
		e.do.Lock()
		err := e.carryOut(o)
		e.do.Unlock()
		if err != nil {
			a.log.Error("an order was not carried out", "job", e.id.String(), "order", string(o), "error", err)
		}
	}
}

// carryOut tells the supervisor.
func (e *entry) carryOut(o Order) error {
	switch o {
	case Suspend:
		return e.run.Suspend()
	case Resume:
		return e.run.Resume()
	case Migrate:
		return e.run.Migrate()
	case Usr1, Usr2:
		sig := map[Order]syscall.Signal{Usr1: unix.SIGUSR1, Usr2: unix.SIGUSR2}[o]
		return e.run.Notify(sig)
	case Kill:
		if e.run.Kill() {
			return nil
		}
	}
	return e.run.Terminate()
}
