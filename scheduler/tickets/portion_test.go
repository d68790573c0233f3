package tickets_test

import (
	"math"
	"testing"

	"github.com/execd-project/execd/scheduler/tickets"
)

// TestCompensation divides a tree between two who have equal shares, of whom the first has
// used a third of what the second has: by their usage alone it would get 3/4, which is 1.5
// times its part.
func TestCompensation(t *testing.T) {
	for _, c := range []struct{ factor, first float64 }{
		{0, 3. / 4},
		{1.6, 3. / 4},
		{1.4, 42. / 57},
		{1.2, 12. / 17},
		{0.8, 8. / 13}, // the second gets less than 0.8 times its part
		{0.25, 1. / 2},
	} {
		children := []tickets.Portion{{Shares: 50, Usage: 100}, {Shares: 50, Usage: 300}}
		tickets.Divide(tickets.Whole, children, c.factor)
		if got := children[0].Short; math.Abs(got-c.first) > 1e-12 || math.Abs(got+children[1].Short-1) > 1e-12 {
			t.Errorf("compensation_factor %g: %g and %g, want %g for the first", c.factor, got, children[1].Short, c.first)
		}
	}
}
