package cluster

import (
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/test/gridengine"
)

// TestOwnersFailuresStopNoQueue checks that a procedure that fails because the owner of the job makes
// it fail does not disable a queue if it succeeds for other owners, and that a procedure that fails
// for several owners does disable the queue.
func TestOwnersFailuresStopNoQueue(t *testing.T) {
	// The owner kills the process for which the procedure waits.
	const procedure = `#!/bin/sh
[ ! -e /home/cell/broken ] || exit 1
[ -e /home/$1/attack.$2 ] || exit 0
rm /home/$1/attack.$2
sleep 3600 &
echo $! >/home/$1/new
mv /home/$1/new /home/$1/victim
wait $! || exit 3
`
	c := start(t, gridengine.Config{})
	if err := c.AddFile(gridengine.BinDir+"/procedure", procedure, 0o755); err != nil {
		t.Fatal(err)
	}
	line := gridengine.BinDir + "/procedure $job_owner "
	c.queue("all.q", map[string]string{"prolog": line + "prolog", "epilog": line + "epilog", "slots": "9"})
	sub := func(user string, args ...string) int {
		t.Helper()
		id, err := c.Submit(user, append([]string{"-o", "/dev/null", "-j", "y"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	works := func() {
		t.Helper()
		c.want(c.ended(sub("bob", "-b", "y", "/bin/true"), 0, 1)[0], map[string]string{"failed": "0"})
	}
	attack := func(step string) int {
		t.Helper()
		c.alice("touch", "/home/alice/attack."+step)
		id := sub("alice", "-b", "y", "/bin/true")
		c.until("the "+step+" waits", func() bool { return c.exists("/home/alice/victim") })
		c.alice("sh", "-c", "read pid </home/alice/victim && rm /home/alice/victim && kill $pid")
		return id
	}
	works()

	id := attack("prolog")
	c.awaitState(id, "Eqw")
	c.want(c.ended(id, 0, 1)[0], map[string]string{"failed": "30"})
	if out := c.alice("qstat", "-j", strconv.Itoa(id)); !strings.Contains(out, "has succeeded for another owner") {
		t.Errorf("the reason:\n%s", out)
	}
	works()

	id = attack("epilog")
	c.want(c.ended(id, 0, 1)[0], map[string]string{"failed": "14"})
	works()

	// A new agent knows this from the running jobs.
	waiting := sub("bob", "-b", "y", "sleep", "3600")
	c.awaitState(waiting, "r")
	c.anotherAgent()
	c.awaitState(attack("prolog"), "Eqw")
	works()

	// The procedure now fails for everybody: one job of each of two owners is sufficient to disable
	// the queue.
	if err := c.AddFile("/home/cell/broken", "", 0o644); err != nil {
		t.Fatal(err)
	}
	c.awaitState(sub("alice", "-b", "y", "/bin/true"), "Eqw")
	id = sub("bob", "-b", "y", "/bin/true")
	c.until("the queue is in error state", func() bool {
		return strings.Contains(c.root("qstat", "-f", "-explain", "E"), "QERROR as result of job "+strconv.Itoa(id))
	})
	c.awaitState(id, "qw")
}
