package gpu

import "time"

// Due reports whether a register asks nvidia-smi again after the longest pause.
func Due(r *Register) bool {
	defer func(clock func() time.Time) { r.clock = clock }(r.clock)
	r.clock = func() time.Time { return time.Now().Add(askInterval) }
	return r.Wants()
}
