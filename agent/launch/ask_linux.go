package launch

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/process"
)

// ErrNotRunning is returned for a job that does not run: it has not begun, or has finished.
var ErrNotRunning = errors.New("the job does not run")

// Terminate asks the shepherd to end the job, as qdel does.
func (j *Job) Terminate() error { return j.ask(SignalTerminate, unix.SIGTSTP, 0) }

// Migrates reports whether the job is checkpointed and ended instead of being
// suspended (checkpoint(5), when).
func (j *Job) Migrates() bool {
	c := j.Description.Ckpt
	return c != nil && strings.Contains(c.When, "x")
}

// Migrate asks the shepherd to checkpoint the job and to end it, so that it can continue on another
// host.
func (j *Job) Migrate() error { return j.ask(SignalMigrate, unix.SIGTTOU, 0) }

// Suspend asks the shepherd to suspend the job, as qmod -sj does.
func (j *Job) Suspend() error {
	if j.Migrates() {
		return j.Migrate()
	}
	return j.ask(SignalSuspend, unix.SIGTTIN, unix.SIGSTOP)
}

// Resume asks the shepherd to resume the job, as qmod -usj does.
func (j *Job) Resume() error {
	// A shepherd that has received an earlier request to suspend the job but not handled it yet may handle it after this one: it
	// does not know the order. It then reads that the job is to be resumed.
	if j.remote == nil {
		if n, err := j.Dir.ReadNumber(jobdir.FileSignal); err == nil && n == int(unix.SIGSTOP) {
			return j.ask(SignalResume, unix.SIGCONT, unix.SIGCONT)
		}
	}
	return j.ask(SignalResume, unix.SIGCONT, 0)
}

// Notify asks the shepherd to deliver a signal to the job, such as SIGUSR1 and SIGUSR2, which
// announce a suspension and the end (sge_submit(1), -notify). A signal that has not been delivered
// yet, except SIGUSR1 and SIGXCPU, is replaced by a later signal or by a suspension.
func (j *Job) Notify(sig syscall.Signal) error {
	switch sig {
	case unix.SIGUSR1:
		return j.ask(SignalUsr1, unix.SIGUSR1, 0)
	case unix.SIGXCPU:
		return j.ask("", unix.SIGUSR2, 0)
	}
	if sig == unix.SIGUSR2 {
		return j.ask(SignalUsr2, unix.SIGTTIN, sig)
	}
	return j.ask("", unix.SIGTTIN, sig)
}

// ask sends the shepherd a signal that it treats as an order. deliver is the signal that SIGTTIN
// stands for. name is the order for another process that owns the shepherd; it is empty if the
// order only works within this process.
func (j *Job) ask(name Signal, order, deliver syscall.Signal) error {
	if j.remote != nil {
		return j.remote.Signal(j.Description.ID, name)
	}
	s, err := j.supervisor()
	if err != nil || s == nil {
		return err
	}
	if deliver != 0 {
		if err := j.Dir.WriteNumber(jobdir.FileSignal, int(deliver)); err != nil {
			return err
		}
	}
	if err := s.signal(order); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// supervisor returns the supervisor of the job, or nil if it no longer runs.
func (j *Job) supervisor() (*supervisor, error) {
	j.mu.Lock()
	s, over := j.shepherd, j.over
	j.mu.Unlock()
	switch {
	case over:
		return nil, nil //nolint:nilnil // there is no supervisor
	case s == nil:
		return nil, errNotLaunched
	case s.pid == 0 && !j.findShepherd():
		return nil, errors.New("cannot reach the supervisor of the job: it has not yet written its process ID")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.shepherd, nil
}

// Kill ends the job at once, without notification and terminate method. The steps after the job
// still run, and its usage is recorded. Kill returns false if the job has not started yet or has
// ended.
func (j *Job) Kill() bool {
	if j.remote != nil {
		return j.remote.Signal(j.Description.ID, SignalKill) == nil
	}
	return j.withProcess(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }) == nil
}

// Running reports whether the job itself runs, not one of the steps around it.
func (j *Job) Running() bool {
	return j.withProcess(func(int) error { return nil }) == nil
}

// withProcess calls f with a descriptor of the first process of the job, if
// that is running.
func (j *Job) withProcess(f func(pidfd int) error) error {
	s, err := j.supervisor()
	if err != nil {
		return err
	}
	if s == nil {
		return unix.ESRCH
	}
	pid, err := j.Dir.ReadNumber(jobdir.FileJobPID)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The process ID may have been reused. The process of the descriptor is the job if it is a
	// child of the shepherd, and the shepherd still exists.
	if !slices.Contains(process.Children(s.pid), pid) || s.signal(0) != nil {
		return unix.ESRCH
	}
	return f(fd)
}

// Destroy kills the shepherd and every process of the job.
func (j *Job) Destroy() {
	if s, err := j.supervisor(); err == nil && s != nil {
		_ = s.signal(unix.SIGKILL)
	}
}
