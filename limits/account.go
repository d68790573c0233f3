package limits

// Account computes the memory fields of accounting(5) from the samples of a job.
type Account struct {
	// Mem is the integral of memory over CPU time, in GiB times seconds: as in the original, memory
	// that a sleeping job holds does not count. The share tree uses it (share_tree(5),
	// usage_weight_list).
	Mem float64
	// MaxVmem is the largest amount of memory (RAM and swap) in any sample, in bytes.
	MaxVmem uint64
	// MaxRSS is the largest amount of RAM in any sample, in bytes.
	MaxRSS uint64

	last Sample
}

const gib = 1 << 30

// Add adds the next sample.
func (a *Account) Add(s Sample) {
	if used := (s.CPU - a.last.CPU).Seconds(); used > 0 {
		before := a.last.Vmem()
		if a.last.At.IsZero() {
			before = s.Vmem() // the usage before the first sample is unknown
		}
		a.Mem += used * (float64(before) + float64(s.Vmem())) / 2 / gib
	}
	a.MaxVmem = max(a.MaxVmem, s.Vmem())
	a.MaxRSS = max(a.MaxRSS, s.RSS)
	a.last = s
}

// End adds the final usage of the job, when its last process has exited. The amount of memory that
// the job held since the last sample is unknown. End assumes the amount of that sample or, without
// a sample, maxRSS: the largest RSS of any single process (getrusage(2)), in bytes.
func (a *Account) End(s Sample, maxRSS uint64) {
	s.RSS, s.Swap = a.last.RSS, a.last.Swap
	if a.last.At.IsZero() {
		s.RSS = maxRSS
	}
	a.Add(s)
	a.MaxVmem = max(a.MaxVmem, maxRSS)
}
