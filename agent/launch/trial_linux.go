package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/qconf"
)

// trialName replaces the job number in the names of a trial's files.
const trialName = "trial"

// trialPatience bounds how long a supervisor may take that finds no job in its directory.
const trialPatience = 20 * time.Second

// Try tests everything that the start of a job needs on this host: the paths of the spool area are
// correct, a control group and a directory can be made, and the supervisor can be started there and
// writes something. It leaves nothing behind. Users cannot make it fail.
//
// It starts the supervisor usual, which finds no job in its directory, records that and ends. It
// does not run the site's shepherd_cmd, which may have side effects, but only checks that it is
// executable.
func Try(ctx context.Context, spool *jobdir.Spool, groups *Groups, config *qconf.Configuration, usual string) error {
	if _, err := ShepherdFor(config, usual); err != nil {
		return err
	}
	if err := spool.Check(); err != nil {
		return err
	}
	if err := groups.try(); err != nil {
		return err
	}
	dir, err := spool.BeginTrial()
	if err != nil {
		return err
	}
	err = trySupervisor(ctx, dir, groups, usual)
	return errors.Join(err, dir.Close(), spool.RemoveTrial())
}

// try makes a control group, and removes it.
func (g *Groups) try() error {
	limits := cgroup.Limits{Counted: true, CPUCounted: true}
	if g == nil || !g.manager.Wanted(limits) {
		return nil
	}
	if left, err := g.manager.Load(trialName); err == nil {
		if err := left.Remove(groupPatience); err != nil {
			return err
		}
	}
	made, err := g.manager.Create(trialName, limits)
	if _, ok := errors.AsType[*group.NotSupportedError](err); ok {
		return nil
	}
	if err != nil {
		return err
	}
	return made.Remove(groupPatience)
}

// trySupervisor starts a supervisor in a directory without a job, waits for its end, and checks
// that it has written something there.
func trySupervisor(ctx context.Context, dir *jobdir.Dir, groups *Groups, shepherd string) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	s, err := groups.startSupervisor(shepherd, trialName, dir.Path(), []*os.File{null, null, null})
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(ctx, trialPatience)
	defer cancel()
	status, err := s.wait(ctx)
	if err != nil {
		// It was not reaped, so the number is still its own.
		_ = unix.Kill(-s.pid, unix.SIGKILL)
		killed, cancel := context.WithTimeout(context.Background(), groupPatience)
		defer cancel()
		_, _ = s.wait(killed)
		return fmt.Errorf("cannot start the supervisor of jobs %q: it did not exit within %s without a job", shepherd, trialPatience)
	}
	begun, err := hasBegun(dir)
	if err == nil && !begun {
		err = fmt.Errorf("cannot start the supervisor of jobs %q: it has %s before it wrote anything", shepherd, Ended(status))
	}
	return err
}

// Ended describes the end of a supervisor as Job.Wait does, e.g. "died through signal 9".
func Ended(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("died through signal %d", int(status.Signal()))
	}
	return fmt.Sprintf("ended with status %d", status.ExitStatus())
}
