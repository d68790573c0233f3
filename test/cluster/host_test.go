package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/test/gridengine"
)

// TestHost checks that the host reports its load values, and a job runs.
func TestHost(t *testing.T) {
	c := start(t, gridengine.Config{})
	c.queue("all.q", nil)
	t.Run("qhost shows its values", func(t *testing.T) {
		// Some values are computed from two samples, and arrive with a later report.
		c.until("all are there", func() bool {
			out := c.root("qhost", "-F", "-h", c.Host)
			return !slices.ContainsFunc([]string{"arch=lx-amd64", "num_proc", "mem_total", "np_load_avg", "m_topology", "m_socket", "cpu", "swap_total"}, func(v string) bool {
				name, value, _ := strings.Cut(v, "=")
				return !strings.Contains(out, "hl:"+name+"="+value)
			})
		})
	})
	t.Run("its queue is open", func(t *testing.T) {
		c.until("the queue has no state", func() bool {
			for line := range strings.Lines(c.root("qstat", "-f")) {
				if f := strings.Fields(line); len(f) > 0 && f[0] == "all.q@"+c.Host {
					return len(f) == 5 && f[4] == "lx-amd64"
				}
			}
			return false
		})
	})
	t.Run("a job runs", func(t *testing.T) {
		job := c.qsub("-o", "/home/alice/out", "-j", "y", c.script("job.sh", "id -un; echo $JOB_ID $SGE_O_HOME; exit 3\n"))
		r := c.ended(job, 0, 1)[0]
		c.want(r, map[string]string{"exit_status": "3", "failed": "0", "owner": "alice", "qname": "all.q", "slots": "1"})
		if out := c.file("/home/alice/out"); !strings.HasPrefix(out, "alice\n") || !strings.Contains(out, "/home/alice") {
			t.Errorf("it wrote %q", out)
		}
		c.nothingLeft()
	})
}
