package cluster

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// nodes are the hosts of the cell: two run the agent, the third the original.
var nodes = []string{"node1", "node2", "node3"}

// together starts a cell of three hosts. The host of sge_qmaster also runs the agent, and has no
// queue. front is as in gridengine.Config.
func together(t *testing.T, front string) *cell {
	c := start(t, gridengine.Config{Nodes: nodes, FrontUser: front, Conf: map[string]string{"load_report_time": "00:00:01"}})
	for i, n := range nodes {
		if err := c.StartNode(n, i < 2 && os.Getenv(originalEnv) == ""); err != nil {
			t.Fatalf("%v\n%s", err, c.Messages())
		}
	}
	for name, attributes := range map[string]map[string]string{
		"tight": {"allocation_rule": "1"}, "fill": {"allocation_rule": "$fill_up"},
		"summed": {"allocation_rule": "1", "accounting_summary": "TRUE"},
	} {
		pe := map[string]string{"slots": "100", "start_proc_args": "/bin/true", "stop_proc_args": "/bin/true", "control_slaves": "TRUE", "job_is_first_task": "FALSE"}
		maps.Copy(pe, attributes)
		if err := c.AddPE(name, pe); err != nil {
			t.Fatal(err)
		}
	}
	c.queue("all.q", map[string]string{
		"hostlist": strings.Join(nodes, " "), "slots": "4", "pe_list": "tight fill summed",
		"tmpdir": "/tmp,[node1=/tmp/node1],[node2=/tmp/node2],[node3=/tmp/node3]",
	})
	return c
}

// records returns the records of a job and of its tasks, by the ID of the task.
func (c *cell) records(job int) map[string]gridengine.Record {
	found := map[string]gridengine.Record{}
	for _, r := range c.recordsOf(job) {
		if _, ok := found[r["pe_taskid"]]; ok {
			c.Errorf("task %q of job %d has two records", r["pe_taskid"], job)
		}
		found[r["pe_taskid"]] = r
	}
	return found
}

// wantScriptStatus compares the exit status in the record of a parallel job with that of its script.
// When the script has ended, sge_qmaster asks all hosts of the job to end its tasks. The sge_execd of
// 9.x then sets the exit status to 0 on the host of the script, too, if no task is left there.
func (c *cell) wantScriptStatus(r gridengine.Record, want string) {
	c.Helper()
	original := os.Getenv(originalEnv) != "" || r["hostname"] == nodes[len(nodes)-1]
	if os.Getenv(testenv.OCSEnv) != "" && original && r["exit_status"] == "0" {
		return
	}
	c.want(r, map[string]string{"exit_status": want})
}

// nodesEmpty waits until no agent has data of any job.
func (c *cell) nodesEmpty() {
	c.Helper()
	c.until("the agents have no job directory", func() bool { return len(c.NodeJobs("node1"))+len(c.NodeJobs("node2")) == 0 })
}

const spread = `
: >/home/alice/spread.$JOB_ID
n=0
for h in $(cut -d' ' -f1 $PE_HOSTFILE); do
	n=$((n+1))
	qrsh -inherit $h 'echo $(hostname) $JOB_ID; exit '$n >/home/alice/spread.$JOB_ID.$h 2>&1
	echo $h $? >>/home/alice/spread.$JOB_ID
done
exit 5
`

// TestParallel checks jobs on several hosts, some of which run the agent and some the original.
func TestParallel(t *testing.T) { parallelJobs(t, "") }

