package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// Start accepts a job. See Commands.
func (a *Agent) Start(ctx context.Context, s *Start) (JobReport, error) {
	s = s.clone()
	if err := s.check(); err != nil {
		return JobReport{}, &Error{InvalidArgument, err}
	}
	var e *entry
	var first bool
	var report JobReport
	err := a.journal.raise(s.Epoch)
	if err == nil {
		e, first, report, err = a.receive(s)
	}
	if err != nil {
		a.refused(s.ID, err)
		return report, err
	}
	if e == nil {
		return report, nil
	}
	if first {
		a.accept(e, s)
	}
	return a.accepted(ctx, e)
}

// mostKey is the maximum length of a start's key, in bytes: the agent remembers mostFinished keys,
// and users choose the keys of their jobs' tasks.
const mostKey = 1 << 10

func (a *Agent) refused(id job.ID, err error) {
	code := Internal
	if e, ok := errors.AsType[*Error](err); ok {
		code = e.Code
	}
	a.options.Observer.Refused(code)
	switch omitted, log := a.refusals.note(id, err.Error(), a.clock.Now()); {
	case !log:
		a.log.Debug("a job was refused again", "job", id.String(), "code", string(code), "error", err)
	case omitted > 0:
		a.log.Warn("a job was refused", "job", id.String(), "code", string(code), "error", err, "not logged before", omitted)
	default:
		a.log.Warn("a job was refused", "job", id.String(), "code", string(code), "error", err)
	}
}

// accepted waits until a start has been accepted or refused by the call that received it first.
func (a *Agent) accepted(ctx context.Context, e *entry) (JobReport, error) {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return JobReport{}, &Error{Unavailable, ctx.Err()}
	}
	if e.failed != nil {
		return JobReport{}, e.failed
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	return a.report(e), nil
}

// clone returns a copy of a start, so that missing values can be filled in without changing the
// caller's.
func (s *Start) clone() *Start {
	c := *s
	return &c
}

// check refuses starts that are invalid on any host, and fills in optional values.
func (s *Start) check() error {
	switch {
	case s.ID.Job < 1 || s.ID.Task < 0:
		return fmt.Errorf("invalid job ID %d.%d: the job number must be at least 1, and the task number at least 0", s.ID.Job, s.ID.Task)
	case s.ID.PETask != "":
		return fmt.Errorf("job %s: a task of a parallel job is started with StartTask", s.ID)
	case s.Request == nil:
		return fmt.Errorf("job %s: the job has no command and no script", s.ID)
	case s.Owner == "":
		return fmt.Errorf("job %s has no owner", s.ID)
	case len(s.Grants) == 0:
		return fmt.Errorf("job %s was granted no queue instance", s.ID)
	case s.Interactive != nil && s.Slave:
		return fmt.Errorf("job %s is interactive: its master task cannot be on another host", s.ID)
	case s.Interactive != nil && s.Request.Array != nil:
		return fmt.Errorf("job %s is interactive: it cannot be an array job", s.ID)
	case len(s.Key) > mostKey:
		return fmt.Errorf("job %s: the key has %d bytes, at most %d are possible", s.ID, len(s.Key), mostKey)
	case strings.ContainsAny(s.Key, "\n\x00"):
		return fmt.Errorf("job %s: key %q, expected one line", s.ID, s.Key)
	}
	for _, g := range s.Grants {
		if g.Slots < 1 || g.Queue == "" || g.Host == "" {
			return fmt.Errorf("job %s was granted %d slots of %s@%s, expected a queue instance and at least one slot", s.ID, g.Slots, g.Queue, g.Host)
		}
	}
	if s.Key == "" {
		s.Key = s.ID.String()
	}
	return nil
}

// receive adds a new start to the table and books its slots, or finds the job of an earlier start
// with the same key. first is true for a new start. If receive returns neither an entry nor an error,
// report describes a job whose end was acknowledged already.
func (a *Agent) receive(s *Start) (e *entry, first bool, report JobReport, err error) {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	if err := a.journal.checkStart(s.Epoch); err != nil {
		return nil, false, report, err // since it was raised
	}
	if e := a.table.keys[s.Key]; e != nil {
		if e.id != s.ID {
			return nil, false, report, &Error{AlreadyExists, fmt.Errorf("job %s has the key %q", e.id, s.Key)}
		}
		return e, false, report, nil
	}
	if a.finished.has(s.Key) {
		return nil, false, JobReport{ID: s.ID, Key: s.Key, State: Acknowledged, Owner: s.Owner}, nil
	}
	if e := a.table.jobs[s.ID]; e != nil {
		return nil, false, report, &Error{AlreadyExists, fmt.Errorf(
			"job %s exists from another start (key %q) and is %s: acknowledge its end first", s.ID, e.record.Key, e.state)}
	}
	if why := a.whyNoJobs(); why != "" {
		return nil, false, report, errOut(why)
	}
	record, err := a.recordOf(s)
	if err != nil {
		return nil, false, report, &Error{InvalidArgument, err}
	}
	booking := a.booking(s)
	if err := a.admit(s, booking, true); err != nil {
		return nil, false, report, err
	}
	if s.Order == nil {
		record.Booking = booking
	}
	e = newEntry(s.ID, record)
	a.table.insert(e)
	return e, true, report, nil
}

