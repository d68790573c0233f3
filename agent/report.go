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
		a.mu.Lock()
		b := a.batch(after)
		changed, last := a.changed, a.numbers.last
		a.mu.Unlock()
		if b.Number > after {
			return b, nil
		}
		if after > last { // a master that has outlived the spool area would wait for ever
			return b, &Error{InvalidArgument, fmt.Errorf(
				"there was no report %d yet, the last one has number %d: what is known is of another spool area, begin with 0", after, last)}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{Number: after}, &Error{Unavailable, ctx.Err()}
		}
	}
}

// batch returns the reports after a sequence number. The caller holds mu.
func (a *Agent) batch(after uint64) Batch {
	b := Batch{Number: after}
	limit := a.numbers.limit()
	for _, e := range a.table {
		// One that has changed keeps the number of that, though it has used something
		// since: else who has taken less than all would never see more than the usage.
		number, used := e.number, false
		if number <= after && e.state.Live() {
			number, used = e.used, true
		}
		if number <= after || number > limit || e.state == Received || e.acked {
			continue
		}
		if e.state == Ended {
			a.set(e, Reported)
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
	if n := a.service.Number; n > after && n <= limit {
		service := a.service
		b.Service = &service
		b.Number = max(b.Number, n)
	}
	if a.versionNumber > after && a.versionNumber <= limit {
		b.Configuration, b.ConfigurationNumber = a.version, a.versionNumber
		b.Number = max(b.Number, a.versionNumber)
	}
	return b
}

// Acknowledge says that all reports up to a number have arrived.
func (a *Agent) Acknowledge(_ context.Context, number uint64) error {
	a.mu.Lock()
	last := a.numbers.last
	var list []*entry
	for _, e := range a.table {
		if e.number <= number && e.waits() {
			list = append(list, e)
		}
	}
	a.mu.Unlock()
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
	a.mu.Lock()
	e := a.table[id]
	arrived := e != nil && e.number <= number // nil was acknowledged before
	a.mu.Unlock()
	if arrived {
		a.acknowledge(e)
	}
	return nil
}

// waits reports whether the end of a job waits for its acknowledgement. mu is held.
func (e *entry) waits() bool { return (e.state == Ended || e.state == Reported) && !e.acked }

// acknowledge has a job that has ended removed. It is noted before the master hears that
// it is: an agent that is killed before all of the job is removed goes on with that, as
// the master will not say it again.
func (a *Agent) acknowledge(e *entry) {
	e.do.Lock() // nobody else does so meanwhile, and the directory stays
	defer e.do.Unlock()
	a.mu.Lock()
	waits := e.waits()
	a.mu.Unlock()
	if !waits {
		return
	}
	// Not synced: where the power goes, the end is told again (see restate). Without
	// room on the disk there will be some when the job is removed.
	end := a.disk.begin("writing the acknowledgement of job " + e.id.String())
	err := mark(e.run.Files(), fileAcked)
	end()
	if err != nil {
		a.log.Warn("an acknowledgement was not noted", "job", e.id.String(), "error", err)
	}
	failpoint.At("agent-acknowledgement-noted")
	a.mu.Lock()
	defer a.mu.Unlock()
	e.acked = true
	e.poke()
}

// look reads what running jobs have used, each report time, where no report of load
// values sets the pace.
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
	a.reaper.Look() // as often as there is something to report is often enough
	var changed []*entry
	written, doubtful := a.unread()
	for i, e := range append(written, doubtful...) {
		if a.readUsage(e, i < len(written)) {
			changed = append(changed, e)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	reserved := a.executionParams().SharetreeReservedUsage // which grows with the time
	for _, e := range a.table {
		switch {
		case e.record.Simulated > 0 && e.state.Live():
			e.usage = e.simulatedUsage(a.clock.Now())
		case !reserved || !e.supervised() || e.usage.At.IsZero():
			continue
		}
		changed = append(changed, e)
	}
	a.hasUsed(changed)
}

// supervised reports whether a job runs, with a supervisor who writes what it uses. mu is
// held.
func (e *entry) supervised() bool {
	return (e.state == Running || e.state == Suspended) && !e.record.hosted()
}

// unread returns the running jobs whose usage has been written since it was read, and those of
// which that is not known.
func (a *Agent) unread() (written, doubtful []*entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noteWritten()
	for _, e := range a.table {
		switch {
		case !e.supervised():
			continue
		case !e.watched:
			// Under mu: as long as the job runs its directory is open.
			e.watched = a.online.add(e)
			doubtful = append(doubtful, e)
		case e.unread:
			written = append(written, e)
		}
		e.unread = false
	}
	return written, doubtful
}

// noteWritten finds out which jobs that are watched are unread. mu is held.
func (a *Agent) noteWritten() {
	if all := a.online.written(func(e *entry) { e.unread = true }); all {
		return
	}
	for _, e := range a.table {
		e.unread = true
	}
}

// readUsage reads what a job has used, and reports whether that is something new. Of what
// is known to have been written it need not be asked whether it has.
func (a *Agent) readUsage(e *entry, written bool) (changed bool) {
	var usage *jobdir.Online
	var err error
	a.mu.Lock()
	version := e.usageFile
	a.mu.Unlock()
	if written {
		usage, err = e.run.Dir.Online()
	} else {
		usage, version, err = e.readOnline(version)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
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

// readOnline reads what the supervisor has written of the usage of a job, unless that is
// what was seen before; and returns which version it is. nil is for nothing new, or, with an
// error, for nothing that could be read. It is for those that are not watched: what the
// kernel has noted costs less.
func (e *entry) readOnline(seen jobdir.Version) (*jobdir.Online, jobdir.Version, error) {
	// Where somebody writes between the two, the version is too old, and the same is read
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
