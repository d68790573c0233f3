package requests

import (
	"testing"

	"github.com/execd-project/execd/submit"
)

// TestMany checks that a command line with thousands of queues and ranges of slots is processed once,
// not once for each of them.
func TestMany(t *testing.T) {
	const many, most = 1000, 100
	r := &submit.Request{PE: &submit.ParallelRequest{Name: "make"}}
	for i := range many {
		r.Queues = append(r.Queues, submit.QueueRequest{Reference: "all.q", Soft: i%2 == 0})
		r.PE.Ranges = append(r.PE.Ranges, submit.SlotRange{Min: 2*i + 1, Max: 2*i + 1})
	}
	if n := testing.AllocsPerRun(1, func() { Of("alice", "users", "", r) }); n > most {
		t.Errorf("%v allocations for %d queues and %d ranges, at most %d are in order", n, many, many, most)
	}
}
