package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/execd-project/execd/agent/launch"
)

// starting records whether starts of supervisors succeed on this host. A host on which they fail
// would take one job after another from the cluster and lose it.
//
// Only failures count that no user can cause: a supervisor that could not be started, or that ended
// before it had written anything. An error that a supervisor finds in a job is the job's failure.
// Agent.mu protects all fields.
type starting struct {
	doubt  bool          // the last start has failed: the next one needs a trial before it
	failed int           // how many starts have failed in a row
	out    error         // why the host is out of service; nil while it is not
	pause  time.Duration // before the last trial of a host out of service
}

const (
	// mostFailed is how many starts may fail in a row, each of them after a good trial.
	mostFailed = 3
	// A host out of service is tried again after a pause. It grows with each trial that
	// fails, up to oftenest, and with each time that starts have failed after a good one, up
	// to seldomest, until a start has been successful.
	firstPause = time.Second
	oftenest   = 30 * time.Second
	seldomest  = 5 * time.Minute
)

// troubleStarts is the name of the problem if starts fail.
const troubleStarts = "starting supervisors"

// mayStart returns an error if no job can be started on this host. For each start it checks that
// the directories are still in place; after a failed start it tests everything else. An error
// concerns the whole host and takes it out of service. supervised is false for a job without a
// supervisor.
func (a *Agent) mayStart(supervised bool) error {
	if err := a.launcher.Check(); err != nil {
		a.takeOut(err)
		return err
	}
	if !supervised {
		return nil
	}
	// One after the other: of several the first says whether the others need a trial.
	a.trying.Lock()
	defer a.trying.Unlock()
	a.mu.Lock()
	doubt, out := a.starting.doubt, a.starting.out
	a.mu.Unlock()
	if out != nil || !doubt {
		return out
	}
	err := a.try()
	if err != nil {
		a.takeOut(err)
	}
	return err
}

// try tries all that a start needs. trying is held.
func (a *Agent) try() error {
	a.mu.Lock()
	config, groups := a.cluster.Config(a.options.Host), a.groups
	a.mu.Unlock()
	return a.launcher.Try(a.context, groups, config)
}

// doubtStarts makes the agent test a start before it takes the next job: something could not be
// created for a job, perhaps because of its user.
func (a *Agent) doubtStarts() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starting.doubt = true
}

// startFailed notes that a supervisor could not be started.
func (a *Agent) startFailed(err error) {
	a.trouble(troubleStarts, err)
	a.mu.Lock()
	s := &a.starting
	s.doubt = true
	s.failed++
	n := s.failed
	a.mu.Unlock()
	if n >= mostFailed {
		a.takeOut(fmt.Errorf("%d starts in a row have failed, the last one: %w", n, err))
	}
}

// startWorked notes that a supervisor has begun.
func (a *Agent) startWorked() {
	a.mu.Lock()
	doubt := a.starting.doubt
	if a.starting.out == nil {
		a.starting = starting{}
	}
	a.mu.Unlock()
	if doubt {
		a.trouble(troubleStarts, nil)
	}
}

// noteStart records whether the start of a supervisor that has ended succeeded.
func (a *Agent) noteStart(e *entry, status syscall.WaitStatus) {
	switch begun, err := e.run.Begun(); {
	case err != nil:
		a.doubtStarts()
	case begun:
		a.startWorked()
	default:
		a.startFailed(fmt.Errorf("the supervisor of job %s %s before it wrote anything", e.id, launch.Ended(status)))
	}
}

// takeOut takes the host out of service until a trial is successful.
func (a *Agent) takeOut(why error) {
	a.trouble(troubleStarts, why)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.starting
	if s.out != nil || a.context.Err() != nil {
		return
	}
	s.out, s.doubt = why, true
	s.pause = min(max(2*s.pause, firstPause), seldomest)
	a.log.Error("the host is out of service: it takes no jobs until a trial succeeds", "reason", why, "next trial in", s.pause.String())
	a.noteService()
	a.spawn(a.comeBack)
}

// comeBack tries again and again whether jobs can be started, until they can.
func (a *Agent) comeBack(ctx context.Context) {
	for {
		a.mu.Lock()
		pause := a.starting.pause
		a.mu.Unlock()
		if !a.pause(ctx, pause) {
			return
		}
		a.trying.Lock()
		err := a.try()
		a.trying.Unlock()
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		s := &a.starting
		if s.out = err; err != nil {
			s.pause = max(s.pause, min(2*s.pause, oftenest))
		} else {
			a.log.Info("the host is in service again: a trial succeeded")
		}
		a.noteService()
		a.mu.Unlock()
		if a.trouble(troubleStarts, err); err == nil {
			return
		}
	}
}

// noteService has it reported when the reason for which the host takes no jobs has changed.
// mu is held.
func (a *Agent) noteService() {
	why := a.outOfService()
	if a.service.Number != 0 && why == a.service.Draining {
		return
	}
	a.service = ServiceReport{Number: a.numbers.next(), Draining: why}
	a.changes()
}

// errOut returns the error of an order that a host out of service does not carry out.
func errOut(why string) error { return &Error{Unavailable, errors.New("no jobs are taken: " + why)} }
