package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// recoverers is how many job directories are read at the same time.
const recoverers = 8

// recover finds the jobs of a previous agent in the spool area. Directories without the agent's
// file "start" belong to other programs, such as execd run, and are left alone.
func (a *Agent) recover() error {
	ids, err := a.launcher.Jobs()
	if err != nil {
		return err
	}
	work := make(chan job.ID)
	var wait sync.WaitGroup
	for range min(recoverers, len(ids)) {
		wait.Go(func() {
			for id := range work {
				a.recoverJob(id)
			}
		})
	}
	for _, id := range ids {
		work <- id
	}
	close(work)
	wait.Wait()
	if err := a.sweepScripts(); err != nil {
		return err
	}
	// Before jobs are started: a job cannot start while there is a group with its number.
	_, groups := a.settings.current()
	if err := a.launcher.Sweep(groups); err != nil {
		a.log.Warn("cannot remove stale control groups of jobs", "error", err)
	}
	if err := a.readTickets(); err != nil {
		// This happens after a power loss, for example. The master sends them again.
		a.log.Warn("cannot read the tickets of jobs: they have those of their starts", "error", err)
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.load.reportAll(a.table.numbers.last)
	a.pokePriorities()
	if n := len(a.table.jobs); n > 0 {
		a.log.Info("found jobs of a previous agent", "jobs", n)
	}
	return nil
}

// sweepScripts removes the scripts of jobs that no longer exist: of jobs that were never accepted,
// and of jobs that were being removed when the agent was killed.
func (a *Agent) sweepScripts() error {
	numbers, err := a.launcher.Scripts()
	for _, n := range numbers {
		a.removeScript(newEntry(job.ID{Job: n}, Record{}))
	}
	return err
}

// recoverJob brings a job with its tasks into the table.
func (a *Agent) recoverJob(id job.ID) {
	e := a.reopen(id, nil)
	if e == nil {
		return
	}
	tasks, err := e.run.Dir.PETasks()
	if err != nil {
		a.log.Error("cannot read which tasks a job has", "job", id.String(), "error", err)
	}
	last, err := e.run.Dir.ReadNumber(fileLastTask)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Error("cannot read how many tasks a job has had", "job", id.String(), "error", err)
	}
	a.table.mu.Lock()
	e.lastTask = last
	a.table.mu.Unlock()
	for _, name := range tasks {
		a.reopen(job.ID{Job: id.Job, Task: id.Task, PETask: name}, e)
		a.table.mu.Lock()
		e.lastTask = max(e.lastTask, taskNumber(name))
		a.table.mu.Unlock()
	}
}

// reopen brings a job into the table, in the state in which it is.
func (a *Agent) reopen(id job.ID, parent *entry) *entry {
	log := a.log.With("job", id.String())
	_, groups := a.settings.current()
	run, stage, err := a.launcher.Open(groups, a.users, id)
	if errors.Is(err, jobdir.ErrIncomplete) {
		if err := a.launcher.Discard(groups, id); err != nil {
			log.Error("cannot remove the directory of a job that was never accepted", "error", err)
		}
		return nil
	}
	if errors.Is(err, launch.ErrForeground) || errors.Is(err, launch.ErrKept) {
		return nil
	}
	if err != nil {
		log.Error("cannot use the directory of a job: it is left as it is", "error", err)
		a.trouble("job directory "+a.area().JobPath(id), err)
		return nil
	}
	if stage == launch.Kept {
		_ = run.Close()
		return nil
	}
	e := newEntry(id, Record{})
	e.run, e.parent = run, parent
	record, err := run.Record()
	if err == nil {
		err = json.Unmarshal(record, &e.record)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.trouble("job directory "+a.area().JobPath(id), err)
		}
		_ = run.Close()
		return nil
	}
	// Directories do not tell a job that is not an array job from task 1 of one.
	id = e.record.ID
	e.id = id
	close(e.ready)
	if err := a.restate(e, stage); err != nil {
		log.Error("cannot read all of a job's files", "error", err)
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.table.insert(e)
	e.found = true
	a.found = append(a.found, e)
	if parent == nil && e.state.Live() {
		a.hold(e)
	}
	return e
}

