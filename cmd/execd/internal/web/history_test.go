package web

import (
	"testing"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/job"
)

// TestHistoryOfLargeArray adds the records of 75,000 tasks: the last ones are kept, and all of them count.
func TestHistoryOfLargeArray(t *testing.T) {
	const tasks = 75_000
	h := &history{}
	for task := 1; task <= tasks; task++ {
		h.add(&accounting.Record{Task: task, Slots: 1, Usage: job.Usage{CPU: 1}})
	}
	h.add(&accounting.Record{Task: 1, PETask: "1.n1", Usage: job.Usage{CPU: 1}})
	if len(h.last) != stepsMost || cap(h.last) > 2*stepsMost || h.last[0].Task != tasks-stepsMost+1 || h.last[stepsMost-1].Task != tasks {
		t.Errorf("%d records are kept, of tasks %d to %d", len(h.last), h.last[0].Task, h.last[len(h.last)-1].Task)
	}
	if h.runs != tasks || h.used.Records != tasks || h.used.CPU != tasks+1 {
		t.Errorf("%d runs, %+v", h.runs, h.used)
	}
	p := &jobPage{}
	if p.steps(nil, h); len(p.Steps) != stepsMost || p.More != tasks-stepsMost {
		t.Errorf("the page has %d runs and says that %d are not shown", len(p.Steps), p.More)
	}
}

// TestFinishedArray checks that the page of an array job that has left the queue names the tasks of its events.
func TestFinishedArray(t *testing.T) {
	for task, array := range map[int]bool{0: false, 3: true} {
		h := &history{}
		h.add(&accounting.Record{Task: task})
		p := &jobPage{}
		if p.steps(nil, h); p.Array() != array {
			t.Errorf("task %d: array job %t", task, p.Array())
		}
	}
}
