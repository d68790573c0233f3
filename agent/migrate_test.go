package agent

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// TestMigrationWithoutSupervisor checks that a job migrates although its supervisor was killed
// during the migration.
func TestMigrationWithoutSupervisor(t *testing.T) {
	c := load(t, map[string]string{
		"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds NONE\nckpt_list c\n",
		"ckpts/c":      "ckpt_name c\ninterface userdefined\nwhen x\n",
	})
	w := newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) { return c, "test", nil }
	})
	id := w.mustStart(w.job(1, "-ckpt", "c", "sleep", "1000")).ID
	pid := w.await(id, Running).PID
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := w.agent.Signal(t.Context(), id, Migrate); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if o := w.ended(id); o.Failed != job.FailedMigrate || o.Effect != job.Restarts || o.Restart != job.RestartedJob {
		t.Errorf("%+v", o)
	}
}
