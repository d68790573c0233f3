package cluster

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestJobsOfAnotherDaemon checks that the agent takes over a host while jobs of the original daemon
// run there: it reports exactly the jobs that it does not know.
func TestJobsOfAnotherDaemon(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	c := &cell{gridengine.Start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:02"}}), t}
	c.queue("all.q", map[string]string{"slots": "10"})
	over := c.qsub("-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
	c.ended(over, 0, 1)
	job := c.qsub("-o", "/dev/null", "-j", "y", "-b", "y", "/bin/sleep", "1000")
	array := c.qsub("-t", "2-3", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/sleep", "1000")
	waits := c.qsub("-h", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
	c.awaitState(job, "r")
	c.until("both tasks run", func() bool {
		s := c.states(array)
		return len(s) == 2 && s[0] == "r" && s[1] == "r"
	})
	if err := c.StopExecd(); err != nil {
		t.Fatal(err)
	}
	programs := built(t)
	for _, name := range []string{"execd", "sge_shepherd-go"} {
		if err := c.AddProgram(name, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.StartAgent(); err != nil {
		t.Fatal(err)
	}
	named := func() string {
		var all []string
		for _, m := range regexp.MustCompile(`that the agent does not know: .*job=(\d+) task=(\d+) owner=alice`).FindAllStringSubmatch(c.AgentLog(), -1) {
			all = append(all, m[1]+"."+m[2])
		}
		return strings.Join(all, " ")
	}
	want := strconv.Itoa(job) + ".1 " + strconv.Itoa(array) + ".2 " + strconv.Itoa(array) + ".3"
	c.until("the jobs of the other daemon are named", func() bool { return named() != "" })
	if got := named(); got != want {
		t.Errorf("%q are named, expected %q; job %d is over, and %d waits\n%s", got, want, over, waits, c.AgentLog())
	}

	// It does not report its own job, even after it has registered again.
	own := c.qsub("-o", "/dev/null", "-j", "y", "-b", "y", "/bin/sleep", "1000")
	c.awaitState(own, "r")
	if err := c.KillAgent(9); err != nil {
		t.Fatal(err)
	}
	if err := c.StartAgent(); err != nil {
		t.Fatal(err)
	}
	c.until("they are named again", func() bool { return named() == want+" "+want })

	// The commands of docs/gridengine.md for such jobs.
	for _, n := range []int{job, array} {
		c.root("qdel", "-f", strconv.Itoa(n))
		c.awaitState(n, "")
	}
	c.root("qdel", strconv.Itoa(own))
	c.awaitState(own, "")
	if _, err := c.Root("pgrep", "-x", "sleep"); err != nil {
		t.Errorf("the processes of the other daemon's jobs are gone: %v", err)
	}
}

// TestLocalConfiguration checks that the agent uses a new local configuration soon, although
// sge_qmaster does not announce it, and stops using it after its removal.
func TestLocalConfiguration(t *testing.T) {
	t.Parallel()
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:05"}})
	if err := c.AddFile("/home/alice/"+c.Host, "load_report_time 00:00:07\n", 0o644); err != nil {
		t.Fatal(err)
	}
	c.root("qconf", "-Aconf", "/home/alice/"+c.Host)
	c.until("the configuration of the host is used", func() bool {
		return regexp.MustCompile(`is used: versions="global \d+, ` + c.Host + ` \d+"`).MatchString(c.AgentLog())
	})
	c.root("qconf", "-dconf", c.Host)
	c.until("it is no more", func() bool {
		return regexp.MustCompile(`(?s)` + c.Host + ` \d+".*is used: versions="global \d+"`).MatchString(c.AgentLog())
	})
}
