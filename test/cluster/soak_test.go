package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// recordsOf returns the records of a job and its tasks.
func (c *cell) recordsOf(job int) []gridengine.Record {
	all, err := c.Records()
	if err != nil {
		c.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r gridengine.Record) bool { return r.Job() != job })
}

// tasks counts the records of the tasks of a job.
func (c *cell) tasks(job int) map[int]int {
	n := map[int]int{}
	for _, r := range c.recordsOf(job) {
		n[r.Task()]++
	}
	return n
}

// once waits until each task of a job has its record, and fails if a task has run twice. sge_qmaster writes a record
// before it notes that it has the report: if it is killed in between, it writes the record of the same run again.
func (c *cell) once(job, tasks int, within time.Duration) {
	c.Helper()
	err := c.Poll(within, "each task has a record", func() (bool, error) {
		n := len(c.tasks(job))
		return n == tasks, fmt.Errorf("%d of %d have", n, tasks)
	})
	if err != nil {
		c.Fatal(err)
	}
	runs := map[int]gridengine.Record{}
	for _, r := range c.recordsOf(job) {
		first, ok := runs[r.Task()]
		for _, name := range []string{"start_time", "end_time", "ru_nvcsw", "ru_minflt"} {
			if ok && r[name] != first[name] {
				c.Errorf("task %d has run twice: its records have %s %s and %s", r.Task(), name, first[name], r[name])
			}
		}
		runs[r.Task()] = r
	}
	for _, r := range c.recordsOf(job) {
		if r["failed"] != "0" || r["exit_status"] != strconv.Itoa(r.Task()%90) {
			c.Errorf("task %d: failed %s, exit status %s", r.Task(), r["failed"], r["exit_status"])
		}
	}
}

// TestSoakArray checks an array of 2000 tasks, while the agent and sge_qmaster are killed repeatedly:
// no task is lost, repeated or wrong.
func TestSoakArray(t *testing.T) {
	testenv.Soak(t)
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01", "max_aj_tasks": "5000"}})
	c.queue("all.q", map[string]string{"slots": "64"})
	script := c.script("task.sh", "sleep 0.$((SGE_TASK_ID % 10)); exit $((SGE_TASK_ID % 90))\n")
	const tasks = 2000
	job := c.qsub("-t", fmt.Sprintf("1-%d", tasks), "-o", "/dev/null", "-j", "y", script)
	for i := range 6 {
		want := (i + 1) * tasks / 8
		if err := c.Poll(10*time.Minute, "some have ended", func() (bool, error) { return len(c.tasks(job)) >= want, nil }); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := c.KillAgent(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := c.LaunchAgent(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := c.KillMaster(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := c.RestartMaster(); err != nil {
			t.Fatal(err)
		}
	}
	// Messages in transit when either of them was killed arrive after five minutes.
	c.once(job, tasks, 15*time.Minute)
	c.nothingLeft()
}

// TestSoakNetworkCut checks a host that is unreachable for some time: its jobs continue, and it
// reports finished jobs when it is reachable again.
func TestSoakNetworkCut(t *testing.T) {
	testenv.Soak(t)
	c := start(t, gridengine.Config{Nodes: []string{"node1"}, Conf: map[string]string{"load_report_time": "00:00:02", "max_unheard": "00:00:10"}})
	ends, stays := c.twoOnNode1()
	if _, err := c.Node("node1", "ip", "link", "set", "eth0", "down"); err != nil {
		t.Fatal(err)
	}
	c.release(ends)
	if err := c.Poll(5*time.Minute, "the agent has noticed", func() (bool, error) {
		return strings.Contains(c.file("/home/cell/agent.node1.log"), "the connection with sge_qmaster was lost"), nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Node("node1", "ip", "link", "set", "eth0", "up"); err != nil {
		t.Fatal(err)
	}
	err := c.Poll(5*time.Minute, "the end has arrived", func() (bool, error) {
		r, err := c.Accounting(ends, 0)
		return len(r) == 1, err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.release(stays)
	c.want(c.ended(stays, 0, 1)[0], map[string]string{"exit_status": "7", "failed": "0"})
}

// TestSoakShadowMaster checks that agents connect by themselves to an sge_qmaster that sge_shadowd
// started on another host after the first one failed, that they report jobs that finished meanwhile,
// and that running jobs continue.
func TestSoakShadowMaster(t *testing.T) {
	testenv.Soak(t)
	c := start(t, gridengine.Config{Nodes: []string{"node1", "node2"}, Conf: map[string]string{"load_report_time": "00:00:01"}})
	const common = "/var/lib/gridengine/default/common/"
	if err := c.AddFile(common+"shadow_masters", c.Host+"\nnode2\n", 0o644); err != nil {
		t.Fatal(err)
	}
	ends, stays := c.twoOnNode1()
	// sge_shadowd(8) checks the heartbeat, which sge_qmaster writes every 30 s, at the first
	// interval. It takes over if the heartbeat has not changed within the second one.
	if _, err := c.Node("node2", "env", "SGE_CHECK_INTERVAL=35", "SGE_GET_ACTIVE_INTERVAL=35", "sge_shadowd"); err != nil {
		t.Fatal(err)
	}
	if err := c.KillMaster(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.release(ends)
	c.until("sge_qmaster is on node2", func() bool { return strings.TrimSpace(c.file(common+"act_qmaster")) == "node2" })
	c.want(c.ended(ends, 0, 1)[0], map[string]string{"exit_status": "7", "failed": "0", "hostname": "node1"})
	c.awaitState(stays, "r")
	c.release(stays)
	c.want(c.ended(stays, 0, 1)[0], map[string]string{"exit_status": "7", "failed": "0", "hostname": "node1"})
	next := c.qsub("-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
	c.want(c.ended(next, 0, 1)[0], map[string]string{"exit_status": "0", "failed": "0"})
	c.nothingLeft()
}
