package agent

import (
	"errors"
	"os"
	"sync"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/qconf"
)

// errEnded is the error for calls after Close.
var errEnded = errors.New("the agent has stopped")

// groupsSettings holds the settings of a configuration for control groups.
type groupsSettings struct {
	params string // cgroups_params
	use    bool   // USE_CGROUPS of execd_params
	gpus   bool   // jobs cannot open GPUs that they have not been granted
}

// openGroups holds the opened control groups by their settings. They are closed only when the agent
// ends, because jobs that were prepared with them may still have to be started, in a scope that is
// closed with them.
type openGroups struct {
	mu    sync.Mutex
	made  map[groupsSettings]*launch.Groups
	ended bool
}

// get returns the control groups for some settings. The first call for these settings opens them.
func (o *openGroups) get(s groupsSettings, open func() (*launch.Groups, error)) (*launch.Groups, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if g, ok := o.made[s]; ok {
		return g, nil
	}
	if o.ended {
		return nil, errEnded
	}
	g, err := open()
	if err != nil {
		return nil, err
	}
	if o.made == nil {
		o.made = map[groupsSettings]*launch.Groups{}
	}
	o.made[s] = g
	return g, nil
}

// close closes all groups. From then on get makes none.
func (o *openGroups) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for _, g := range o.made {
		g.Close()
	}
	clear(o.made)
}

// groupsFor returns the control groups for a configuration, and opens them on first use.
func (a *Agent) groupsFor(config *qconf.Configuration) (*launch.Groups, error) {
	params, _ := config.Value("cgroups_params")
	gpus := a.gpus().Numbered()
	return a.opened.get(groupsSettings{params, config.ExecdParams.UseCgroups, gpus}, func() (*launch.Groups, error) {
		g, err := a.launcher.Groups(config, gpus)
		if err == nil && g != nil && g.Warning != "" {
			a.log.Warn(g.Warning)
		}
		return g, err
	})
}

// Confine makes a control group for a process of a user that does not belong to a job: see
// launch.Groups.Confine. Only a daemon of root has such processes.
func (a *Agent) Confine() (dir *os.File, remove func(), err error) {
	groups, err := a.groupsFor(a.Cluster().Config(a.options.Host))
	if err != nil {
		return nil, nil, err
	}
	dir, end, err := groups.Confine()
	if err != nil {
		return nil, nil, err
	}
	return dir, func() {
		if err := end(); err != nil {
			a.log.Warn("a control group was not removed", "error", err)
		}
	}, nil
}