func parallelJobs(t *testing.T, front string) {
	t.Helper()
	c := together(t, front)
	sub := func(name string, f func(c *cell)) { c.Run(name, func(t *testing.T) { f(&cell{c.Cell, t}) }) }
	sub("a serial job runs on each host", func(c *cell) {
		for _, n := range nodes {
			out := "/home/alice/serial." + n
			job := c.qsub("-q", "all.q@"+n, "-o", out, "-j", "y", "-b", "y", "/bin/hostname")
			c.want(c.ended(job, 0, 1)[0], map[string]string{"exit_status": "0", "hostname": n})
			if got := c.file(out); got != n+"\n" {
				c.Errorf("on %s it wrote %q", n, got)
			}
		}
	})
	for i, master := range nodes {
		sub("a parallel job on three hosts, its master on "+master, func(c *cell) {
			job := c.qsub("-pe", "tight", "3", "-masterq", "all.q@"+master, "-o", "/home/alice/par", "-j", "y", c.script("spread"+strconv.Itoa(i)+".sh", spread))
			var found map[string]gridengine.Record
			c.until("it and its tasks have records", func() bool {
				found = c.records(job)
				return len(found) == 4
			})
			c.want(found["NONE"], map[string]string{"failed": "0", "slots": "3", "granted_pe": "tight", "hostname": master})
			c.wantScriptStatus(found["NONE"], "5")
			lines := strings.Split(strings.TrimSpace(c.file(fmt.Sprintf("/home/alice/spread.%d", job))), "\n")
			if len(lines) != 3 {
				c.Fatalf("it wrote %q, and %q", lines, c.file("/home/alice/par"))
			}
			for n, line := range lines {
				host, status, _ := strings.Cut(line, " ")
				if status != strconv.Itoa(n+1) {
					c.Errorf("the task on %s ended with %s, want %d", host, status, n+1)
				}
				if got, want := c.file(fmt.Sprintf("/home/alice/spread.%d.%s", job, host)), fmt.Sprintf("%s %d\n", host, job); got != want {
					c.Errorf("the task on %s wrote %q, want %q", host, got, want)
				}
				c.want(found["1."+host], map[string]string{"exit_status": status, "hostname": host})
			}
			c.nodesEmpty()
		})
	}
	sub("qdel ends all of it", func(c *cell) {
		// The job does not finish by itself when its tasks have finished.
		script := c.script("long.sh", "for h in $(cut -d' ' -f1 $PE_HOSTFILE); do qrsh -inherit $h sleep 1000 & done; wait; exec sleep 999\n")
		job := c.qsub("-pe", "tight", "3", "-masterq", "all.q@node1", "-o", "/home/alice/longpar", "-j", "y", script)
		c.awaitState(job, "r")
		c.until("its tasks run", func() bool {
			out, err := c.Root("pgrep", "-fc", "^sleep 1000")
			n, _ := strconv.Atoi(strings.TrimSpace(out))
			return err == nil && n >= 3
		})
		c.alice("qdel", strconv.Itoa(job))
		c.until("it has a record", func() bool { return c.records(job)["NONE"] != nil })
		c.want(c.records(job)["NONE"], map[string]string{"failed": "100"})
		c.nodesEmpty()
		c.until("no process is left", func() bool {
			out, _ := c.Root("pgrep", "-fc", "^sleep 1000")
			return strings.TrimSpace(out) == "0"
		})
	})
	sub("with accounting_summary all is in one record", func(c *cell) {
		script := c.script("summed.sh", `
for h in $(cut -d' ' -f1 $PE_HOSTFILE); do
	qrsh -inherit $h 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; exit 1'; echo $?
done
exit 5
`)
		job := c.qsub("-pe", "summed", "3", "-o", "/home/alice/summed", "-j", "y", script)
		c.until("it has a record", func() bool { return c.records(job)["NONE"] != nil })
		r := c.records(job)
		c.want(r["NONE"], map[string]string{"failed": "0", "slots": "3", "granted_pe": "summed"})
		c.wantScriptStatus(r["NONE"], "5")
		if len(r) != 1 {
			c.Errorf("it has %d records", len(r))
		}
		cpu, _ := strconv.ParseFloat(r["NONE"]["cpu"], 64)
		own, _ := strconv.ParseFloat(r["NONE"]["ru_utime"], 64)
		if got := c.file("/home/alice/summed"); got != "1\n1\n1\n" || cpu < 0.1 {
			c.Errorf("it wrote %q, and used %v s, %v s of them itself", got, cpu, own)
		}
		c.nodesEmpty()
	})
	sub("a task has no terminal, whatever it asks for", func(c *cell) {
		script := c.script("terminal.sh", `
for h in $(cut -d' ' -f1 $PE_HOSTFILE); do
	script -qec "qrsh -inherit -pty y $h tty" /dev/null </dev/null | tr -d '\r'
done
`)
		job := c.qsub("-pe", "tight", "3", "-o", "/home/alice/terminal", "-j", "y", script)
		c.until("it and its tasks have records", func() bool { return len(c.records(job)) == 4 })
		if got := c.file("/home/alice/terminal"); got != strings.Repeat("not a tty\n", 3) {
			c.Errorf("it wrote %q", got)
		}
		c.nodesEmpty()
	})
	sub("more tasks than slots are refused", func(c *cell) {
		script := c.script("many.sh", `
h=$(sed -n 2p $PE_HOSTFILE | cut -d' ' -f1)
for i in 1 2 3; do
	{
		qrsh -inherit $h 'while [ ! -e /tmp/go.'$JOB_ID' ]; do sleep 0.1; done'
		echo $? >>/home/alice/many.$JOB_ID
	} &
done
while [ ! -s /home/alice/many.$JOB_ID ]; do sleep 0.1; done # those that run do not end before
touch /tmp/go.$JOB_ID
wait
`)
		job := c.qsub("-pe", "tight", "2", "-q", "all.q@node1,all.q@node2", "-o", "/dev/null", "-j", "y", script)
		c.until("it has a record", func() bool { return c.records(job)["NONE"] != nil })
		if got := c.file(fmt.Sprintf("/home/alice/many.%d", job)); strings.HasPrefix(got, "0\n") || !strings.Contains(got, "\n0\n") {
			c.Errorf("they ended with %q", got)
		}
		c.nodesEmpty()
	})
	sub("another user cannot start a task in it", func(c *cell) {
		job := c.qsub("-pe", "tight", "2", "-q", "all.q@node1,all.q@node2", "-o", "/dev/null", "-j", "y", c.script("victim.sh", "sleep 1000\n"))
		c.awaitState(job, "r")
		out, err := c.User("bob", "env", "JOB_ID="+strconv.Itoa(job), "SGE_TASK_ID=undefined", "qrsh", "-inherit", "node1", "id")
		if err == nil || strings.Contains(out, "uid=") {
			c.Errorf("it ran: %q", out)
		}
		c.alice("qdel", strconv.Itoa(job))
		c.nodesEmpty()
	})
	sub("the agent of a slave is killed, and the job comes to its end", func(c *cell) {
		if os.Getenv(originalEnv) != "" {
			c.Skip("no host runs the agent")
		}
		script := c.script("survive.sh", `
h=$(sed -n 2p $PE_HOSTFILE | cut -d' ' -f1)
qrsh -inherit $h sleep 2; echo $?
touch /tmp/first.$JOB_ID
while [ ! -e /tmp/go.$JOB_ID. ]; do sleep 0.1; done
qrsh -inherit $h true; echo $?
`)
		job := c.qsub("-pe", "tight", "2", "-q", "all.q@node1,all.q@node2", "-masterq", "all.q@node1", "-o", "/home/alice/survive", "-j", "y", script)
		c.until("the first task is over", func() bool { return c.exists(fmt.Sprintf("/tmp/first.%d", job)) })
		returned := func() int { // the agent, or its launcher alone
			log := c.file("/home/cell/agent.node2.log")
			return strings.Count(log, "registered with sge_qmaster") + strings.Count(log, "the launcher runs again")
		}
		before := returned()
		if err := c.KillNode("node2", syscall.SIGKILL); err != nil {
			c.Fatal(err)
		}
		if err := c.LaunchNode("node2", true); err != nil {
			c.Fatal(err)
		}
		// sge_qmaster still has the load that the killed agent reported.
		c.until("the other agent is registered", func() bool { return returned() > before })
		c.release(job)
		c.until("it and its tasks have records", func() bool { return len(c.records(job)) == 3 })
		if got := c.file("/home/alice/survive"); got != "0\n0\n" {
			c.Errorf("it wrote %q", got)
		}
		c.nodesEmpty()
	})
}

