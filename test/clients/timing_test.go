package clients

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// jobID matches the number of a job at the beginning of a line of qstat.
var jobID = regexp.MustCompile(`(?m)^ *(\d+) `)

// TestRecordBeforeJobLeaves polls qstat and qacct like workflow engines, under load, while the
// daemon is killed repeatedly. A job that qstat no longer lists must have its accounting record,
// qstat must list every unfinished job, and neither may print errors.
func TestRecordBeforeJobLeaves(t *testing.T) {
	const submitters, each, pollers, kills = 3, 12, 3, 4
	s := newSite(t, 8)
	var (
		mu        sync.Mutex
		jobs      = map[string]bool{} // submitted, and still listed so far
		submitted int
		over      atomic.Bool
	)
	var submitting, polling sync.WaitGroup
	for range submitters {
		submitting.Go(func() {
			for range each {
				r := s.run("qsub", "-terse", "-b", "y", "-shell", "n", "-wd", "/", "-o", "/dev/null", "-j", "y", "sh", "-c", "exit 7")
				id := strings.TrimSpace(r.stdout)
				if r.status != 0 || id == "" || r.stderr != "" {
					t.Errorf("qsub: %+v", r)
					return
				}
				mu.Lock()
				jobs[id] = true
				submitted++
				mu.Unlock()
			}
		})
	}
	for range pollers {
		polling.Go(func() {
			for {
				last := over.Load()
				mu.Lock()
				before := maps.Clone(jobs)
				mu.Unlock()
				r := s.run("qstat")
				if r.status != 0 || r.stderr != "" {
					t.Errorf("qstat: %+v", r)
				}
				for _, m := range jobID.FindAllStringSubmatch(r.stdout, -1) {
					delete(before, m[1])
				}
				for id := range before {
					if r := s.run("qacct", "-j", id); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "exit_status  7 ") {
						t.Errorf("qstat does not list job %s any more, and qacct: %+v", id, r)
					}
					mu.Lock()
					delete(jobs, id)
					mu.Unlock()
				}
				mu.Lock()
				left := len(jobs)
				mu.Unlock()
				if last && left == 0 || t.Failed() {
					return
				}
			}
		})
	}
	for range kills {
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond) //nolint:forbidigo // the daemon dies at any moment
		s.restart()
	}
	submitting.Wait()
	over.Store(true)
	polling.Wait()
	if want := submitters * each; submitted != want {
		t.Errorf("%d jobs were submitted, want %d", submitted, want)
	}
}
