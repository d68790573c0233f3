package binding

import "github.com/execd-project/execd/limits/topology"

// InUse counts, for each core, the jobs that are bound to it. It is rebuilt from
// the config files of live jobs, in which a core may turn up twice (jobs of hosts
// that share a spool area, a changed host); counting keeps such a core in use
// until its last job has ended. Make one with make.
type InUse map[topology.Pair]int

// Has reports whether some job has the core.
func (u InUse) Has(p topology.Pair) bool { return u[p] > 0 }

// Add gives the cores to a job.
func (u InUse) Add(cores []topology.Pair) {
	for _, p := range cores {
		u[p]++
	}
}

// Remove takes the cores back at the end of a job. Tasks of a parallel job
// have the cores of their job and neither add nor remove.
func (u InUse) Remove(cores []topology.Pair) {
	for _, p := range cores {
		if u[p]--; u[p] <= 0 {
			delete(u, p)
		}
	}
}
