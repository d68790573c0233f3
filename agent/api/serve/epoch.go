package serve

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
)

// epoch is the largest epoch of a master seen so far. The agent stores it across restarts.
type epoch struct{ largest atomic.Uint64 }

func (e *epoch) raise(n uint64) {
	for {
		have := e.largest.Load()
		if n <= have || e.largest.CompareAndSwap(have, n) {
			return
		}
	}
}

// check refuses a master that has been replaced. Epoch 0 means a master without epochs; the agent
// decides whether to accept its starts.
func (e *epoch) check(n uint64, commands agent.Commands) *api.Error {
	if n == 0 {
		return nil
	}
	if n > e.largest.Load() {
		if err := commands.SawEpoch(n); err != nil {
			return failure(err)
		}
		e.raise(n)
	}
	if largest := e.largest.Load(); n < largest {
		return refuse(api.FailedPrecondition, "the epoch of this master is %d, and a master with epoch %d has taken over", n, largest)
	}
	return nil
}

// numberOf returns the number in a header, or 0 without this header.
func numberOf(r *http.Request, header string) (uint64, *api.Error) {
	text := r.Header.Get(header)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, refuse(api.InvalidArgument, "%s: %q, expected a number from 0 to 18446744073709551615", header, text)
	}
	return n, nil
}

// turnOf reads the position of a call in the sequence of its master's calls.
func turnOf(r *http.Request) (t agent.Sequence, err *api.Error) {
	if t.Epoch, err = numberOf(r, api.EpochHeader); err != nil {
		return t, err
	}
	t.Number, err = numberOf(r, api.SequenceHeader)
	return t, err
}
