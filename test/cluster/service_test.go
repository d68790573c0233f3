package cluster

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/test/gridengine"
)

// TestSpoolThatIsGone checks that a host that loses its spool directory loses no jobs: its queue
// instances enter error state, and leave it by themselves when the directory is back.
func TestSpoolThatIsGone(t *testing.T) {
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:05"}})
	c.queue("all.q", map[string]string{"slots": "10"})
	c.queue("other.q", map[string]string{"slots": "10"})
	first := c.qsub("-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
	c.want(c.ended(first, 0, 1)[0], map[string]string{"failed": "0"})
	c.nothingLeft()

	spool := c.Path(gridengine.AgentSpool)
	if err := os.Rename(spool, spool+".aside"); err != nil {
		t.Fatal(err)
	}
	const jobs = 50
	for range jobs {
		c.qsub("-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
	}
	states := func() string {
		all, err := c.QueueStates()
		if err != nil {
			t.Fatal(err)
		}
		return all["all.q"] + " " + all["other.q"]
	}
	c.until("both queue instances are in error state", func() bool { return states() == "E E" })
	waiting := func(state string) (n int) {
		all, err := c.JobStates()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s == state {
				n++
			}
		}
		return n
	}
	c.until("all jobs wait", func() bool { return waiting("qw") == jobs })
	if text := c.Messages(); !strings.Contains(text, "because: the host takes no jobs: cannot use spool directory "+gridengine.AgentSpool) {
		t.Error("the messages of sge_qmaster do not say why")
	}

	if err := os.Rename(spool+".aside", spool); err != nil {
		t.Fatal(err)
	}
	c.until("both queue instances are in use again", func() bool { return states() == " " })
	c.until("all jobs have run", func() bool {
		all, err := c.JobStates()
		return err == nil && len(all) == 0
	})
	records, err := c.Records()
	if err != nil {
		t.Fatal(err)
	}
	ended, failed := 0, 0
	for _, r := range records {
		if r["failed"] == "0" {
			ended++
		} else {
			failed++
		}
	}
	// Orders that are in transit when the first one is refused are refused, too.
	const most = 10
	if t.Attr("refused", strconv.Itoa(failed)); ended != jobs+1 || failed > most {
		t.Errorf("%d jobs have ended, and %d starts have failed", ended, failed)
	}
}
