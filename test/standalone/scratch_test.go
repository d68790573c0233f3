package standalone

import (
	"strings"
	"testing"
)

// TestScratch: the built-in configuration has scratch space, which a job books once for all its
// slots, and takes the requests of workflow engines for containers.
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