// twoOnNode1 starts the agent of node1, and two jobs there that wait.
func (c *cell) twoOnNode1() (first, second int) {
	c.Helper()
	if err := c.StartNode("node1", true); err != nil {
		c.Fatal(err)
	}
	c.queue("all.q", map[string]string{"hostlist": "node1", "slots": "4"})
	script := c.script("hold.sh", hold)
	first, second = c.qsub("-o", "/dev/null", "-j", "y", script), c.qsub("-o", "/dev/null", "-j", "y", script)
	c.begun(first, 0)
	c.begun(second, 0)
	return first, second
}

// TestFailover checks that jobs run on while sge_qmaster moves to another host, and that the new one
// learns of a job that finished meanwhile.
func TestFailover(t *testing.T) {
	c := start(t, gridengine.Config{Nodes: []string{"node1", "node2"}, Conf: map[string]string{"load_report_time": "00:00:01"}})
	ends, stays := c.twoOnNode1()
	if err := c.KillMaster(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.release(ends)
	if _, err := c.Node("node2", "sge_qmaster"); err != nil {
		t.Fatal(err)
	}
	c.until("sge_qmaster is on node2", func() bool {
		text, err := c.Root("cat", "/var/lib/gridengine/default/common/act_qmaster")
		return err == nil && strings.TrimSpace(text) == "node2"
	})
	c.want(c.ended(ends, 0, 1)[0], map[string]string{"exit_status": "7", "failed": "0", "hostname": "node1"})
	c.awaitState(stays, "r")
	c.release(stays)
	c.want(c.ended(stays, 0, 1)[0], map[string]string{"exit_status": "7", "failed": "0", "hostname": "node1"})
}
