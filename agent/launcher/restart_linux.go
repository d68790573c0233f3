package launcher

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/limits/process"
	"github.com/execd-project/execd/qconf"
)

// ErrRestart says that the launcher has to be started again, because root has changed what it needs when it starts. The
// front continues until it has seen what the next launcher was started with.
var ErrRestart = errors.New("the configuration of the launcher has changed")

// Restart ends Run with ErrRestart.
func (s *Server) Restart() {
	select {
	case s.Restarts <- struct{}{}:
	default: // it ends already
	}
}

// CheckStart refuses a configuration with which a launcher could not start, or not start jobs.
func (s *Server) CheckStart(c *qconf.Configuration) error {
	if _, err := launch.ShepherdFor(c, s.Shepherd); c.ShepherdCmd != "" && err != nil {
		return err
	}
	groups, err := launch.OpenGroupsFor(s.Spool, c, false)
	if err == nil && groups != nil {
		groups.Close()
	}
	return err
}

// reap collects dead children for which nobody waits. The previous launcher, which was this process before ErrRestart, has
// started them. They are fronts, and supervisors that have ended meanwhile.
func (s *Server) reap(stop <-chan struct{}) {
	if len(process.Children(os.Getpid())) == 0 {
		return
	}
	go func() {
		const often, pause = 12, 10 * time.Second // until the front has opened all jobs
		r := launch.Reaper{Executed: true}
		again := time.NewTicker(pause)
		defer again.Stop()
		for range often {
			r.Look()
			select {
			case <-again.C:
			case <-stop:
				return
			}
		}
	}()
}

// EndFronts ends the fronts that are children of this process, without waiting for their end.
func (s *Server) EndFronts() {
	for _, pid := range process.Children(os.Getpid()) {
		var st unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(pid), &st) == nil && st.Uid == s.Rules.FrontUID {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}
}

// startLater makes the launcher start again when qconf has said to root that the change is made, when the front has ended, or
// after startTime.
func (c *Configuration) startLater(key string) {
	c.starting = key
	time.AfterFunc(startTime, func() { c.start(key) })
}

// startTime is how long a change may wait for the start of the launcher.
const startTime = 10 * time.Second

// startsLater reports whether the launcher has to start again for a change. c may be nil.
func (c *Configuration) startsLater() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starting != ""
}

// start has the launcher start again, if a change with this key needs it.
func (c *Configuration) start(key string) {
	c.mu.Lock()
	needed := c.starting != "" && c.starting == key
	if needed {
		c.starting = ""
	}
	c.mu.Unlock()
	if needed && c.Restart != nil {
		c.Restart()
	}
}
