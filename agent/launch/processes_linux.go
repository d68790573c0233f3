package launch

import (
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// A job may have pids_limit processes and threads for each slot, and a job of several slots at
// most half of what the kernel has for all: a limit above protects nobody. What is configured
// for one slot is never lowered.
//
// The control group of the job keeps that limit. Where it cannot, there is only RLIMIT_NPROC,
// which counts the processes of the user, not of the job: the same number would refuse forks to
// users who have several jobs on the host. So the job gets what the jobs of one user may have
// that fill the processors of the host, half of what the kernel has at most. That keeps a user
// from taking all of it, and no job from taking what the user's others need.

// mostThreads returns the maximum number of processes and threads of a job; 0 means no limit.
func mostThreads(p qconf.CgroupsParams, slots int) uint64 {
	if p.Pids <= 0 {
		return 0
	}
	return max(uint64(p.Pids), min(uint64(p.Pids)*uint64(max(slots, 1)), threadsOfHost()/2))
}

// threadsOfHost returns the maximum number of processes and threads on this host. A limit that
// cannot be read is ignored.
func threadsOfHost() uint64 {
	most := uint64(math.MaxInt64)
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63); err == nil {
			most = min(most, n)
		}
	}
	return most
}

// countsThreads reports whether groups limit the processes and threads of jobs.
func (g *Groups) countsThreads() bool {
	return g != nil && g.manager.System().Check(cgroup.PidsLimit) == nil
}
