package gridengine

import (
	"sync"

	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/qconf"
)

// queues remembers the settings of queue instances: each job carries those of its own, and most jobs carry
// the same ones. A nil *queues remembers nothing.
type queues struct {
	mu    sync.Mutex
	known map[message.Queue]qconf.QueueInstance // on the host of the daemon
}

// mostQueues is how many settings are remembered. A host has fewer queue instances, but sge_qmaster lowers the
// limits in them to the requests of the job.
const mostQueues = 64

// of does what queueOf does. The caller must not change the lists in the result, which are shared.
func (c *queues) of(q *message.Queue, host string) (qconf.QueueInstance, error) {
	if c == nil {
		return queueOf(q, host)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known[*q]; ok {
		return known, nil
	}
	parsed, err := queueOf(q, host)
	if err != nil {
		return parsed, err
	}
	if c.known == nil || len(c.known) >= mostQueues {
		c.known = map[message.Queue]qconf.QueueInstance{}
	}
	c.known[*q] = parsed
	return parsed, nil
}
