package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestPrivateTmpOfAJob checks that with the built-in configuration of a daemon of root a job gets its
// own /tmp on request.
func TestPrivateTmpOfAJob(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Root)
	privateTmpOfAJob(t, newMachine(t, 2))
}

// TestFrontPrivateTmp checks that a job gets its own /tmp with two processes.
func TestFrontPrivateTmp(t *testing.T) {
	t.Parallel()
	m := newFront(t, 2)
	privateTmpOfAJob(t, m)
	m.refusedNothing()
}

func privateTmpOfAJob(t *testing.T, m *machine) {
	t.Helper()
	m.builtin = true
	u := someUsers(t, 1)[0]
	m.start()
	out := filepath.Join(m.open("out"), "o")
	r := m.as(u, "qsub", "-terse", "-sync", "y", "-wd", "/", "-l", "private_tmp", "-o", out, "-j", "y", "-b", "y",
		"ls /tmp; stat -c %u:%a /tmp; cd $TMPDIR && echo tmpdir; echo left >/tmp/file")
	b, _ := os.ReadFile(out)
	if r.status != 0 || !strings.Contains(string(b), "0:1777\ntmpdir\n") {
		t.Errorf("%+v; the job says %q", r, b)
	}
	m.until("nothing is left over", func() bool {
		left, _ := filepath.Glob("/tmp/1.1.all.q*.private*")
		for _, dir := range left {
			if _, err := os.Stat(dir + "/tmp/file"); err == nil {
				return false
			}
		}
		return true
	})
}

// TestPrivateTmpIsRefused checks that daemons that cannot give jobs their own /tmp offer none, and say
// so.
func TestPrivateTmpIsRefused(t *testing.T) {
	t.Parallel()
	m, u := newcomer(t)
	m.start()
	r := m.as(u, "qsub", "-terse", "-l", "private_tmp", "-b", "y", "true")
	id := strings.TrimSpace(r.stdout)
	m.until("there is a reason", func() bool {
		return strings.Contains(m.as(u, "qstat", "-j", id).stdout, "it offers only hf:private_tmp=false")
	})
	m.as(u, "qdel", id)
}
