package agent

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// supervise starts a goroutine that runs a job of the table to its end.
func (a *Agent) supervise(e *entry) {
	a.spawn(func(ctx context.Context) {
		if e.record.hosted() {
			a.runUnsupervised(ctx, e)
		} else {
			a.manage(ctx, e)
		}
	})
}

// spawn starts a goroutine for which Close waits. It has to return when the context ends.
func (a *Agent) spawn(f func(context.Context)) { a.goroutines.begin(func() { f(a.context) }) }

// goroutines counts goroutines, so that the agent can wait for their end.
type goroutines struct {
	mu   sync.Mutex
	over bool
	wait sync.WaitGroup
}

// begin starts a goroutine. After end was called it does nothing.
func (g *goroutines) begin(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.wait.Go(f)
	}
}

// end waits until all goroutines have ended. From then on begin starts none.
func (g *goroutines) end() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.wait.Wait()
}

// manage follows a job from its acceptance, or from the state in which the previous agent left it,
// until its end was acknowledged and its files are removed. It returns early when the agent stops.
func (a *Agent) manage(ctx context.Context, e *entry) {
	e.unwatch = a.watcher.add(a.area().JobPath(e.id), e.noticeChange)
	defer e.unwatch()

	state := a.table.state(e)
	if state == Accepted {
		if !a.launch(ctx, e) {
			return
		}
	}
	if !state.Over() {
		status, ok := a.attend(ctx, e)
		if !ok {
			return
		}
		if state == Accepted && e.outcome == nil {
			a.noteStart(e, status)
		}
		if !a.awaitTasks(ctx, e) {
			return
		}
		a.conclude(e, status)
	}
	// Before the job leaves the table: the next start may then watch the same directory.
	e.unwatch()
	a.removeWhenAcknowledged(ctx, e)
}

// launch starts the supervisor of a job. It returns false if the agent ends.
func (a *Agent) launch(ctx context.Context, e *entry) bool {
	select {
	case a.launching <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-a.launching }()
	a.table.mu.Lock()
	if e.endBy != "" {
		a.table.mu.Unlock()
		return true // attend concludes at once
	}
	a.table.set(e, Starting)
	a.table.mu.Unlock()
	failpoint.At("agent-starting")
	e.do.Lock()
	shepherd, err := a.shepherd(a.Cluster().Config(a.options.Host))
	if err == nil {
		end := a.disk.begin("starting the supervisor of job " + e.id.String())
		err = e.run.Launch(shepherd)
		end()
	}
	e.do.Unlock()
	failpoint.At("agent-launched")
	if err != nil {
		a.startFailed(err)
		a.table.mu.Lock()
		e.outcome = outcomeUnstarted(e.id, job.FailedBeforeJob, err.Error())
		a.table.mu.Unlock()
	}
	return true
}

// attend waits for the end of a supervisor. Meanwhile it passes on orders, and notices when the job
// begins. It returns false if the agent ends first.
func (a *Agent) attend(ctx context.Context, e *entry) (status syscall.WaitStatus, ok bool) {
	a.table.mu.Lock()
	over := e.outcome != nil || e.state == Accepted
	if e.state == Accepted {
		e.outcome = outcomeUnstarted(e.id, job.FailedRemoved, "was ended before it was started")
	}
	a.table.mu.Unlock()
	if over {
		return 0, true
	}
	type end struct {
		status syscall.WaitStatus
		err    error
	}
	ended := make(chan end, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		status, err := e.run.Wait(ctx)
		ended <- end{status, err}
	}()
	e.poke()
	for {
		select {
		case end := <-ended:
			if end.err != nil && ctx.Err() != nil {
				return 0, false
			}
			if end.err != nil {
				a.log.Error("cannot wait for a supervisor", "job", e.id.String(), "error", end.err)
			}
			a.noticeBeginning(e) // of a job that finished before the agent noticed its beginning
			return end.status, true
		case <-e.wake:
			a.noticeBeginning(e)
			a.openConsole(ctx, e)
			a.deliver(e)
			a.stopWatching(e)
		}
	}
}

