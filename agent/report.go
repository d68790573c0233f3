package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor"
)

// Reports waits for reports with a number above after. See Commands.
func (a *Agent) Reports(ctx context.Context, after uint64) (Batch, error) {
	for {
		a.table.mu.Lock()
		b := a.batch(after)
		changed, last := a.table.changed, a.table.numbers.last
		a.table.mu.Unlock()
		if b.Number > after {
			return b, nil
		}
		if after > last { // a master that has outlived the spool area would wait forever
			return b, &Error{InvalidArgument, fmt.Errorf(
				"there is no report %d yet, the last one has number %d: report %[1]d belongs to another spool directory; begin with 0", after, last)}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{Number: after}, &Error{Unavailable, ctx.Err()}
		}
	}
}

// batch returns the reports after a sequence number. The caller holds the lock of the table.
func (a *Agent) batch(after uint64) Batch {
	b := Batch{Number: after}
	limit := a.table.numbers.limit()
	for _, e := range a.table.jobs {
		// A changed job keeps the number of its change even after new usage. Otherwise a master
		// that has processed only a part of the reports would never see more than the usage.
		number, used := e.number, false
		if number <= after && e.state.Live() {
			number, used = e.used, true
		}
		if number <= after || number > limit || e.state == Received || e.acked {
			continue
		}
		if e.state == Ended {
			a.table.set(e, Reported)
		}
		r := a.report(e)
		r.Number, r.Used = number, used
		b.Jobs = append(b.Jobs, r)
		b.Number = max(b.Number, number)
		if e.state.Live() && e.used <= limit {
			b.Number = max(b.Number, e.used) // it is in the report as well
		}
	}
	slices.SortFunc(b.Jobs, func(x, y JobReport) int {
		return cmp.Or(cmp.Compare(x.Number, y.Number), compareIDs(x.ID, y.ID))
	})
	if b.Load = a.load.since(after, limit); b.Load != nil {
		b.Number = max(b.Number, b.Load.Number)
	}
	if n := a.table.service.Number; n > after && n <= limit {
		service := a.table.service
		b.Service = &service
		b.Number = max(b.Number, n)
	}
	if a.table.versionNumber > after && a.table.versionNumber <= limit {
		b.Configuration, b.ConfigurationNumber = a.table.version, a.table.versionNumber
		b.Number = max(b.Number, a.table.versionNumber)
	}
	return b
}

// Acknowledge says that all reports up to a number have arrived.
func (a *Agent) Acknowledge(_ context.Context, number uint64) error {
	a.table.mu.Lock()
	last := a.table.numbers.last
	var list []*entry
	for _, e := range a.table.jobs {
		if e.number <= number && e.waits() {
			list = append(list, e)
		}
	}
	a.table.mu.Unlock()
	if number > last {
		return &Error{InvalidArgument, fmt.Errorf("report %d cannot have arrived: the last one has number %d", number, last)}
	}
	for _, e := range list {
		a.acknowledge(e)
	}
	return nil
}

// AcknowledgeJob says that the end of a job has arrived.
func (a *Agent) AcknowledgeJob(_ context.Context, id job.ID, number uint64) error {
	a.table.mu.Lock()
	e := a.table.jobs[id]
	arrived := e != nil && e.number <= number // nil was acknowledged before
	a.table.mu.Unlock()
	if arrived {
		a.acknowledge(e)
	}
	return nil
}

// waits reports whether the end of a job waits for its acknowledgement. The caller holds the lock of the table.
func (e *entry) waits() bool { return (e.state == Ended || e.state == Reported) && !e.acked }

