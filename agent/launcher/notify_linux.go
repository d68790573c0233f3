package launcher

import (
	"fmt"

	"github.com/execd-project/execd/internal/host/servicemanager"
)

// mostStatus is the size of a status of the service manager, in bytes.
const mostStatus = 1 << 10

// notify passes a message of the front on to the service manager. A captured front can only lie about itself.
func (s *Server) notify(state *servicemanager.State) error {
	if len(state.Status) > mostStatus {
		return &refusal{fmt.Errorf("the status has %d bytes, at most %d are possible", len(state.Status), mostStatus)}
	}
	if s.Manager == nil {
		return nil
	}
	return s.Manager.Send(state)
}

// Notify orders a message to the service manager. It does not wait for the next launcher, to which the front says everything
// again.
func (c *Client) Notify(state *servicemanager.State) error {
	return c.askNow(kindNotify, state, nil)
}