// noticeBeginning finds out from the job directory whether the job itself has begun, and notes it in
// the table.
func (a *Agent) noticeBeginning(e *entry) {
	if a.table.state(e) != Starting {
		return
	}
	began, err := e.run.Dir.ModTime(jobdir.FileJobPID)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("cannot see whether a job has begun", "job", e.id.String(), "error", err)
		}
		return
	}
	failpoint.At("agent-running")
	a.table.mu.Lock()
	e.began = began
	a.table.set(e, Running)
	a.table.procedures.began(e.run.Description)
	a.pokePriorities()
	a.table.mu.Unlock()
	a.startWorked()
	a.options.Observer.Began(&e.record, e.run.Description, began)
	e.poke() // orders that could not be delivered before
}

// stopWatching ends the watch on the directory of a started job. Its usage may change all the time
// and needs no watch, and the end of its supervisor announces all other changes.
func (a *Agent) stopWatching(e *entry) {
	state := a.table.state(e)
	waits := e.run.Description.Terminal != nil && e.seat.terminal() == nil
	if (state == Running || state == Suspended) && !waits {
		e.unwatch()
	}
}

// conclude determines the outcome of a job whose supervisor has ended, and writes it to the disk
// before it is reported.
func (a *Agent) conclude(e *entry, status syscall.WaitStatus) {
	failpoint.At("agent-before-collect")
	e.do.Lock()
	outcome := e.outcome
	if outcome == nil {
		outcome = e.run.Collect(status)
	}
	e.do.Unlock()
	a.table.mu.Lock()
	outcome = a.completeOutcome(e, outcome)
	if gpus := e.gpus(); e.parent == nil && outcome.Ran {
		outcome.Usage.GPU = e.gpuMeter.usage(len(gpus), outcome.End.Sub(outcome.Start))
	}
	number := a.table.numbers.promise()
	a.table.mu.Unlock()

	failpoint.At("agent-collected")
	end := ended{Number: number, Outcome: outcome}
	// If the disk is full, the files of the supervisor say the same, and stay.
	a.writeEnd(e, &end, e.found)

	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.table.release(e)
	a.table.end(e, outcome, number)
}

// completeOutcome adds to an outcome the values that only the agent knows.
func (a *Agent) completeOutcome(e *entry, o *job.Outcome) *job.Outcome {
	if !e.record.hosted() {
		a.table.procedures.attributeFailure(e.run.Description, o)
	}
	switch {
	case e.endBy == Reschedule && o.Failed != job.FailedLimit:
		f := job.FailureOf(job.FailedReschedule)
		o.Failed, o.Stamp, o.FailedText, o.Class, o.Effect = f.Code, "", f.Text, f.Class, f.Effect
		// The end has an external cause, so there is no result of the job: its record has none
		// (tested).
		o.ExitStatus, o.Signal = 0, 0
		o.Reason = "was rescheduled"
	case e.endBy == Migrate && o.Failed == job.FailedNoExitStatus:
		// Its supervisor was killed during the migration. The job still has to continue elsewhere.
		f := job.FailureOf(job.FailedMigrate)
		o.Failed, o.Stamp, o.FailedText, o.Class, o.Effect = f.Code, "", f.Text, f.Class, f.Effect
		o.Restart = job.RestartedJob
	case e.endBy == Terminate || e.endBy == Kill:
		if o.Effect != job.Finished {
			o.Effect = job.Finished // a master or user has ended it: it must not run again
		}
	case e.run.Rebooted() && o.Failed == job.FailedNoExitStatus && o != e.outcome: // restate has given its own reason
		o.Reason = "the host was restarted while the job ran"
	}
	if o.Effect == job.IfRerunnable {
		if o.Effect = job.Finished; e.record.Rerunnable {
			o.Effect = job.Requeued
		}
	}
	return o
}

// writeEnd writes an end to the disk and reports it, or stores it to report it later.
func (a *Agent) writeEnd(e *entry, end *ended, again bool) {
	defer a.disk.begin("writing the end of job " + e.id.String())()
	err := writeJSON(e.run.Files(), fileEnded, end)
	failpoint.At("agent-ended")
	if err == nil {
		err = a.tell(e, end, again)
	}
	if e.untold = nil; err != nil {
		e.untold = end
	}
	a.trouble("writing down the ends of jobs", err)
}

// tell passes an end to accounting and observers, and records that on the disk.
func (a *Agent) tell(e *entry, end *ended, again bool) error {
	if end.Told {
		return nil
	}
	if err := a.tellNow(e, end, again); err != nil {
		return err
	}
	// Not synced: after a power loss it is passed again, and gets no second accounting record. It is the same if both
	// processes of a daemon are killed.
	return e.run.MarkSoon(fileEnded, fileTold)
}

