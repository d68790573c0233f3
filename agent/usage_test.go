package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// TestUsageIsReadWhenItIsWritten checks that the agent reads the usage of a job only when the
// supervisor has written it. Only the elapsed time is up to date in each report.
func TestUsageIsReadWhenItIsWritten(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	w.agent.table.mu.Lock()
	e := w.agent.table.jobs[s.ID]
	w.agent.table.mu.Unlock()
	// until what its supervisor or the test has written is seen.
	seen := func(what string, so func(JobReport) bool) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(patience); ; <-tick.C {
			w.agent.lookAtUsage()
			if r, _ := w.agent.Job(s.ID); so(r) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s is not seen", what)
			}
		}
	}
	// The supervisor has nothing to say behind its first look.
	seen("the first look", func(r JobReport) bool { return !r.Usage.At.IsZero() })
	for _, cpu := range []float64{1000, 2000} {
		if err := e.run.Dir.WriteOnline(&jobdir.Online{At: time.Now(), CPU: cpu}); err != nil {
			t.Fatal(err)
		}
		seen("CPU time", func(r JobReport) bool { return r.Usage.CPU == cpu })
	}
	first, _ := w.agent.Job(s.ID)
	second, _ := w.agent.Job(s.ID)
	if second.Usage.Wallclock <= first.Usage.Wallclock || second.Number != first.Number {
		t.Errorf("the wall clock goes from %v to %v without a report, %d and %d", first.Usage.Wallclock, second.Usage.Wallclock, first.Number, second.Number)
	}

	w.agent.lookAtUsage()
	if third, _ := w.agent.Job(s.ID); third.Number != first.Number {
		t.Error("a job that has done nothing is reported again")
	}
	w.agent.table.mu.Lock()
	w.agent.executionParams().SharetreeReservedUsage = true
	w.agent.table.mu.Unlock()
	w.agent.lookAtUsage()
	if fourth, _ := w.agent.Job(s.ID); fourth.Number == first.Number || fourth.Usage.CPU < first.Usage.Wallclock {
		t.Errorf("of a job that has reserved its processor %+v is reported", fourth.Usage)
	}

	w.agent.watcher.mu.Lock()
	if n := len(w.agent.watcher.dirs) + len(w.agent.watcher.polled); n > 0 {
		t.Errorf("%d directories of jobs that run are watched", n)
	}
	w.agent.watcher.mu.Unlock()
	other := newEntry(s.ID, e.record)
	for name, want := range map[string]bool{
		"job_pid": true, jobdir.FileOnline: false, "." + jobdir.FileOnline + ".new": false, "": true,
	} {
		other.noticeChange(name)
		woken := len(other.wake) > 0
		if woken != want {
			t.Errorf("a change of %q wakes the job's goroutine: %v", name, woken)
		}
		if woken {
			<-other.wake
		}
	}
}

// TestTopologyInUseOfKnownJobs checks that m_topology_inuse is computed from the jobs that the
// agent knows.
func TestTopologyInUseOfKnownJobs(t *testing.T) {
	w := newWorld(t)
	bound, free := w.job(1, "-binding", "linear:1", "/bin/sleep", "1000"), w.job(2, "/bin/sleep", "1000")
	for _, s := range []*Start{bound, free} {
		w.mustStart(s)
		w.await(s.ID, Running)
	}
	var topologies launch.Topologies
	defer topologies.Close()
	if _, err := topologies.Read(); err != nil {
		t.Fatal(err)
	}
	inUse := func() int {
		text, err := topologies.InUse(w.spool, host, w.agent.BoundVersion(), w.agent.Bound)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(text, "c")
	}
	path := func(s *Start) string { return w.spool.JobPath(s.ID) }
	check := func(when string) {
		t.Helper()
		known := w.agent.Bound()
		if none, ok := known[path(free)]; known[path(bound)] == "" || !ok || none != "" || inUse() != 1 {
			t.Errorf("%s: %q, %d cores are in use", when, known, inUse())
		}
	}
	check("both run")
	w.stop()
	w.start()
	check("a new agent")
	if err := w.agent.Signal(w.Context(), bound.ID, Kill); err != nil {
		t.Fatal(err)
	}
	w.ended(bound.ID)
	w.until("the job is gone", func() bool {
		_, there := w.agent.Job(job.ID{Job: 1})
		return !there
	})
	if n := inUse(); n != 0 {
		t.Errorf("behind the job %d cores are in use", n)
	}
}
