package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/clock"
)

// starts records whether starts of supervisors succeed on this host. A host on which they fail
// would take one job after another from the cluster and lose it.
//
// Only failures that no user can cause count: a supervisor could not be started, or ended before it
// had written anything. A fault that a supervisor finds in a job is a failure of the job. While a
// goroutine holds the lock of starts, it takes no other lock.
type starts struct {
	mu     sync.Mutex
	doubt  bool          // the last start has failed: the next one needs a trial before it
	failed int           // number of starts that have failed in a row
	out    error         // why the host is out of service; nil while it is in service
	pause  time.Duration // before the last trial of a host out of service
}

// whyOut returns the reason why the host is out of service, or nil.
func (s *starts) whyOut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

// needTrial reports whether the next start needs a trial before it, or why the host is out of
// service.
func (s *starts) needTrial() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubt && s.out == nil, s.out
}

// distrust makes the next start need a trial before it.
func (s *starts) distrust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt = true
}

// fail records that a start has failed, and returns the number of starts that have failed in a row.
func (s *starts) fail() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt = true
	s.failed++
	return s.failed
}

// succeed records that a start was successful. It reports whether the previous start had failed.
func (s *starts) succeed() (doubted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doubted = s.doubt
	if s.out == nil {
		s.doubt, s.failed, s.pause = false, 0, 0
	}
	return doubted
}

// takeOut takes the host out of service, and returns the pause before the first trial. ok is false
// if it was out of service before.
func (s *starts) takeOut(why error) (pause time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil {
		return 0, false
	}
	s.out, s.doubt = why, true
	s.pause = min(max(2*s.pause, firstPause), maxPauseByStarts)
	return s.pause, true
}

// tried records the result of a trial: nil brings the host back into service.
func (s *starts) tried(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out = err; err != nil {
		s.pause = max(s.pause, min(2*s.pause, maxPauseByTrials))
	}
}

// untilTrial returns the pause before the next trial.
func (s *starts) untilTrial() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause
}

const (
	// mostFailed is the number of starts that may fail in a row, each after a successful trial.
	mostFailed = 3
	// A host out of service is tried again after a pause. The pause grows with each trial that
	// fails, up to maxPauseByTrials. It also grows each time that starts fail after a successful trial,
	// up to maxPauseByStarts, until a start has been successful.
	firstPause       = time.Second
	maxPauseByTrials = 30 * time.Second
	maxPauseByStarts = 5 * time.Minute
)

// troubleStarts is the name under which the agent reports that starts fail.
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
	// Concurrent starts wait here: after the trial of the first, the others may need none.
	a.trying.Lock()
	defer a.trying.Unlock()
	if need, out := a.starts.needTrial(); !need {
		return out
	}
	err := a.try()
	if err != nil {
		a.takeOut(err)
	}
	return err
}

// try tests everything that a start needs. The caller holds trying.
func (a *Agent) try() error {
	cluster, groups := a.settings.current()
	return a.launcher.Try(a.context, groups, cluster.Config(a.options.Host))
}

// doubtStarts makes the agent test a start before it takes the next job: something could not be
// created for a job, perhaps because of its user.
func (a *Agent) doubtStarts() { a.starts.distrust() }

// startFailed notes that a supervisor could not be started.
func (a *Agent) startFailed(err error) {
	a.trouble(troubleStarts, err)
	if n := a.starts.fail(); n >= mostFailed {
		a.takeOut(fmt.Errorf("%d starts in a row have failed, the last one: %w", n, err))
	}
}

// startWorked notes that a supervisor has begun.
func (a *Agent) startWorked() {
	if a.starts.succeed() {
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
	if a.context.Err() != nil {
		return
	}
	pause, ok := a.starts.takeOut(why)
	if !ok {
		return
	}
	a.log.Error("the host is out of service: it takes no jobs until a trial succeeds", "reason", why, "next trial in", pause.String())
	a.noteService()
	a.spawn(a.comeBack)
}

// comeBack repeats the trial of a host that is out of service until it succeeds.
func (a *Agent) comeBack(ctx context.Context) {
	for {
		if !clock.Wait(ctx, a.clock, a.starts.untilTrial()) {
			return
		}
		a.trying.Lock()
		err := a.try()
		a.trying.Unlock()
		if ctx.Err() != nil {
			return
		}
		a.trouble(troubleStarts, err) // first: once the host is in service again, the next start may fail
		if a.starts.tried(err); err == nil {
			a.log.Info("the host is in service again: a trial succeeded")
		}
		a.noteService()
		if err == nil {
			return
		}
	}
}

// noteService reports the reason why the host takes no jobs, if it has changed.
func (a *Agent) noteService() {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	why := a.outOfService()
	if a.table.service.Number != 0 && why == a.table.service.Draining {
		return
	}
	a.table.service = ServiceReport{Number: a.table.numbers.next(), Draining: why}
	a.table.changes()
}

// errOut returns the error of an order that a host out of service does not carry out.
func errOut(why string) error {
	return &Error{Unavailable, errors.New("the host takes no jobs: " + why)}
}
