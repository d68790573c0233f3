package agent

import (
	"os"
	"runtime"
	"testing"
)

// TestFinishedJobsLeakNothing checks that finished work leaves no goroutines, descriptors or
// entries in the agent.
func TestFinishedJobsLeakNothing(t *testing.T) {
	w := newWorld(t)
	run := func(first, jobs int) {
		for i := range jobs {
			w.mustStart(w.job(first+i, "/bin/true"))
		}
		for i := range jobs {
			s := w.job(first+i, "/bin/true")
			w.ended(s.ID)
			w.gone(s.ID)
		}
	}
	run(1, 10) // what is opened once
	files, goroutines := descriptors(t), runtime.NumGoroutine()
	run(100, 50)
	w.until("as many files are open as before", func() bool { return descriptors(t) <= files })
	w.until("there are as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	w.stop()
	a := w.agent
	if n := len(a.table.jobs) + len(a.table.keys) + len(a.table.numbers.promised) + len(a.watcher.dirs) + len(a.watcher.polled); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
