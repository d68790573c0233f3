package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// hold is a script that waits for a file, and then exits with a status.
const hold = tellBegin + "while [ ! -e /tmp/go.$JOB_ID.${SGE_TASK_ID#undefined} ]; do sleep 0.1; done; exit 7\n"

// release lets a waiting job finish.
func (c *cell) release(job int) {
	c.Helper()
	if err := c.AddFile(fmt.Sprintf("/tmp/go.%d.", job), "", 0o644); err != nil {
		c.Fatal(err)
	}
}

// TestRestarts checks that a daemon that is killed and restarted finds its previous state: no job is
// lost or runs twice.
func TestRestarts(t *testing.T) {
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01"}})
	c.queue("all.q", map[string]string{"slots": "20"})
	script := c.script("hold.sh", hold)
	holder := func() int {
		job := c.qsub("-o", "/dev/null", "-j", "y", script)
		c.begun(job, 0)
		return job
	}
	sub := func(name string, f func(c *cell)) { // one after the other
		c.Run(name, func(t *testing.T) { f(&cell{c.Cell, t}) })
	}
	check := func(c *cell, jobs ...int) {
		c.Helper()
		for _, job := range jobs {
			c.want(c.ended(job, 0, 1)[0], map[string]string{"exit_status": "7", "failed": "0"})
		}
		c.nothingLeft()
	}

	sub("the agent is killed while jobs run, and one ends meanwhile", func(c *cell) {
		before, during, after := holder(), holder(), holder()
		c.release(before)
		c.ended(before, 0, 1)
		if err := c.KillAgent(syscall.SIGKILL); err != nil {
			c.Fatal(err)
		}
		c.release(during)
		if err := c.StartAgent(); err != nil {
			c.Fatal(err)
		}
		c.ended(during, 0, 1)
		c.release(after)
		check(c, before, during, after)
	})
	sub("the agent is told to end, which jobs do not notice", func(c *cell) {
		job := holder()
		c.root("qconf", "-ke", c.Host)
		c.until("it has ended", func() bool { return !c.agentLives() })
		if err := c.StartAgent(); err != nil {
			c.Fatal(err)
		}
		c.awaitState(job, "r")
		c.release(job)
		check(c, job)
	})
	sub("sge_qmaster is killed while jobs run, and one ends meanwhile", func(c *cell) {
		during, after := holder(), holder()
		if err := c.KillMaster(syscall.SIGKILL); err != nil {
			c.Fatal(err)
		}
		c.release(during)
		c.until("it has ended here", func() bool { return c.exists(c.AgentFile(during, "exit_status")) })
		if err := c.RestartMaster(); err != nil {
			c.Fatal(err)
		}
		c.ended(during, 0, 1)
		c.awaitState(after, "r")
		c.release(after)
		check(c, during, after)
		job := holder()
		c.release(job)
		check(c, job)
	})
	sub("both are killed, and an array goes on", func(c *cell) {
		job := c.qsub("-t", "1-6", "-o", "/dev/null", "-j", "y", script)
		// sge_qmaster repeats an unconfirmed order, but only after five minutes.
		c.until("all run", func() bool { return slices.Equal(c.states(job), slices.Repeat([]string{"r"}, 6)) })
		for task := 1; task <= 6; task++ {
			c.begun(job, task)
		}
		if err := c.KillAgent(syscall.SIGKILL); err != nil {
			c.Fatal(err)
		}
		for task := 1; task <= 3; task++ {
			if err := c.AddFile(fmt.Sprintf("/tmp/go.%d.%d", job, task), "", 0o644); err != nil {
				c.Fatal(err)
			}
		}
		if err := c.KillMaster(syscall.SIGKILL); err != nil {
			c.Fatal(err)
		}
		if err := c.LaunchAgent(); err != nil {
			c.Fatal(err)
		}
		if err := c.RestartMaster(); err != nil {
			c.Fatal(err)
		}
		for task := 4; task <= 6; task++ {
			if err := c.AddFile(fmt.Sprintf("/tmp/go.%d.%d", job, task), "", 0o644); err != nil {
				c.Fatal(err)
			}
		}
		for task := 1; task <= 6; task++ {
			c.want(c.ended(job, task, 1)[0], map[string]string{"exit_status": "7", "failed": "0"})
		}
		c.nothingLeft()
	})
	sub("the agent ends with its jobs", func(c *cell) {
		job := holder()
		c.root("qconf", "-kej", c.Host)
		c.until("it has ended", func() bool { return !c.agentLives() })
		if err := c.StartAgent(); err != nil {
			c.Fatal(err)
		}
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "100", "exit_status": "137"})
		c.nothingLeft()
	})
}

