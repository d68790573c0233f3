package cluster

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestDirectoriesOfJobs checks that jobs of a real sge_qmaster get their own /tmp, which their tasks
// share, and a TMPDIR of the size that they have requested, and that neither leaves files if the agent
// is killed while they run.
func TestDirectoriesOfJobs(t *testing.T) {
	testenv.Require(t, testenv.Loop)
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01", "execd_params": "SCRATCH_LIMIT=image", "mailer": gridengine.BinDir + "/mailer"}})
	if err := c.AddFile(gridengine.BinDir+"/mailer", "#!/bin/sh\nf=$(mktemp /tmp/new.XXXXXX); { echo \"$@\"; cat; } >$f; mv $f /tmp/mail.${f#/tmp/new.}\n", 0o755); err != nil {
		t.Fatal(err)
	}
	complexes := c.root("qconf", "-sc") + "private_tmp private_tmp BOOL == YES NO 0 0\nscratch disk MEMORY <= YES JOB 0 0\n"
	if err := c.AddFile("/tmp/complexes", complexes, 0o644); err != nil {
		t.Fatal(err)
	}
	c.root("qconf", "-Mc", "/tmp/complexes")
	c.root("qconf", "-mattr", "exechost", "complex_values", "private_tmp=TRUE,scratch=1G", c.Host)
	if err := c.AddPE("smp", map[string]string{"allocation_rule": "$pe_slots", "control_slaves": "TRUE", "accounting_summary": "TRUE", "slots": "99"}); err != nil {
		t.Fatal(err)
	}
	c.queue("all.q", map[string]string{"slots": "10", "pe_list": "smp"})

	script := c.script("directories.sh", `if [ "$1" = task ]; then cat /tmp/of-job; exit; fi
echo of-job >/tmp/of-job; ls /tmp/complexes
[ -z "$PE" ] || qrsh -inherit $HOSTNAME $0 task
df -k $TMPDIR | awk 'END { print $2 < 4096 }'
echo >/home/alice/begun.$JOB_ID
while [ ! -e /home/alice/end.$JOB_ID ]; do sleep 0.1; done
dd if=/dev/zero of=$TMPDIR/large bs=64k count=1000 2>/dev/null`)
	job := c.qsub("-m", "e", "-o", "/home/alice/out", "-e", "/dev/null", "-l", "private_tmp,disk=4M", "-pe", "smp", "2", script)
	c.until("the job runs", func() bool { return c.exists(fmt.Sprintf("/home/alice/begun.%d", job)) })
	c.anotherAgent()
	if err := c.AddFile(fmt.Sprintf("/home/alice/end.%d", job), "", 0o644); err != nil {
		t.Fatal(err)
	}
	c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "1"})
	if got := c.file("/home/alice/out"); got != "of-job\n1\n" {
		t.Errorf("the job says\n%s", got)
	}
	c.mail(job, "Complete", "Note: TMPDIR was full at ", "-l scratch=16M")
	c.nothingLeft()
	if left, err := filepath.Glob(c.Path("/tmp") + "/*all.q*"); err != nil || len(left) > 0 {
		t.Errorf("in /tmp are %q, %v", left, err)
	}
}