// restate finds out in which state a job is.
func (a *Agent) restate(e *entry, stage launch.Stage) error {
	var end ended
	var by ending
	found, err := readJSON(e.run.Dir, fileEnded, &end)
	_, endingError := readJSON(e.run.Dir, fileEnding, &by)
	suspended, turns, suspendedError := readSuspended(e.run.Dir)
	acked, ackedError := e.run.Dir.Exists(fileAcked)
	expected, expectedError := e.run.Dir.Exists(fileClient)
	began, beganError := e.run.Dir.ModTime(jobdir.FileJobPID)

	usage, usageError := e.run.Dir.Online()
	_, gpuError := readJSON(e.run.Dir, fileGPUs, &e.gpuMeter)
	if gpuError != nil {
		e.gpuMeter = gpuMeter{} // it is a measurement only
	}

	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	e.endBy, e.suspended, e.turns = by.By, suspended, turns
	e.seat.expect(expected)
	if beganError == nil {
		e.began = began
	}
	if e.record.hosted() {
		e.began = e.record.Received
	}
	if usageError == nil && usage != nil {
		e.usage, e.usageSeen = *usage, a.clock.Now()
	}
	switch {
	case found:
		e.state, e.outcome, e.number, e.acked = Ended, end.Outcome, end.Number, acked
		if e.run.Rebooted() && !acked {
			// A power loss may have lost an acknowledgement, but a master that sent it does not use
			// this number again.
			e.number = a.table.numbers.next()
		}
		return errors.Join(endingError, suspendedError, ackedError, expectedError)
	case stage == launch.Over && beganError != nil && e.run.Rebooted():
		// Whether it ran is not known: the files of its supervisor are not synced, and a power loss may have lost them.
		e.state = Starting
		e.outcome = outcomeUnstarted(e.id, job.FailedBeforeJob, "the host was restarted before the job was known to run")
		if !e.record.Rerunnable {
			e.outcome = outcomeUnstarted(e.id, job.FailedNoExitStatus,
				"the host was restarted soon after the start of the job: it may have run, and it is not rerunnable (qsub -r)")
		}
	case stage == launch.Prepared:
		e.state = Accepted
	case beganError != nil && !e.record.hosted():
		e.state = Starting
	case e.endBy != "":
		e.state = Ending
	case len(suspended) > 0:
		e.state = Suspended
	default:
		e.state = Running
	}
	if beganError == nil && !e.record.hosted() {
		a.table.procedures.began(e.run.Description)
	}
	e.number = a.table.numbers.next()
	// Whether the last order arrived is not known: it is given again.
	switch {
	case e.endBy != "":
		e.orders = []Order{e.endBy}
	case len(suspended) > 0, e.parent != nil && len(e.parent.suspended) > 0: // tasks do as their job does
		e.orders = []Order{Suspend}
	case turns != nil && wasSuspended(turns):
		e.orders = []Order{Resume}
	}
	return errors.Join(err, endingError, suspendedError, ackedError, expectedError)
}

// wasSuspended reports whether a job that has the file "suspended", and is not suspended,
// was so before: the file may be there for other orders alone.
func wasSuspended(turns map[string]Sequence) bool {
	for aspect := range turns {
		if strings.HasPrefix(aspect, "suspend") {
			return true
		}
	}
	return len(turns) == 0
}

// readSuspended reads the file of writeSuspended; turns is nil if there is none.
func readSuspended(d *jobdir.Dir) (by []Order, turns map[string]Sequence, err error) {
	b, err := d.ReadFile(fileSuspended)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	turns = map[string]Sequence{}
	for line := range strings.Lines(string(b)) {
		var aspect string
		var t Sequence
		switch line = strings.TrimSpace(line); {
		case line == "":
		case strings.HasPrefix(line, turnWord+" "):
			if _, e := fmt.Sscanf(line, turnWord+" %s %d %d", &aspect, &t.Epoch, &t.Number); e != nil {
				err = errors.Join(err, fmt.Errorf("%s/%s: %q: %w", d.Path(), fileSuspended, line, e))
				continue
			}
			turns[aspect] = t
		default:
			by = append(by, Order(line))
		}
	}
	return by, turns, err
}

// resumeJobs continues the jobs that were found.
func (a *Agent) resumeJobs() {
	found := a.found
	a.found = nil
	for _, e := range found {
		if a.table.state(e).Over() { // it may have been reported already
			var end ended
			if found, err := readJSON(e.run.Dir, fileEnded, &end); found && err == nil {
				told, err := e.run.Dir.Exists(fileTold)
				end.Told = end.Told || told
				if err = errors.Join(err, a.tell(e, &end, true)); err != nil {
					e.untold = &end
				}
				a.trouble("writing down the ends of jobs", err)
			}
		}
		a.supervise(e)
	}
}
