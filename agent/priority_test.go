package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// TestTicketsCount checks that tickets become weights of control groups, or nice values on a host
// without control groups.
func TestTicketsCount(t *testing.T) {
	// Without a control group and an additional group id no process is known as a job's.
	testenv.Require(t, testenv.Root)
	w := newWorld(t, func(o *Options) {
		c := load(t, map[string]string{
			"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nload_thresholds NONE\n",
			"conf/global":  "reprioritize 1\n",
		})
		o.Configuration = func() (*qconf.Cluster, string, error) { return c, "tickets", nil }
	})
	const busy = "while :; do :; done"
	few, many := w.job(1, "/bin/sh", "-c", busy), w.job(2, "/bin/sh", "-c", busy)
	for _, s := range []*Start{few, many} {
		w.mustStart(s)
		w.await(s.ID, Running)
	}
	w.agent.SetTickets([]Tickets{{ID: few.ID, Tickets: 100}, {ID: many.ID, Tickets: 900}})
	w.until("the job with more tickets is better off", func() bool {
		a, b := w.standing(few.ID), w.standing(many.ID)
		return a.weight > 0 && b.weight > 4*a.weight || a.nice > b.nice
	})
}

type standing struct {
	weight uint64
	nice   int
}

// standing returns the CPU weight and the nice value that a job has in the kernel.
func (w *world) standing(id job.ID) (s standing) {
	w.Helper()
	w.agent.table.mu.Lock()
	run := w.agent.table.jobs[id].run
	w.agent.table.mu.Unlock()
	if g := run.Group(); g != nil {
		for _, dir := range g.Dirs {
			for _, name := range []string{"cpu.weight", "cpu.shares"} {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
					s.weight, _ = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
				}
			}
		}
	}
	pid, err := run.Dir.ReadNumber(jobdir.FileJobPID)
	if err != nil {
		w.Fatal(err)
	}
	n, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		w.Fatal(err)
	}
	s.nice = 20 - n // as the system call has it
	return s
}
