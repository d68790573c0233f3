package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

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
	if !o.valid() {
		return &Error{InvalidArgument, fmt.Errorf("%q is no order", o)}
	}
	var found []*entry
	for _, e := range a.entries() {
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
		return &Error{InvalidArgument, fmt.Errorf("queue %s: %q is no order for a queue, expected %q or %q", queue, o, Suspend, Resume)}
	}
	name, host, ok := strings.Cut(queue, "@")
	if ok && !strings.EqualFold(host, a.options.Host) {
		return &Error{NotFound, fmt.Errorf("queue instance %s is not of this host, which is %s", queue, a.options.Host)}
	}
	jobs := slices.DeleteFunc(a.entries(), func(e *entry) bool { return e.record.Queue != name || e.parent != nil })
	return a.signalAll(ctx, jobs, o)
}

func (o Order) valid() bool {
	switch o {
	case Terminate, Kill, Suspend, Resume, SuspendThreshold, ResumeThreshold, SuspendQueue, ResumeQueue, Migrate, Reschedule, Usr1, Usr2:
		return true
	}
	return false
}

// signal notes an order on the disk where it is one that lasts, and has the
// goroutine of the job deliver it. An order that has no effect is none: the job may
// have ended, or be suspended already. Tasks of a parallel job do as the job does.
func (a *Agent) signal(e *entry, o Order, t Turn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !e.state.Live() || e.endBy != "" && o != Kill {
		return nil
	}
	turns, aspect := e.turns, o.aspect()
	if t.Number > 0 && aspect != "" {
		if again, err := t.Comes("job "+e.id.String()+": "+string(o), turns[aspect]); again || err != nil {
			return err
		}
		turns = map[string]Turn{}
		maps.Copy(turns, e.turns)
		turns[aspect] = t
	}
	lasting := true
	before := len(e.suspended) > 0
	switch o {
	case Suspend, SuspendThreshold, SuspendQueue:
		if slices.Contains(e.suspended, o) {
			return a.markTurn(e, turns)
		}
		if err := a.markSuspended(e, append(slices.Clone(e.suspended), o), turns); err != nil {
			return err
		}
	case Resume, ResumeThreshold, ResumeQueue:
		kept := slices.DeleteFunc(slices.Clone(e.suspended), func(s Order) bool { return resumeOf[s] == o })
		if len(kept) == len(e.suspended) {
			return a.markTurn(e, turns)
		}
		if err := a.markSuspended(e, kept, turns); err != nil {
			return err
		}
	case Terminate, Kill, Reschedule, Migrate:
		if e.endBy == "" {
			err := writeJSON(e.run.Dir, fileEnding, &ending{o})
			switch {
			case err == nil || o == Kill:
			case o == Terminate && full(err):
				// The end of the job may be what makes room.
				a.log.Warn("a job is ended, and it cannot be noted that this was asked for", "job", e.id.String(), "error", err)
			default:
				return roomError(err)
			}
			e.endBy = o
		}
	default:
		if err := a.markTurn(e, turns); err != nil {
			return err
		}
		lasting = false
	}
	failpoint.At("agent-signal-noted")
	after := len(e.suspended) > 0
	// What supervisors are told knows no reasons.
	told := o
	switch {
	case !lasting || e.endBy != "":
	case after && !before:
		told = Suspend
	case before && !after:
		told = Resume
	default:
		a.touch(e) // for one reason more, or less
		return nil
	}
	e.orders = append(e.orders, told)
	e.poke()
	for _, t := range e.tasks {
		if t.state.Live() {
			t.orders = append(t.orders, told)
			t.poke()
		}
	}
	return nil
}

// markTurn writes down the turn of an order that changes nothing that lasts. mu is held.
func (a *Agent) markTurn(e *entry, turns map[string]Turn) error {
	if maps.Equal(turns, e.turns) {
		return nil
	}
	return a.markSuspended(e, e.suspended, turns)
}

// turnWord begins a line of the file "suspended" with the turn of an order.
const turnWord = "turn"

// markSuspended writes down why a job is suspended, and with it which orders have come.
// mu is held.
func (a *Agent) markSuspended(e *entry, by []Order, turns map[string]Turn) error {
	var text []byte
	for _, o := range by {
		text = append(append(text, o...), '\n')
	}
	for _, aspect := range sortedKeys(turns) {
		text = fmt.Appendf(text, "%s %s %d %d\n", turnWord, aspect, turns[aspect].Epoch, turns[aspect].Number)
	}
	err := e.run.Dir.WriteFile(fileSuspended, text)
	if err == nil {
		err = e.run.Dir.Sync(fileSuspended)
	}
	if err != nil {
		return roomError(err)
	}
	e.suspended, e.turns = by, turns
	return nil
}

// deliver passes orders on to the supervisor, as soon as that can take them.
func (a *Agent) deliver(e *entry) {
	if ok, err := e.run.Dir.Exists(jobdir.FilePID); err != nil || !ok {
		return
	}
	for {
		a.mu.Lock()
		if len(e.orders) == 0 {
			a.mu.Unlock()
			return
		}
		o := e.orders[0]
		if e.state == Starting && (o == Suspend || o == Resume) {
			a.mu.Unlock()
			return // there is nothing yet that could be suspended
		}
		e.orders = e.orders[1:]
		before := e.state
		switch {
		case o == Suspend && e.state == Running && !e.run.Migrates():
			a.set(e, Suspended)
		case o == Resume && e.state == Suspended:
			a.set(e, Running)
		case e.endBy != "":
			a.set(e, Ending)
		}
		after, began := e.state, e.began
		a.mu.Unlock()
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
