package cell

import (
	"fmt"
	"slices"

	"github.com/execd-project/execd/scheduler"
)

// HostService records why a host accepts no jobs; an empty text means that it does. The queue
// instances of a host that accepts no jobs are in error state with that reason. Unlike an error
// caused by a job, it ends with the reason, and qmod(1) -c does not clear it. It is not stored: the
// host has to report it again after Restore.
func (c *Cell) HostService(now int64, host, why string) (*Answer, error) {
	c.tick(now)
	id, ok := c.model.Host(host)
	if !ok {
		return nil, fmt.Errorf("service of host %q: there is no such host", host)
	}
	name := c.model.HostName(id)
	if c.refusing == nil {
		c.refusing = map[string]string{}
	}
	if c.refusing[name] = why; why == "" {
		delete(c.refusing, name)
	}
	for _, i := range c.model.InstancesOn(id) {
		c.setStatus(i, c.state.Status(i)&^scheduler.Failed|failedBy(c.ErrorsOf(i)))
	}
	return c.done(&Answer{}), nil
}

// failedBy returns the error state if there are reasons for it.
func failedBy(reasons []string) scheduler.Status {
	if len(reasons) == 0 {
		return 0
	}
	return scheduler.Failed
}

// ErrorsOf returns the reasons for the error state of a queue instance, as qstat -explain E shows
// them.
func (c *Cell) ErrorsOf(id scheduler.InstanceID) []string {
	errors := c.instances[id].errors
	if host := c.model.HostName(c.model.HostOf(id)); c.refusing[host] != "" {
		errors = append(slices.Clone(errors), fmt.Sprintf("host %s takes no jobs: %s", host, c.refusing[host]))
	}
	return errors
}
