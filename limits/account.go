package limits

// Account sums up what accounting(5) has of memory from the samples of a job.
type Account struct {
	// Mem is the integral of memory over CPU time, in GiB times seconds: what a
	// job holds while it does nothing costs nothing, as in the original. The
	// share tree counts with it (share_tree(5), usage_weight_list).
	Mem float64
	// MaxVmem is the most memory, RAM and swap, that was seen, in bytes.
	MaxVmem uint64

	last Sample
}

const gib = 1 << 30

// Add takes the next sample.
func (a *Account) Add(s Sample) {
	if used := (s.CPU - a.last.CPU).Seconds(); used > 0 {
		before := a.last.Vmem()
		if a.last.At.IsZero() {
			before = s.Vmem() // nothing is known of the time before the first look
		}
		a.Mem += used * (float64(before) + float64(s.Vmem())) / 2 / gib
	}
	a.MaxVmem = max(a.MaxVmem, s.Vmem())
	a.last = s
}

// End takes what the job had used when its last process had ended. What memory it
// held since the last sample is not known any more: as much as then, or, if there
// was none, maxRSS, the largest that any one process had (getrusage(2)), in bytes.
func (a *Account) End(s Sample, maxRSS uint64) {
	s.RSS, s.Swap = a.last.RSS, a.last.Swap
	if a.last.At.IsZero() {
		s.RSS = maxRSS
	}
	a.Add(s)
	a.MaxVmem = max(a.MaxVmem, maxRSS)
}
