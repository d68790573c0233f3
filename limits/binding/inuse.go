package binding

import "github.com/execd-project/execd/limits/topology"

// InUse counts, for each core, the jobs that are bound to it. After a restart it is rebuilt from
// the config files of running jobs, in which a core may occur twice (hosts that share a spool area,
// a changed host). With counting, such a core stays in use until its last job has finished. Make an
// InUse with make.
type InUse map[topology.Pair]int

// Has reports whether a job uses the core.
func (u InUse) Has(p topology.Pair) bool { return u[p] > 0 }

// Add assigns the cores to a job.
func (u InUse) Add(cores []topology.Pair) {
	for _, p := range cores {
		u[p]++
	}
}

// Remove releases the cores at the end of a job. Tasks of a parallel job have the cores of their
// job and call neither Add nor Remove.
func (u InUse) Remove(cores []topology.Pair) {
	for _, p := range cores {
		if u[p]--; u[p] <= 0 {
			delete(u, p)
		}
	}
}
