package agent

import (
	"io/fs"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/qconf"
)

// TestPermitCheckWithoutDescriptorsIsNoRefusal makes the check of a procedure fail, once for lack
// of file descriptors and once because of a decision. The first is no decision: the master may try
// the job again, and the health says why the job does not run.
func TestPermitCheckWithoutDescriptorsIsNoRefusal(t *testing.T) {
	testenv.Require(t, testenv.Root)
	var answer atomic.Pointer[error]
	queues := load(t, map[string]string{
		"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds NONE\nprolog root@/bin/true\n",
	})
	w := newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) { return queues, "test", nil }
		o.Permit = func(string, string) error {
			if err := answer.Load(); err != nil {
				return *err
			}
			return nil
		}
	})
	for n, c := range []struct {
		err      error
		code     Code
		troubles int
	}{
		{&fs.PathError{Op: "open", Path: "/etc/execd/procedures", Err: unix.EMFILE}, ResourceExhausted, 1},
		{&fs.PathError{Op: "open", Path: "/etc/execd/procedures", Err: unix.EACCES}, PermissionDenied, 1},
	} {
		answer.Store(&c.err)
		_, err := w.agent.Start(t.Context(), w.job(n+1, "/bin/true"))
		if troubles := w.agent.Health().Troubles; codeOf(err) != c.code || len(troubles) != c.troubles {
			t.Errorf("%v: the start ends with %v (%s), and the health says %q", c.err, err, codeOf(err), troubles)
		}
	}
	answer.Store(nil)
	if _, err := w.agent.Start(t.Context(), w.job(3, "/bin/true")); err != nil {
		t.Error(err)
	}
	if troubles := w.agent.Health().Troubles; len(troubles) > 0 {
		t.Errorf("afterwards the health says %q", troubles)
	}
}
