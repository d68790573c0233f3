package launcher

import (
	"errors"
	"time"

	"github.com/execd-project/execd/agent/launch"
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

// startLater has the launcher start again when qconf says that root has been told of the change, or does not say anything
// for a while.
func (c *Configuration) startLater(key string) {
	c.starting = key
	time.AfterFunc(statementTime, func() { c.start(key) })
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
