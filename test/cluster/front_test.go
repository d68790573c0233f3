package cluster

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// frontUser is the administrator of the cell: sge_qmaster talks to no other fronts.
const frontUser = "sgeadmin"

// TestSoakFrontParallel does what TestParallel does, with agents of two processes.
func TestSoakFrontParallel(t *testing.T) {
	testenv.Soak(t)
	parallelJobs(t, frontUser)
}

// TestSoakFrontInteractive does what TestInteractive does, with an agent of two processes.
func TestSoakFrontInteractive(t *testing.T) {
	testenv.Soak(t)
	interactiveJobs(t, frontUser)
}

// TestSoakFrontTerminals does what TestTerminals does, with an agent of two processes.
func TestSoakFrontTerminals(t *testing.T) {
	testenv.Soak(t)
	terminals(t, frontUser)
}

// TestFront checks that an agent of two processes takes the jobs of an sge_qmaster, as the administrator of the cell, and its
// launcher starts them: batch jobs, tasks of parallel jobs, and sessions. Either process may be killed.
func TestFront(t *testing.T) {
	c := start(t, gridengine.Config{FrontUser: frontUser})
	if err := c.AddPE("tight", map[string]string{"slots": "100", "allocation_rule": "$fill_up", "control_slaves": "TRUE", "job_is_first_task": "FALSE"}); err != nil {
		t.Fatal(err)
	}
	c.queue("all.q", map[string]string{"slots": "4", "pe_list": "tight"})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", c.AgentLog())
		}
	})

	job := func(text string) int {
		return c.qsub("-o", "/home/alice/out", "-j", "y", c.script("job.sh", text))
	}
	r := c.ended(job("id -un; exit 3\n"), 0, 1)[0]
	c.want(r, map[string]string{"exit_status": "3", "failed": "0", "owner": "alice", "qname": "all.q", "slots": "1"})
	if out := c.file("/home/alice/out"); out != "alice\n" {
		t.Errorf("the job wrote %q", out)
	}
	launcher, err := c.AgentPID()
	if err != nil {
		t.Fatal(err)
	}
	front := strings.Fields(c.root("pgrep", "-P", strconv.Itoa(launcher), "-u", frontUser, "-x", "execd"))
	if len(front) != 1 {
		t.Fatalf("the fronts are %q", front)
	}
	for _, line := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if status := c.root("cat", "/proc/"+front[0]+"/status"); !strings.Contains(status, line+"\n") {
			t.Errorf("the front is not as it should be: %q\n%s", line, status)
		}
	}

	for _, which := range []string{"front", "launcher"} {
		task := "echo begun; while ! test -e /home/alice/go" + which + "; do sleep 0.1; done; exit 4"
		id := c.qsub("-pe", "tight", "2", "-o", "/home/alice/out", "-j", "y", c.script(which+".sh", "qrsh -inherit $(hostname) '"+task+"'\n"))
		c.until("the job runs", func() bool { return strings.Contains(c.file("/home/alice/out"), "begun\n") })
		if which == "front" {
			c.root("pkill", "-KILL", "-u", frontUser, "-x", "execd")
		} else {
			if err := c.KillAgent(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := c.LaunchAgent(); err != nil {
				t.Fatal(err)
			}
		}
		c.root("touch", "/home/alice/go"+which)
		c.until("the job and its task have records", func() bool { return len(c.records(id)) == 2 })
		c.want(c.records(id)["1."+c.Host], map[string]string{"exit_status": "4", "failed": "0"})
		c.wantScriptStatus(c.records(id)["NONE"], "4")
		c.root("truncate", "-s", "0", "/home/alice/out")
	}

	// The command of qrsh is in a variable that is not UTF-8.
	if out := c.alice("qrsh", "-now", "n", "echo", "hello;", "id", "-un"); out != "hello\nalice\n" {
		t.Errorf("the session wrote %q", out)
	}
	script := c.script("spread.sh", "h=$(hostname)\nqrsh -inherit $h 'id -un; exit 6'\necho $?\nqrsh -inherit $h 'echo $JOB_NAME'\nexit 5\n")
	parallel := c.qsub("-pe", "tight", "2", "-o", "/home/alice/par", "-j", "y", script)
	c.until("the job and its tasks have records", func() bool { return len(c.records(parallel)) == 3 })
	found := c.records(parallel)
	c.want(found["NONE"], map[string]string{"failed": "0", "granted_pe": "tight"})
	c.wantScriptStatus(found["NONE"], "5")
	if r := found["1."+c.Host]; r["exit_status"] != "6" {
		t.Errorf("the record of the first task is %v", r)
	}
	if out := c.file("/home/alice/par"); out != "alice\n6\npetask\n" {
		t.Errorf("the parallel job wrote %q", out)
	}
	c.nothingLeft()
	if list := c.file("/home/cell/agent/launcher-audit"); list != "" {
		t.Errorf("the launcher has refused %s", list)
	}
}