// acknowledge starts the removal of a finished job. It is recorded before the master gets an
// answer: the master does not repeat it, so an agent that was killed during the removal must be
// able to continue it.
func (a *Agent) acknowledge(e *entry) {
	e.do.Lock() // no other call does so meanwhile, and the directory stays
	defer e.do.Unlock()
	a.table.mu.Lock()
	waits := e.waits()
	a.table.mu.Unlock()
	if !waits {
		return
	}
	// It is not synced: after a power loss, and if both processes of a daemon are killed, the end is reported again (see
	// restate). On a full disk the removal of the job frees space.
	end := a.disk.begin("writing the acknowledgement of job " + e.id.String())
	err := e.run.MarkSoon(fileEnded, fileAcked)
	end()
	if err != nil {
		a.log.Warn("an acknowledgement was not noted", "job", e.id.String(), "error", err)
	}
	failpoint.At("agent-acknowledgement-noted")
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	e.acked = true
	e.poke()
}

// look reads the usage of running jobs at each report interval, if no load reports set the pace.
func (a *Agent) look(ctx context.Context) {
	if a.options.Load != nil {
		return
	}
	for {
		timer := a.clock.NewTimer(loadsensor.DefaultInterval)
		select {
		case <-timer.C():
			a.lookAtUsage()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (a *Agent) lookAtUsage() {
	a.reaper.Look() // once per report suffices
	var changed []*entry
	written, doubtful := a.unread()
	for i, e := range append(written, doubtful...) {
		if a.readUsage(e, i < len(written)) {
			changed = append(changed, e)
		}
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	reserved := a.executionParams().SharetreeReservedUsage // which grows with the time
	for _, e := range a.table.jobs {
		switch {
		case e.record.Simulated > 0 && e.state.Live():
			e.usage = e.simulatedUsage(a.clock.Now())
		case !reserved || !e.supervised() || e.usage.At.IsZero():
			continue
		}
		changed = append(changed, e)
	}
	a.table.hasUsed(changed)
}

// supervised reports whether a job runs with a supervisor, which writes its usage. The caller
// holds the lock of the table.
func (e *entry) supervised() bool {
	return (e.state == Running || e.state == Suspended) && !e.record.hosted()
}

// unread returns the running jobs whose usage was written since it was last read, and the jobs for
// which that is unknown.
func (a *Agent) unread() (written, doubtful []*entry) {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.noteWritten()
	for _, e := range a.table.jobs {
		switch {
		case !e.supervised():
			continue
		case !e.watched:
			// Under the lock: as long as the job runs its directory is open.
			e.watched = a.table.online.add(e)
			doubtful = append(doubtful, e)
		case e.unread:
			written = append(written, e)
		}
		e.unread = false
	}
	return written, doubtful
}

// noteWritten finds out which jobs that are watched are unread. The caller holds the lock of the table.
func (a *Agent) noteWritten() {
	if all := a.table.online.written(func(e *entry) { e.unread = true }); all {
		return
	}
	for _, e := range a.table.jobs {
		e.unread = true
	}
}

// readUsage reads the usage of a job, and reports whether it has changed. If written is true, it
// need not check whether the file has changed.
func (a *Agent) readUsage(e *entry, written bool) (changed bool) {
	var usage *jobdir.Online
	var err error
	a.table.mu.Lock()
	version := e.usageFile
	a.table.mu.Unlock()
	if written {
		usage, err = e.run.Dir.Online()
	} else {
		usage, version, err = e.readOnline(version)
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	if err != nil {
		e.unread = true
	}
	if usage == nil {
		return false
	}
	if e.usageFile = version; e.state.Live() && *usage != e.usage {
		e.usage, e.usageSeen = *usage, a.clock.Now()
		changed = true
	}
	return changed
}

// readOnline reads the usage of a job that the supervisor has written, and its version. It returns
// nil if the version is seen, or with an error if the file cannot be read. It is for jobs without a
// watch, which is cheaper.
func (e *entry) readOnline(seen jobdir.Version) (*jobdir.Online, jobdir.Version, error) {
	// If the supervisor writes between the two, the version is too old, and the same usage is read
	// again.
	version, err := e.run.Dir.Version(jobdir.FileOnline)
	if err != nil || version == seen {
		return nil, seen, err
	}
	usage, err := e.run.Dir.Online()
	if err != nil {
		return nil, seen, err
	}
	return usage, version, nil
}