// Admit reports whether a start would be accepted now.
func (a *Agent) Admit(_ context.Context, s *Start) error {
	s = s.clone()
	if err := s.check(); err != nil {
		return &Error{InvalidArgument, err}
	}
	a.table.mu.Lock()
	why := a.whyNoJobs()
	err := a.admit(s, a.booking(s), false)
	a.table.mu.Unlock()
	if why != "" {
		return errOut(why)
	}
	if err != nil {
		return err
	}
	// Some errors show only when the job is described.
	order, err := a.assignment(s)
	if err == nil {
		_, err = order.Describe(s.ID, a.area(), "")
	}
	return orderError(err)
}

// orderError adds the code to an error of an order. A failed lookup of a user is a temporary error.
func orderError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoUsers):
		return &Error{Unavailable, err}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{InvalidArgument, err}
}

// accept writes the directory of a received job to the disk, and then starts the goroutine that
// supervises the job.
func (a *Agent) accept(e *entry, s *Start) {
	run, err := a.prepare(e, s)
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	defer close(e.ready)
	if err != nil {
		a.refused(e.id, err)
		e.failed = err
		a.table.release(e)
		a.table.drop(e)
		return
	}
	e.run = run
	a.table.set(e, Accepted)
	a.options.Observer.Started()
	a.supervise(e)
}

// prepare makes the files of a job: its directory, script and tmpdir.
func (a *Agent) prepare(e *entry, s *Start) (*launch.Job, error) {
	a.preparing <- struct{}{}
	defer func() { <-a.preparing }()
	order, err := a.assignment(s)
	if err == nil {
		err = order.CheckOwner()
	}
	if err != nil {
		err = orderError(err)
		a.noteRoom(err)
		return nil, err
	}
	if order.Record, err = marshal(e.record); err != nil {
		return nil, &Error{Internal, err}
	}
	if err := a.mayStart(!e.record.hosted()); err != nil {
		return nil, errOut(err.Error())
	}
	defer a.disk.begin("making the directory of job " + e.id.String())()
	if err := a.discardRest(e); err != nil {
		a.doubtStarts()
		return nil, roomError(err)
	}
	run, err := a.prepareFiles(order, e)
	if err != nil && !e.record.hosted() {
		a.removeScript(e)
	}
	if err == nil && s.Interactive != nil && s.Interactive.Awaited {
		if err = run.Files().WriteFile(fileClient, nil); err != nil {
			err = errors.Join(err, run.Dir.Close())
			a.removeScript(e)
		} else {
			e.seat.expect(true)
		}
	}
	if err != nil && !errors.Is(err, jobdir.ErrExists) {
		a.noteRest(e)
	}
	if few, ok := errors.AsType[*launch.GPUError](err); ok {
		return nil, &Error{ResourceExhausted, few}
	}
	if none, ok := errors.AsType[*launch.ScratchError](err); ok {
		return nil, &Error{ResourceExhausted, none}
	}
	if wrong, ok := errors.AsType[*launch.OrderError](err); ok {
		return nil, orderError(wrong)
	}
	if err != nil {
		if !errors.Is(err, jobdir.ErrExists) {
			a.doubtStarts()
		}
		err = roomError(err)
		a.noteRoom(err)
		return nil, err
	}
	a.trouble(troubleRoom, nil)
	return run, nil
}

// prepareFiles writes the files of a job, and its script if no other task of the job has done so.
func (a *Agent) prepareFiles(order *launch.Assignment, e *entry) (*launch.Job, error) {
	lock := a.scripts.forJob(e.id.Job)
	lock.RLock()
	defer lock.RUnlock()
	return a.launcher.Prepare(order, e.id, e.record.hosted())
}

// troubleRoom is the name of the problem if the host has no space for jobs.
const troubleRoom = "job directories"

// noteRoom notes in the agent's health that the host has no room, if an error says so.
func (a *Agent) noteRoom(err error) {
	if coded, ok := errors.AsType[*Error](err); ok && coded.Code == ResourceExhausted {
		a.trouble(troubleRoom, coded.Err)
	}
}

// noteRest records that a refused job may have left files: an agent without descriptors or disk
// space for a directory may be unable to remove it.
func (a *Agent) noteRest(e *entry) {
	if _, err := os.Lstat(a.area().JobPath(e.id)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	a.table.noteRest(e.id, true)
}

// discardRest removes the remains of an earlier, refused start of a job.
func (a *Agent) discardRest(e *entry) error {
	if !a.table.hasRest(e.id) {
		return nil
	}
	_, groups := a.settings.current()
	if err := a.launcher.Discard(groups, e.id); err != nil {
		return err
	}
	a.table.noteRest(e.id, false)
	return nil
}

// removeScript removes the script of a job, which its tasks share, unless another task still
// exists.
func (a *Agent) removeScript(e *entry) {
	if e.id.PETask != "" {
		return
	}
	lock := a.scripts.forJob(e.id.Job)
	lock.Lock() // no task stores the script between the two steps
	defer lock.Unlock()
	if a.table.releaseScript(e) {
		return
	}
	defer a.disk.begin("removing the script of job " + e.id.String())()
	if err := a.launcher.RemoveScript(e.id.Job); err != nil {
		a.log.Warn("cannot remove the script of a job", "job", e.id.String(), "error", err)
	}
}

var errOwner = errors.New("only root can run jobs of other users")

// mayRunAs reports whether an agent of a user can run jobs of another one.
func mayRunAs(uid int, owner *userdb.User) bool { return uid == 0 || uid == int(owner.UID) }

// outcomeUnstarted returns the outcome of a job that was ended before it began.
func outcomeUnstarted(id job.ID, failed job.Failed, reason string) *job.Outcome {
	f := job.FailureOf(failed)
	return &job.Outcome{ID: id, Failed: failed, FailedText: f.Text, Class: f.Class, Effect: f.Effect, Reason: reason}
}
