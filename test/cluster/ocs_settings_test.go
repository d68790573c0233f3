package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestOpenClusterSchedulerSettings checks settings and options that Open Cluster Scheduler has
// introduced, or that its users rely on.
func TestOpenClusterSchedulerSettings(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.OCS)
	c := start(t, gridengine.Config{Conf: map[string]string{
		"load_report_time": "00:00:01", "execd_params": "KEEP_ACTIVE=ERROR", "mail_tag": "[lab]", "administrator_mail": "alice",
		"mailer": gridengine.BinDir + "/mailer",
	}})
	for path, text := range map[string]string{
		gridengine.BinDir + "/mailer":                            "#!/bin/sh\nf=$(mktemp /tmp/new.XXXXXX); { echo \"$@\"; cat; } >$f; mv $f /tmp/mail.${f#/tmp/new.}\n",
		gridengine.BinDir + "/var/lib/gridengine/default/prolog": "#!/bin/sh\necho prolog $1 $2\n",
	} {
		if err := c.AddFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.queue("all.q", nil)
	c.queue("paths.q", map[string]string{"prolog": gridengine.BinDir + "$sge_root/$sge_cell/prolog $sge_root $sge_cell"})
	sub := func(name string, f func(c *cell)) { c.Run(name, func(t *testing.T) { f(&cell{c.Cell, t}) }) }
	sub("sge_root and sge_cell in the path of a prolog", func(c *cell) {
		job := c.qsub("-q", "paths.q", "-o", "/home/alice/paths", "-j", "y", "-b", "y", "/bin/true")
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "0"})
		if got, want := c.file("/home/alice/paths"), "prolog /var/lib/gridengine default\n"; got != want {
			c.Errorf("the prolog wrote %q, want %q", got, want)
		}
	})
	sub("qsub -sync ends with the status of the job", func(c *cell) {
		out, err := c.User("alice", "qsub", "-sync", "y", "-q", "all.q", "-o", "/dev/null", "-j", "y", c.script("sync.sh", "exit 7\n"))
		if err == nil || !strings.Contains(err.Error(), "exit status 7") {
			c.Errorf("it ended with %v, and wrote %q", err, out)
		}
	})
	sub("KEEP_ACTIVE=ERROR keeps the directories of failed jobs", func(c *cell) {
		good := c.qsub("-q", "all.q", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		c.ended(good, 0, 1)
		failed := c.qsub("-q", "all.q", "-o", "/dev/null", "-j", "y", "-wd", "/no/such/directory", "-b", "y", "/bin/true")
		c.awaitState(failed, "Eqw")
		c.until("only the failed job has a directory", func() bool {
			names, err := c.AgentJobs()
			return err == nil && len(names) == 1 && strings.HasPrefix(names[0], strconv.Itoa(failed)+".")
		})
		subject := regexp.MustCompile(fmt.Sprintf(`(?m)^-s \[lab\] .*: Job %d failed`, failed))
		c.until("the administrator has mail with mail_tag", func() bool {
			files, _ := filepath.Glob(c.Path("/tmp") + "/mail.*")
			for _, f := range files {
				if text, err := os.ReadFile(f); err == nil && subject.Match(text) {
					return true
				}
			}
			return false
		})
		c.alice("qdel", strconv.Itoa(failed))
	})
	sub("qrsh with port_range", func(c *cell) {
		if c.series() != "9.1" {
			c.Skip("9.0 does not have it")
		}
		if err := c.SetConf(map[string]string{"port_range": "31000-31010"}); err != nil {
			c.Fatal(err)
		}
		if out := c.alice("qrsh", "-now", "n", "-q", "all.q", "echo", "hello"); out != "hello\n" {
			c.Errorf("it wrote %q", out)
		}
	})
}
