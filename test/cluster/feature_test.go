package cluster

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestFeatures checks checkpointing, advance reservations, and changes of jobs and queues.
func TestFeatures(t *testing.T) {
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01"}})
	for name, text := range map[string]string{
		"ckpt":  "echo checkpoint $2 >>/home/alice/ckpt.$1\n",
		"migr":  "echo migrate $3 >>/home/alice/ckpt.$1; kill -9 -$2\n",
		"clean": "echo clean >>/home/alice/ckpt.$1\n",
		"fails": "exit 1\n",
	} {
		if err := c.AddFile(gridengine.BinDir+"/"+name, "#!/bin/sh\n"+text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, ckpt := range map[string]map[string]string{
		"own": {"interface": "userdefined", "signal": "USR1"},
		"app": {
			"interface": "application-level", "ckpt_dir": "/home/alice", "ckpt_command": gridengine.BinDir + "/ckpt $job_id $ckpt_dir",
			"migr_command": gridengine.BinDir + "/migr $job_id $job_pid $ckpt_dir", "clean_command": gridengine.BinDir + "/clean $job_id",
		},
	} {
		if err := c.AddCkpt(name, ckpt); err != nil {
			t.Fatal(err)
		}
	}
	c.queue("all.q", map[string]string{"slots": "40"})
	c.queue("ckpt.q", map[string]string{"ckpt_list": "own app"})
	c.queue("fails.q", map[string]string{"prolog": gridengine.BinDir + "/fails"})
	c.root("qconf", "-au", "alice", "arusers")

	t.Run("features", func(t *testing.T) {
		checkpoints(&cell{c.Cell, t})
		reservations(&cell{c.Cell, t})
		changes(&cell{c.Cell, t})
	})
	c.nothingLeft()
}

// again is a script that waits in its first run, and exits with 6 in its second.
const again = "echo $RESTARTED\n[ $RESTARTED = 0 ] || exit 6\ntrap 'echo told' USR1\ntouch /home/alice/ready.$JOB_ID\nwhile :; do sleep 0.1; done\n"

func checkpoints(c *cell) {
	for name, want := range map[string]struct{ restarted, commands string }{
		"own": {"1", ""},
		"app": {"2", "migrate /home/alice\nclean\n"},
	} {
		c.run("a job of the checkpointing environment "+name+" is suspended, and goes on elsewhere", func(c *cell) {
			out := "/home/alice/again." + name
			job := c.qsub("-q", "ckpt.q", "-ckpt", name, "-c", "sx", "-o", out, "-j", "y", c.script("again."+name+".sh", again))
			c.until("it is ready", func() bool { return c.exists(fmt.Sprintf("/home/alice/ready.%d", job)) })
			c.awaitState(job, "r")
			c.alice("qmod", "-sj", strconv.Itoa(job))
			r := c.ended(job, 0, 2)
			c.want(r[0], map[string]string{"failed": "24"})
			c.want(r[1], map[string]string{"failed": "0", "exit_status": "6"})
			if got := c.file(out); !strings.HasPrefix(got, "0\n") || !strings.HasSuffix(got, "\n"+want.restarted+"\n") {
				c.Errorf("it wrote %q", got)
			}
			got, _ := os.ReadFile(c.Path(fmt.Sprintf("/home/alice/ckpt.%d", job)))
			if string(got) != want.commands {
				c.Errorf("its commands wrote %q, want %q", got, want.commands)
			}
		})
	}
}

func reservations(c *cell) {
	reserve := func(c *cell, seconds int) string {
		c.Helper()
		return digits.FindString(c.alice("qrsub", "-d", strconv.Itoa(seconds), "-q", "all.q"))
	}
	c.run("a job runs in an advance reservation", func(c *cell) {
		ar := reserve(c, 3600)
		job := c.qsub("-ar", ar, "-o", "/home/alice/ar", "-j", "y", c.script("ar.sh", "echo $QUEUE; exit 3\n"))
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "3", "arid": ar})
		c.alice("qrdel", ar)
	})
	c.run("what goes on beyond an advance reservation is ended", func(c *cell) {
		script := c.sleepScript()
		for seconds := 8; ; seconds *= 2 { // the time may be over before the job has begun
			ar := reserve(c, seconds)
			out, err := c.User("alice", "qsub", "-terse", "-ar", ar, "-o", "/dev/null", "-j", "y", script)
			if err != nil {
				continue
			}
			job, _ := strconv.Atoi(strings.TrimSpace(out))
			// sge_qmaster removes it without a record.
			c.awaitState(job, "")
			if c.exists(fmt.Sprintf("/tmp/began.%d.", job)) {
				return
			}
		}
	})
}

