package standalone

import (
	"os"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestScratch checks that the built-in configuration has scratch space, which a job books once for all
// its slots, and accepts the requests of workflow engines for containers.
func TestScratch(t *testing.T) {
	t.Parallel()
	m, u := newcomer(t)
	m.start()
	if r := m.as(u, "qhost", "-F", "scratch"); !strings.Contains(r.stdout, "gc:scratch=") && !strings.Contains(r.stdout, "hc:scratch=") {
		t.Fatalf("qhost: %+v", r)
	}
	r := m.as(u, "qsub", "-terse", "-l", "scratch=1000000G", "-b", "y", "true")
	large := strings.TrimSpace(r.stdout)
	m.until("there is a reason", func() bool {
		return strings.Contains(m.as(u, "qstat", "-j", large).stdout, "it offers only hc:scratch=")
	})
	before := m.as(u, "qhost", "-F", "scratch").stdout
	r = m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "-pe", "smp", "2", "-l", "disk=1M,m_mem_free=1M", "-soft", "-l", "docker_images=*x*", "-b", "y", "sleep", "1000")
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	id := strings.TrimSpace(r.stdout)
	m.until("the job runs", func() bool { return m.as(u, "qstat", "-s", "r").stdout != "" })
	if after := m.as(u, "qhost", "-F", "scratch").stdout; after == before {
		t.Errorf("a job that requests scratch books none: %s", after)
	}
	m.as(u, "qdel", id, large)
}

// TestFullScratch checks that the outcome of a job that has filled its TMPDIR names the cause, with
// the size that it has requested.
func TestFullScratch(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Root, testenv.Loop)
	m := newMachine(t, 2)
	m.builtin = true
	u := someUsers(t, 1)[0]
	m.start()
	out := m.open("out")
	// In a private /tmp, the write that fails leaves more than a hundredth of the space free.
	for _, request := range []string{"disk=4M", "private_tmp,disk=4M"} {
		r := m.as(u, "qsub", "-terse", "-sync", "y", "-wd", "/", "-o", out, "-j", "y", "-l", request, "-b", "y",
			"sh", "-c", "df -k $TMPDIR | tail -n 1; dd if=/dev/zero of=$TMPDIR/large bs=64k count=1000")
		id := strings.TrimSpace(strings.SplitN(r.stdout, "\n", 2)[0])
		if r.status != 1 {
			t.Errorf("%s: the job was not limited: %+v", request, r)
		}
		if r = m.as(u, "qacct", "-j", id); !strings.Contains(r.stdout, "TMPDIR was full at ") || !strings.Contains(r.stdout, "it is limited to 4M (scratch)") {
			t.Errorf("%s: qacct: %+v", request, r)
		}
		// The host removes TMPDIR after it has reported the end, which qsub -sync y waits for.
		m.until(request+": the file system of the job is removed", func() bool {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			return err == nil && !strings.Contains(string(mounts), "/"+id+".1.all.q")
		})
	}
}