// agentLives reports whether the process of the agent exists.
func (c *cell) agentLives() bool {
	pid, err := c.AgentPID()
	if err != nil {
		return false
	}
	_, err = os.Stat(c.Proc(pid))
	return err == nil
}

// TestConfiguration checks changes by the administrator while the agent runs.
func TestConfiguration(t *testing.T) {
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01"}})
	c.queue("all.q", nil)
	if err := c.AddFile(gridengine.BinDir+"/sensor", `#!/bin/sh
while read -r line; do
	[ "$line" != quit ] || exit 0
	echo begin; echo "`+c.Host+`:scratch:42G"; echo "global:licences:5"; echo end
done
`, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"scratch sc MEMORY <= YES NO 0 0", "licences li INT <= YES NO 0 0"} {
		complexes := c.root("qconf", "-sc")
		if err := c.Configure("-Mc", "complexes", complexes+line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	sub := func(name string, f func(c *cell)) { c.Run(name, func(t *testing.T) { f(&cell{c.Cell, t}) }) }
	sub("load sensors report for the host and for the cell", func(c *cell) {
		if err := c.SetConf(map[string]string{"load_sensor": gridengine.BinDir + "/sensor"}); err != nil {
			c.Fatal(err)
		}
		c.until("qhost shows the values", func() bool {
			out := c.root("qhost", "-F")
			return strings.Contains(out, "hl:scratch=42.000G") && regexp.MustCompile(`(?m)gl:licences=5(\.0+)?$`).MatchString(out)
		})
	})
	sub("a value that is gone is not shown any more", func(c *cell) {
		if err := c.SetConf(map[string]string{"load_sensor": "none"}); err != nil {
			c.Fatal(err)
		}
		c.until("qhost does not show it", func() bool { return !strings.Contains(c.root("qhost", "-F"), "hl:scratch") })
	})
	sub("a prolog of the global configuration is used from now on", func(c *cell) {
		if err := c.AddFile(gridengine.BinDir+"/gprolog", "#!/bin/sh\necho global\n", 0o755); err != nil {
			c.Fatal(err)
		}
		if err := c.SetConf(map[string]string{"prolog": gridengine.BinDir + "/gprolog"}); err != nil {
			c.Fatal(err)
		}
		c.until("a job runs with it", func() bool { return c.wrote("global") })
	})
	sub("the local configuration goes before the global one", func(c *cell) {
		if err := c.AddFile(gridengine.BinDir+"/lprolog", "#!/bin/sh\necho local\n", 0o755); err != nil {
			c.Fatal(err)
		}
		if err := c.Configure("-Aconf", c.Host, "prolog "+gridengine.BinDir+"/lprolog\n"); err != nil {
			c.Fatal(err)
		}
		// sge_qmaster announces a new local configuration with the next change of the global one.
		if err := c.SetConf(map[string]string{"epilog": "none", "loglevel": "log_info"}); err != nil {
			c.Fatal(err)
		}
		c.until("a job runs with it", func() bool { return c.wrote("local") })
	})
	sub("who is given more tickets gets more of the processors", func(c *cell) {
		if err := c.SetSchedulerConf(map[string]string{"weight_tickets_functional": "1000", "reprioritize_interval": "0:0:1"}); err != nil {
			c.Fatal(err)
		}
		jobs := []int{c.sleeper(), c.sleeper()}
		share := func(job int) int {
			pid, err := c.AgentJobPID(job, 0)
			if err != nil {
				c.Fatal(err)
			}
			return c.share(pid)
		}
		for i := range jobs {
			more, fewer := jobs[i], jobs[1-i]
			c.root("qalter", "-ot", "1000", strconv.Itoa(more))
			c.root("qalter", "-ot", "10", strconv.Itoa(fewer))
			c.until("it has a larger share", func() bool { return share(more) > share(fewer) })
		}
		if c.series() == "8.1" { // in later releases an execution daemon does not learn that
			if err := c.SetSchedulerConf(map[string]string{"reprioritize_interval": "0:0:0"}); err != nil {
				c.Fatal(err)
			}
			c.until("both have the same", func() bool { return share(jobs[0]) == share(jobs[1]) })
		}
		for _, job := range jobs {
			c.alice("qdel", strconv.Itoa(job))
			c.ended(job, 0, 1)
		}
	})
}

// share returns a measure for the share of the processors that a process gets. A larger number
// means a larger share: the weight of its control group or, in the same group, even the agent's,
// its nice value.
func (c *cell) share(pid int) int {
	c.Helper()
	const niceValues = 40
	weight, _ := c.Weight(pid)
	return niceValues*weight - c.Nice(pid)
}

// wrote runs a job and reports whether the first line of its output is a text.
func (c *cell) wrote(text string) bool {
	c.Helper()
	path := filepath.Join("/home/alice", "wrote")
	job := c.qsub("-o", path, "-j", "y", "-b", "y", "/bin/true")
	c.ended(job, 0, 1)
	return c.exists(path) && strings.HasSuffix(c.file(path), text+"\n")
}

// migrate changes to the original, and back to the agent.
func migrate(c *cell) {
	agent, err := c.AgentPID()
	if err != nil {
		c.Fatal(err)
	}
	pid := agent
	for _, start := range []func() error{func() error { return c.StartExecd() }, func() error { return c.StartAgent() }} {
		job := c.qsub("-o", "/dev/null", "-j", "y", c.script("leaves.sh", hold))
		c.awaitState(job, "r")
		c.root("qmod", "-d", "*@"+c.Host)
		c.release(job)
		c.until("the host has no job", func() bool { return !strings.Contains(c.root("qhost", "-j", "-h", c.Host), "MASTER") })
		c.root("qconf", "-ke", c.Host)
		c.until("its daemon has ended", func() bool { _, err := os.Stat(c.Proc(pid)); return os.IsNotExist(err) })
		if err := start(); err != nil {
			c.Fatal(err)
		}
		c.root("qmod", "-e", "*@"+c.Host)
		c.want(c.ended(job, 0, 1)[0], map[string]string{"exit_status": "7", "failed": "0"})
		job = c.qsub("-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		c.want(c.ended(job, 0, 1)[0], map[string]string{"exit_status": "0", "failed": "0"})
		if pid, err = c.ExecdPID(); err != nil {
			c.Fatal(err)
		}
	}
}

// TestOtherReleases checks that a request in the format of another release does not harm sge_qmaster.
func TestOtherReleases(t *testing.T) {
	if os.Getenv(testenv.OCSEnv) != "" {
		t.Skip("it checks what a sge_qmaster of 8.1.9 does with requests of other releases")
	}
	c := start(t, gridengine.Config{Nodes: []string{"node1"}})
	for _, release := range []string{"9.1", "9.0"} {
		t.Run(release, func(t *testing.T) {
			c := &cell{c.Cell, t}
			if err := c.KillAgent(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := c.LaunchAgentWith([]string{"--master-version", release}); err != nil {
				t.Fatal(err)
			}
			c.until("sge_qmaster has got the request", func() bool {
				return strings.Contains(c.Messages(), map[string]string{"9.1": "read 0x10021000", "9.0": "uses newer GDI version 268472320"}[release])
			})
			c.root("qhost")
			if strings.Contains(c.AgentLog(), "the connection with sge_qmaster is gone") {
				t.Error("sge_qmaster has ended")
			}
		})
	}
	c.anotherAgent()
}

// TestRefusedRegistration checks that the error for a host that is not accepted names the necessary
// steps.
func TestRefusedRegistration(t *testing.T) {
	c := start(t, gridengine.Config{Nodes: []string{"node1"}})
	c.queue("all.q", nil)
	t.Run("the original takes its place, and it that of the original, as docs/gridengine.md says", func(t *testing.T) {
		migrate(&cell{c.Cell, t})
	})
	c.root("qconf", "-dq", "all.q")
	if err := c.KillAgent(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	says := func(c *cell, words string) {
		c.Helper()
		c.until("the agent says "+strconv.Quote(words), func() bool { return strings.Contains(c.AgentLog(), words) })
	}
	t.Run("another execution daemon has the port", func(t *testing.T) {
		if err := c.StartExecd(); err != nil {
			t.Fatal(err)
		}
		if err := c.LaunchAgent(); err != nil {
			t.Fatal(err)
		}
		says(&cell{c.Cell, t}, "stop the sge_execd of this host first (qconf -ke "+c.Host+")")
		if err := c.StopExecd(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("another execution daemon is connected", func(t *testing.T) {
		if err := c.StartExecd(); err != nil {
			t.Fatal(err)
		}
		if err := c.LaunchAgent("SGE_EXECD_PORT=7777"); err != nil {
			t.Fatal(err)
		}
		says(&cell{c.Cell, t}, "another execution daemon of this host is connected; end it (qconf -ke "+c.Host+")")
		if err := c.StopExecd(); err != nil {
			t.Fatal(err)
		}
		// It takes over when the other daemon has stopped.
		c.until("it is registered", func() bool {
			return strings.Count(c.AgentLog(), "registered with sge_qmaster") >= 2
		})
		if err := c.KillAgent(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("qmaster knows this host by another name", func(t *testing.T) {
		if err := c.LaunchAgentWith([]string{"--host", "otherhost"}); err != nil {
			t.Fatal(err)
		}
		says(&cell{c.Cell, t}, "has to resolve the address of this host to the name otherhost")
		if err := c.KillAgent(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("this host is no administrative host", func(t *testing.T) {
		sub := &cell{c.Cell, t}
		c.root("qconf", "-dh", "node1")
		if err := c.LaunchNode("node1", true); err != nil {
			t.Fatal(err)
		}
		log := func() string {
			text, _ := os.ReadFile(c.Path("/home/cell/agent.node1.log"))
			return string(text)
		}
		sub.until("it says what to do", func() bool {
			return strings.Contains(log(), "make this host an administrative host: qconf -ah node1")
		})
		c.root("qconf", "-ah", "node1")
		sub.until("it has registered by itself", func() bool { return strings.Contains(log(), "registered with sge_qmaster") })
	})
	t.Run("there is no cell", func(t *testing.T) {
		if err := c.LaunchAgent("SGE_CELL=nowhere"); err != nil {
			t.Fatal(err)
		}
		says(&cell{c.Cell, t}, `cannot read the bootstrap file of the cell "nowhere"`)
	})
	t.Run("sge_qmaster is not there", func(t *testing.T) {
		if err := c.KillMaster(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := c.LaunchAgent(); err != nil {
			t.Fatal(err)
		}
		says(&cell{c.Cell, t}, "connection refused")
		if err := c.RestartMaster(); err != nil {
			t.Fatal(err)
		}
		says(&cell{c.Cell, t}, "connected with sge_qmaster")
	})
}