// tellNow passes on an end, but only once in this process: on a full disk tell is called repeatedly,
// because its mark cannot be written.
func (a *Agent) tellNow(e *entry, end *ended, again bool) error {
	if e.told {
		return nil
	}
	if a.options.Account != nil && a.accounts() {
		if err := a.options.Account(&e.record, e.run.Description, a.accounted(e.run.Description, end.Outcome), again); err != nil {
			return err
		}
	}
	failpoint.At("agent-accounted")
	a.options.Observer.Ended(&e.record, e.run.Description, end.Outcome)
	e.told = true
	return nil
}

// The first and the longest pause after a failed attempt to remove a job, or to do the steps before
// that.
const (
	removalPause     = time.Second
	removalPauseMost = time.Minute
)

// removeWhenAcknowledged waits until the end of a job was acknowledged, and then removes the job.
func (a *Agent) removeWhenAcknowledged(ctx context.Context, e *entry) {
	for {
		a.table.mu.Lock()
		acked := e.acked && len(e.tasks) == 0
		a.table.mu.Unlock()
		if acked {
			break
		}
		select {
		case <-e.wake:
		case <-ctx.Done():
			return
		}
	}
	failpoint.At("agent-acknowledged")
	// If the disk was full, there may be no accounting record yet, and this is the last copy.
	for wait := removalPause; e.untold != nil; wait = min(2*wait, removalPauseMost) {
		if !clock.Wait(ctx, a.clock, wait) {
			return
		}
		a.writeEnd(e, e.untold, true)
	}
	if c := e.seat.terminal(); c != nil {
		c.retire()
	}
	a.trouble("remembering finished jobs", a.finished.add(e.finishedKey()))
	failpoint.At("agent-finished")
	for wait := removalPause; ; wait = min(2*wait, removalPauseMost) {
		e.do.Lock()
		keep := e.record.Keep.Keeps(e.outcome.Failed != job.FailedNone)
		// Not a write of a.disk: the owner decides how long it takes to remove the files in TMPDIR.
		err := e.run.Remove(keep)
		e.do.Unlock()
		a.trouble("removing what is left of job "+e.id.String(), err)
		if err == nil {
			break
		}
		if !clock.Wait(ctx, a.clock, wait) {
			return
		}
	}
	failpoint.At("agent-removed")
	a.removeScript(e)
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.table.set(e, Acknowledged)
	a.table.drop(e)
}

// runUnsupervised runs a job without a supervisor: a slave job, in which tasks are started until an
// order ends it, or a simulated job until its time is over.
func (a *Agent) runUnsupervised(ctx context.Context, e *entry) {
	a.table.mu.Lock()
	if e.state == Accepted {
		e.began = a.clock.Now()
		a.table.set(e, Running)
	}
	live := !e.state.Over()
	var over <-chan time.Time
	if timer := a.simulation(e); timer != nil && live {
		over = timer.C()
		defer timer.Stop()
	}
	a.table.mu.Unlock()
	for live {
		a.table.mu.Lock()
		live = e.endBy == ""
		switch {
		case live && len(e.suspended) > 0:
			a.table.set(e, Suspended)
		case live:
			a.table.set(e, Running)
		}
		a.table.mu.Unlock()
		if !live {
			break
		}
		select {
		case <-e.wake:
		case <-over:
			live = false
		case <-ctx.Done():
			return
		}
	}
	if !a.table.state(e).Over() {
		if !a.awaitTasks(ctx, e) {
			return
		}
		a.table.mu.Lock()
		e.outcome = a.hostedOutcome(e)
		a.table.mu.Unlock()
		a.conclude(e, 0)
	}
	a.removeWhenAcknowledged(ctx, e)
}

// awaitTasks ends the tasks of a parallel job and waits for their ends, because the job must be
// reported after them. It returns false if the agent stops first.
func (a *Agent) awaitTasks(ctx context.Context, e *entry) bool {
	for {
		a.table.mu.Lock()
		tasks := slices.DeleteFunc(slices.Clone(e.tasks), func(t *entry) bool { return t.state.Over() })
		changed := a.table.changed // from now on: they may end while they are being signalled
		a.table.mu.Unlock()
		if len(tasks) == 0 {
			return true
		}
		for _, t := range tasks {
			if err := a.signal(t, Kill, Sequence{}); err != nil {
				a.log.Warn("cannot end a task", "task", t.id.String(), "error", err)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
