package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/standalone/api"
)

// TestPictures draws a share tree: children lie below their parents and side by side.
func TestPictures(t *testing.T) {
	var nodes []node
	for _, n := range []struct {
		path   string
		depth  int
		target float64
		actual float64
	}{{"/", 0, 1, 1}, {"/physics", 1, 0.6, 0.2}, {"/physics/ada", 2, 0.2, 0.2}, {"/physics/bob", 2, 0.4, 0}, {"/rest", 1, 0.4, 0.8}, {"/rest/eve", 2, 0.01, 3}} {
		name := n.path[strings.LastIndexByte(n.path, '/')+1:]
		nodes = append(nodes, node{ShareRow: qstat.ShareRow{Node: n.path, LongTarget: n.target, Actual: n.actual}, Name: name, Depth: n.depth})
	}
	var got strings.Builder
	for _, p := range pictures(nodes) {
		fmt.Fprintf(&got, "%s %d\n", p.Name, p.Height)
		for _, b := range p.Boxes {
			fmt.Fprintf(&got, "%d %d %d %q %q\n", b.X, b.Y, b.Width, b.Title, b.Label)
		}
	}
	const expected = `Long term targets 96
0 0 530 ": 100 %" ": 100 %"
0 32 318 "physics: 60 %" "physics: 60 %"
0 64 106 "ada: 20 %" "ada: 20 %"
106 64 212 "bob: 40 %" "bob: 40 %"
318 32 212 "rest: 40 %" "rest: 40 %"
318 64 5 "eve: 1 %" ""
Actual shares 96
0 0 530 ": 100 %" ": 100 %"
0 32 106 "physics: 20 %" "physics"
0 64 106 "ada: 20 %" "ada: 20 %"
106 32 424 "rest: 80 %" "rest: 80 %"
106 64 424 "eve: 80 %" "eve: 80 %"
`
	if got.String() != expected {
		t.Errorf("the pictures are\n%s\nexpected\n%s", &got, expected)
	}
}

// TestTimeLineEvents marks the events of a job on its time line, and says what the colours mean.
func TestTimeLineEvents(t *testing.T) {
	now := time.Unix(1_000_200, 0)
	p := &jobPage{ID: 7, Known: true, Detail: &qstat.JobDetail{}}
	p.Detail.Submitted = now.Unix() - 200
	p.Steps = []step{{State: "running", Started: now.Unix() - 100}}
	p.eventsOf([]api.Event{
		{Time: now.Unix() - 200, Job: 7, What: "was submitted"},
		{Time: now.Unix() - 90, Job: 8, What: "started"},
		{Time: now.Unix() - 50, Job: 7, What: "suspended"},
	})
	if len(p.Events) != 2 || p.Events[0].What != "suspended" {
		t.Errorf("events %+v", p.Events)
	}
	l := newTimeLine(p, time.Time{}, now)
	if len(l.Marks) != 1 || l.Marks[0].X != 750 || !strings.HasSuffix(l.Marks[0].Text, " suspended") {
		t.Errorf("marks %+v", l.Marks)
	}
	if kinds := fmt.Sprint(l.Kinds()); kinds != "[pending running]" {
		t.Errorf("kinds %s", kinds)
	}
}

// TestProblems shows each error of a job once.
func TestProblems(t *testing.T) {
	d := &qstat.JobDetail{
		WaitingFor: []string{"the error to be cleared: no such directory"},
		Details:    []qstat.TaskDetail{{ErrorReason: "no such directory"}, {ErrorReason: "no shell"}, {ErrorReason: "no shell"}},
		LastEnding: &qstat.Ending{Time: 1, Task: 1, Text: "no shell"},
	}
	if got := problems(d, time.Unix(2, 0)); fmt.Sprint(got) != "[no shell]" {
		t.Errorf("%q", got)
	}
	d.LastEnding.Text = "killed"
	if got := problems(d, time.Unix(2, 0)); len(got) != 2 || !strings.HasSuffix(got[1], ": killed") {
		t.Errorf("%q", got)
	}
}

// TestMeters compares usage with each kind of limit.
func TestMeters(t *testing.T) {
	now := time.Unix(1000, 0)
	d := &qstat.JobDetail{Details: []qstat.TaskDetail{{Running: true, VirtualMemory: 1 << 20, MaxVirtualMemory: 3 << 20}}}
	for name, value := range map[string]string{"h_rt": "200", "h_cpu": "0:10:0", "h_vmem": "3M", "gpu": "2"} {
		d.Hard = append(d.Hard, qstat.Request{Name: name, Value: value})
	}
	task := qstat.Task{Phase: qstat.Running, Started: 900, Grants: []qstat.Grant{{Slots: 2}}}
	job := &qstat.Job{Tasks: []qstat.Task{task}}
	text := func() string {
		var all []string
		for _, m := range meters(d, job, now) {
			all = append(all, fmt.Sprintf("%s %.2f %s", m.Name, m.Part, m.Text))
		}
		return strings.Join(all, "\n")
	}
	job.Tasks[0].Usage = &qstat.Usage{CPU: 120, IO: 0.5}
	d.Details[0].GPUUsage = "0:10:00 on 2 GPUs"
	const expected = `Run time 0.50 1 min 40 s of 3 min 20 s (h_rt)
GPUs -1.00 4 granted, 0:10:00 on 2 GPUs
CPU time 0.10 2 min 0 s, 60 % of its slots, 10 % of 20 min 0 s (h_cpu)
Memory 0.50 1.0 MiB now, 3.0 MiB at most, 50 % of 6.0 MiB (h_vmem)
Read and written -1.00 512 MiB`
	if got := text(); got != expected {
		t.Errorf("meters\n%s\nexpected\n%s", got, expected)
	}
	job.Tasks[0].Subtasks = []qstat.Subtask{{Usage: &qstat.Usage{CPU: 60, IO: 0.5}}}
	d.Details[0].Subtasks = []qstat.Subtask{{MaxVirtualMemory: 3 << 20}}
	if got := text(); !strings.Contains(got, "3 min 0 s, 90 % of its slots, 15 % of") || !strings.Contains(got, "100 % of 6.0 MiB") || !strings.HasSuffix(got, " 1.0 GiB") {
		t.Errorf("a parallel job:\n%s", got)
	}
	job.Tasks[0].Subtasks, d.Details[0].Subtasks = nil, nil
	job.Tasks[0].Usage, d.Details[0].MaxVirtualMemory = nil, 0
	if got := text(); !strings.HasSuffix(got, "\nGPUs -1.00 4 granted, 0:10:00 on 2 GPUs\nUsage -1.00 The host has not measured it yet.") {
		t.Errorf("without a measurement:\n%s", got)
	}
}
