package launch

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// A job may have pids_limit processes and threads for each slot. With several slots, it may have at
// most half of the kernel's limit for all processes, because a higher limit would not protect other users.
// The configured limit for one slot is never lowered.
//
// The control group of the job enforces this limit. Without it, there is only RLIMIT_NPROC, which
// counts the processes of the user, not of the job: with the same number, forks would fail for
// users with several jobs on the host. So RLIMIT_NPROC is the limit of jobs that use all processors
// of the host, at most half of the kernel's limit. This prevents a user from taking all processes
// of the host, but not a job from taking those of the user's other jobs.

// MostProcesses returns Plan.Processes for a job with slots on this host; 0 means no limit.
func MostProcesses(c *qconf.Configuration, slots int) int {
	return int(mostThreads(c.CgroupsParams, max(slots, runtime.NumCPU())))
}

// mostThreads returns the maximum number of processes and threads of a job; 0 means no limit.
func mostThreads(p qconf.CgroupsParams, slots int) uint64 {
	if p.Pids <= 0 {
		return 0
	}
	return max(uint64(p.Pids), min(uint64(p.Pids)*uint64(max(slots, 1)), hostThreads.get()/2))
}

// hostThreads is the maximum number of processes and threads on this host, which does not change for each
// job: reading it took two percent of the agent's processor time for a short job.
var hostThreads = threads{read: threadsOfHost, keep: 10 * time.Second}

// threads keeps a number that is expensive to read.
type threads struct {
	read func() uint64
	keep time.Duration

	mu   sync.Mutex
	at   time.Time // of the last read
	last uint64
}

func (t *threads) get() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.at.IsZero() || now.Sub(t.at) >= t.keep {
		t.last, t.at = t.read(), now
	}
	return t.last
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
