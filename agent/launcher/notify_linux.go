package launcher

import (
	"errors"
	"fmt"

	"github.com/execd-project/execd/internal/host/servicemanager"
)

// mostStatus is the size of a status of the service manager, in bytes.
const mostStatus = 1 << 10

// notify passes a message of the front on to the service manager. A captured front can only lie about itself: it does not say
// that the service is stopping, because the service manager would end the launcher after a while. The launcher says that.
func (s *Server) notify(state *servicemanager.State) error {
	if len(state.Status) > mostStatus {
		return &refusal{fmt.Errorf("the status has %d bytes, at most %d are possible", len(state.Status), mostStatus)}
	}
	if s.Manager == nil || state.Stopping {
		return nil
	}
	return s.Manager.Send(state)
}

// Notify orders a message to the service manager. Without a launcher it does nothing: the front says everything again to the
// next one.
func (c *Client) Notify(state *servicemanager.State) error {
	err := c.askNow(kindNotify, state, nil)
	if errors.Is(err, errAway) {
		return nil
	}
	return err
}
