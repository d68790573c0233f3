package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestSoakCertificates checks a cell with security_mode tls whose certificates are renewed while a job
// runs: tasks start before and after, sessions open, and the agents find sge_qmaster again after its
// restart.
func TestSoakCertificates(t *testing.T) {
	testenv.Soak(t)
	testenv.Require(t, testenv.Root, testenv.OCS)
	if mode := os.Getenv(testenv.OCSSecurityEnv); !strings.Contains(mode, "tls") {
		t.Skipf("%s is %q, without tls", testenv.OCSSecurityEnv, mode)
	}
	c := start(t, gridengine.Config{
		Nodes: []string{"node1"}, SecurityParams: "certificate_lifetime=120", Conf: map[string]string{"load_report_time": "00:00:01"},
	})
	if err := c.StartNode("node1", true); err != nil {
		t.Fatal(err)
	}
	if err := c.AddPE("tight", map[string]string{"slots": "100", "control_slaves": "TRUE", "job_is_first_task": "FALSE", "allocation_rule": "1"}); err != nil {
		t.Fatal(err)
	}
	c.queue("all.q", map[string]string{"hostlist": c.Host + " node1", "pe_list": "tight", "tmpdir": "/tmp,[node1=/tmp/node1]"})
	first := map[string]*x509.Certificate{}
	for _, daemon := range []string{"qmaster_" + c.Host, "execd_" + c.Host, "execd_node1"} {
		first[daemon] = c.certificate(daemon)
	}

	script := c.script("tasks.sh", tellBegin+`
for h in $(cut -d' ' -f1 $PE_HOSTFILE); do
	while [ ! -e /tmp/go.$JOB_ID. ]; do qrsh -inherit $h true; echo $h $? >>/home/alice/tasks.$JOB_ID; sleep 1; done &
done
wait
`)
	job := c.qsub("-pe", "tight", "2", "-masterq", "all.q@"+c.Host, "-o", "/home/alice/tasks", "-j", "y", script)
	tasks := func() []string { return strings.Fields(c.file(fmt.Sprintf("/home/alice/tasks.%d", job))) }
	c.begun(job, 0)
	for daemon, old := range first {
		c.until("the certificate "+daemon+" is renewed", func() bool { return !c.certificate(daemon).Equal(old) })
		c.until("the first certificate "+daemon+" has expired", func() bool { return time.Now().After(old.NotAfter) })
	}
	before := len(tasks())
	c.until("tasks start with the other certificates", func() bool { return len(tasks()) >= before+16 })
	if out := c.alice("qrsh", "-now", "n", "-q", "all.q@node1", "echo", "hello"); out != "hello\n" {
		t.Errorf("qrsh wrote %q", out)
	}
	if err := c.KillMaster(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := c.RestartMaster(); err != nil {
		t.Fatal(err)
	}
	c.release(job)
	c.until("the job has a record", func() bool { return c.records(job)["NONE"] != nil })
	c.want(c.records(job)["NONE"], map[string]string{"failed": "0", "exit_status": "0"})
	for i, word := range tasks() {
		if i%2 == 1 && word != "0" {
			t.Errorf("a task ended with %s: %q, and the job wrote %q", word, tasks(), c.file("/home/alice/tasks"))
			break
		}
	}
	if strings.Contains(c.AgentLog(), "was not renewed") {
		t.Errorf("the agent did not renew its certificate:\n%s", c.AgentLog())
	}
}

// certificate reads the certificate of a daemon.
func (c *cell) certificate(daemon string) *x509.Certificate {
	c.Helper()
	block, _ := pem.Decode([]byte(c.file("/var/lib/gridengine/default/common/certs/" + daemon + ".pem")))
	if block == nil {
		c.Fatalf("the certificate of %s is not in PEM form", daemon)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.Fatal(err)
	}
	return certificate
}