func changes(c *cell) {
	c.run("qalter -p changes a job that runs, and one that waits", func(c *cell) {
		runs := c.sleeper("-q", "all.q")
		waits := c.qsub("-q", "all.q", "-h", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		for _, job := range []int{runs, waits} {
			c.alice("qalter", "-p", "-100", strconv.Itoa(job))
			// Open Cluster Scheduler may answer a request with data from before the change.
			c.until("qstat -j shows it", func() bool {
				return regexp.MustCompile(`(?m)^priority: +-100$`).MatchString(c.root("qstat", "-j", strconv.Itoa(job)))
			})
		}
		c.alice("qrls", strconv.Itoa(waits))
		c.want(c.ended(waits, 0, 1)[0], map[string]string{"failed": "0"})
		if s := c.state(runs); s != "r" {
			c.Errorf("the job that ran is in state %q", s)
		}
		c.alice("qdel", strconv.Itoa(runs))
		c.ended(runs, 0, 1)
	})
	c.run("qmod -c clears the error of a queue, and that of a job", func(c *cell) {
		failed := func() bool { return strings.Contains(c.root("qstat", "-f", "-q", "fails.q"), " E\n") }
		job := c.qsub("-q", "fails.q", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		c.until("the queue is in error", failed)
		if out := c.root("qstat", "-f", "-q", "fails.q", "-explain", "E"); !strings.Contains(out, fmt.Sprintf("queue fails.q marked QERROR as result of job %d's failure at host %s", job, c.Host)) {
			c.Errorf("qstat -explain E says\n%s", out)
		}
		c.alice("qhold", strconv.Itoa(job))
		_, _ = c.Root("qmod", "-c", "fails.q") // exits with 1 although it succeeds
		c.until("it is not any more", func() bool { return !failed() })
		c.alice("qdel", strconv.Itoa(job))

		job = c.qsub("-q", "all.q", "-o", "/dev/null", "-j", "y", c.script("clear.sh", "exit 100\n"))
		c.awaitState(job, "Eqw")
		c.alice("qhold", strconv.Itoa(job))
		_, _ = c.Root("qmod", "-c", strconv.Itoa(job))
		c.awaitState(job, "hqw")
		c.alice("qdel", strconv.Itoa(job))
	})
}

// TestSoakRescheduleUnknown checks that if a host is unreachable for too long, its rerunnable jobs run
// elsewhere. When the host returns, it kills the previous runs.
func TestSoakRescheduleUnknown(t *testing.T) {
	testenv.Soak(t)
	c := start(t, gridengine.Config{Nodes: []string{"node1", "node2"}, Conf: map[string]string{
		"load_report_time": "00:00:02", "max_unheard": "00:00:10", "reschedule_unknown": "00:00:10",
	}})
	for _, n := range []string{"node1", "node2"} {
		if err := c.StartNode(n, true); err != nil {
			t.Fatal(err)
		}
	}
	c.queue("all.q", map[string]string{"hostlist": "node1 node2", "slots": "4", "rerun": "TRUE", "tmpdir": "/tmp,[node1=/tmp/node1],[node2=/tmp/node2]"})
	script := c.script("unknown.sh", "echo $(hostname) $RESTARTED >>/home/alice/unknown.$JOB_ID\nwhile [ ! -e /tmp/go.$JOB_ID. ]; do sleep 0.1; done\nexit 7\n")
	again := c.qsub("-q", "all.q@node1,all.q@node2", "-soft", "-q", "all.q@node1", "-r", "y", "-o", "/dev/null", "-j", "y", script)
	stays := c.qsub("-q", "all.q@node1", "-r", "n", "-o", "/dev/null", "-j", "y", script)
	c.awaitState(again, "r")
	c.awaitState(stays, "r")
	if err := c.KillNode("node1", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := c.Poll(5*time.Minute, "it runs elsewhere", func() (bool, error) {
		text, err := os.ReadFile(c.Path(fmt.Sprintf("/home/alice/unknown.%d", again)))
		return strings.HasSuffix(string(text), "node2 1\n"), err
	}); err != nil {
		t.Fatalf("%v\n%s", err, c.Messages())
	}
	if err := c.StartNode("node1", true); err != nil {
		t.Fatal(err)
	}
	if err := c.Poll(5*time.Minute, "node1 has ended its copy", func() (bool, error) {
		return len(c.NodeJobs("node1")) == 1, nil
	}); err != nil {
		t.Error(err)
	}
	c.release(again)
	c.release(stays)
	c.want(c.ended(stays, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "7", "hostname": "node1"})
	c.until("it has ended", func() bool { return c.state(again) == "" })
	r := c.ended(again, 0, 2)
	c.want(r[1], map[string]string{"failed": "0", "exit_status": "7", "hostname": "node2"})
}
