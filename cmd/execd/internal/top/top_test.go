package top

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qstat"
)

// hostile is text that would control a terminal, forge a line or hide others, if it were printed.
const hostile = "字\x1b]0;owned\a\x9b2J\u009b31m\u202e\r\n\xff\u0301\u0301\t"

// cluster returns a snapshot of a host with GPUs, and jobs in several states.
func cluster() *snapshot {
	at := time.Unix(10000, 0)
	s := &snapshot{
		at:     at,
		hosts:  []qstat.Host{{Name: "n1", Load: new(1.5), Processors: new(8), MemoryTotal: new(16.0 * (1 << 30)), MemoryUsed: new(4.0 * (1 << 30)), Resources: []qstat.Resource{{Name: "gpu", Value: "3.000000", Total: 5}}}},
		queues: []qstat.QueueInstance{{Queue: "all.q", Host: "n1", Used: 2, Total: 8}},
	}
	for _, j := range []qstat.Job{
		{ID: 17, Name: "run", Owner: "alice", Submitted: 1000, Hard: []qstat.Request{{Name: "gpu", Value: "1"}}, Tasks: []qstat.Task{
			{Phase: qstat.Running, State: "r", Started: 9900, Usage: &qstat.Usage{CPU: 150}, Grants: []qstat.Grant{{Queue: "all.q@n1", Slots: 2}}},
		}},
		{ID: 18, Name: hostile, Owner: hostile, Submitted: 9990, Tasks: []qstat.Task{{State: "qw", Slots: 4}}},
		{ID: 19, Name: "bad", Owner: "bob", Submitted: 100, Tasks: []qstat.Task{{State: "Eqw", Slots: 1}}},
	} {
		s.jobs = append(s.jobs, newJob(j, at))
	}
	s.jobs[0].complete(&qstat.JobDetail{Details: []qstat.TaskDetail{{Running: true, VirtualMemory: 1 << 30, Subtasks: []qstat.Subtask{{VirtualMemory: 1 << 29}}}}})
	s.jobs[1].complete(&qstat.JobDetail{WaitingFor: []string{"4 slots " + hostile}})
	return s
}

func TestList(t *testing.T) {
	const want = `execd top - 02:46:40, n1 load 1.50 on 8 processors
Tasks   1 running, 2 pending, 1 in error state
Slots   [#####---------------] 2 of 8 in use
Memory  [#####---------------] 4.0G of 16.0G in use
GPUs    [########------------] 2 of 5 in use

    JOB NAME                 USER         STATE                   TIME SLOTS GPUS   CPU  MEMORY QUEUE OR REASON
     17 run                  alice        running                1m40s     2    2   75%    1.5G all.q@n1
     18 字\x1b]0;owned\x0... 字\x1b]0;... pending                  10s     4    0     -       - waits for 4 slots 字\x1b]0;owned\x07\x9b2J\u009b31m\u202e\x0d\x0a\xff́́\x09
     19 bad                  bob          in error state         2h45m     1    0     -       - 
`
	v := &view{shown: cluster(), width: 1000}
	v.shown.at = v.shown.at.UTC()
	if diff := cmp.Diff(strings.ReplaceAll(want, "- \n", "-\n"), text(v.list())); diff != "" {
		t.Error(diff)
	}
}

// TestOrder sorts by each column, and filters.
func TestOrder(t *testing.T) {
	order := func(v *view) (list []int) {
		v.shown = cluster()
		for _, j := range v.rows() {
			list = append(list, j.ID)
		}
		return list
	}
	for name, want := range map[string][]int{
		"": {17, 18, 19}, "job": {17, 18, 19}, "name": {19, 17, 18}, "user": {17, 19, 18}, "state": {19, 18, 17}, "time": {19, 17, 18},
		"slots": {18, 17, 19}, "gpus": {17, 18, 19}, "cpu": {17, 18, 19}, "memory": {17, 18, 19},
	} {
		by := column(slices.Index(Columns, name) + 1)
		if got := order(&view{sort: by}); !slices.Equal(got, want) {
			t.Errorf("by %q: %v, want %v", name, got, want)
		}
		slices.Reverse(want)
		if got := order(&view{sort: by, reverse: true}); !slices.Equal(got, want) {
			t.Errorf("by %q, reversed: %v, want %v", name, got, want)
		}
	}
	for filter, want := range map[string][]int{"RUN": {17}, "alice": {17}, "all.q": {17}, "4 slots": {18}, `\x1b]0;o`: {18}, "error": {19}, "19": {19}, "none of them": nil} {
		if got := order(&view{filter: filter}); !slices.Equal(got, want) {
			t.Errorf("filter %q: %v, want %v", filter, got, want)
		}
	}
}

// TestSelection follows a job whose place changes, and selects its neighbour when it has finished.
func TestSelection(t *testing.T) {
	v := &view{shown: cluster(), width: 80, height: 20}
	v.frame()
	v.move(2)
	v.sort = nameColumn
	if v.frame(); v.selected != 19 {
		t.Errorf("job %d is selected, want 19", v.selected)
	}
	v.shown.jobs = v.shown.jobs[:2]
	if v.frame(); v.selected != 17 {
		t.Errorf("job %d is selected, want 17", v.selected)
	}
	// The user is asked about a job: no other one may take its place.
	v.asking = &action{job: 17}
	v.shown.jobs = v.shown.jobs[1:]
	if v.frame(); v.selected != 17 || v.asking.job != 17 {
		t.Errorf("job %d is selected instead of the one in question", v.selected)
	}
}

// recorder is a terminal that keeps what it was sent.
type recorder struct {
	vt.MockTerm
	sent strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.sent.Write(p)
	return r.MockTerm.Write(p)
}

// TestScreens draws views of all sizes. No text of a user controls the terminal, and none leaves its column.
func TestScreens(t *testing.T) {
	for _, size := range []vt.Coord{{X: 120, Y: 30}, {X: 80, Y: 24}, {X: 30, Y: 7}, {X: 9, Y: 3}, {X: 1, Y: 1}} {
		r := &recorder{MockTerm: vt.NewMockTerm(vt.MockOptSize(size))}
		to, err := tcell.NewTerminfoScreenFromTty(r, tcell.OptNegotiation(false), tcell.OptTerm("xterm"))
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Init(); err != nil {
			t.Fatal(err)
		}
		v := &view{shown: cluster(), width: int(size.X), height: int(size.Y), filter: "", selected: 18, problem: "", message: ""}
		s := &screen{to: to, view: v}
		for _, change := range []func(){
			func() {}, func() { v.asking = &action{verb: "Delete", job: 18, name: hostile, owner: hostile} }, func() { v.asking, v.typing, v.filter = nil, true, "字" },
			func() { v.typing, v.filter, v.help = false, "", true }, func() { v.help, v.shown = false, nil }, func() { v.shown = cluster() },
		} {
			change()
			frame := v.frame()
			if len(frame) != v.height {
				t.Errorf("%v: %d lines", size, len(frame))
			}
			to.Clear()
			for y, l := range frame {
				for i := range l {
					s.put(y, &l[i])
				}
			}
			to.Show()
		}
		sent := r.sent.String()
		for _, evil := range []string{"\x1b]0;", "\a", "\x9b", "\u009b", "\u202e", "\t", "\xff"} {
			if strings.Contains(sent, evil) {
				t.Errorf("%v: the terminal gets %q", size, evil)
			}
		}
		if size.X == 120 {
			line := make([]string, 120)
			for x := range line {
				line[x] = r.GetCell(vt.Coord{X: vt.Col(x), Y: 7}).C
			}
			if got := strings.TrimRight(strings.Join(line, ""), " "); !strings.HasPrefix(got, `     18 字\x1b]0;owned\x0... 字\x1b]0;... pending `) {
				t.Errorf("the line of the hostile job is %q", got)
			}
		}
		to.Fini()
	}
}

// TestCollector asks for the details of the jobs on the screen, even if they come late in the list.
func TestCollector(t *testing.T) {
	const all = 1000
	var asked string
	c := &collector{now: time.Now, ask: func(_ context.Context, command ...string) (*qstat.Document, error) {
		d := &qstat.Document{}
		switch command[1] {
		case "-u":
			for i := range all {
				d.Jobs = append(d.Jobs, qstat.Job{ID: i + 1, Tasks: []qstat.Task{{State: "qw", Slots: 1}}})
			}
		case "-j":
			asked = command[2]
			d.Details = []qstat.JobDetail{{Job: qstat.Job{ID: 900}, WaitingFor: []string{"room"}}}
		}
		return d, nil
	}}
	c.choose(choice{user: "*", shown: []int{900, 901, all + 1}})
	s, err := c.collect(t.Context())
	if err != nil || len(s.jobs) != all || len(s.jobs[899].Why) != 1 {
		t.Fatalf("%v", err)
	}
	if n := strings.Count(asked, ",") + 1; !strings.HasPrefix(asked, "900,901,1,2,") || n != detailed {
		t.Errorf("asked for %d jobs: %s", n, asked)
	}
}

// TestScrolling keeps the selected job on the screen.
func TestScrolling(t *testing.T) {
	v := &view{shown: cluster(), width: 80, height: 12}
	for i := range 100 {
		v.shown.jobs = append(v.shown.jobs, newJob(qstat.Job{ID: 100 + i}, v.shown.at))
	}
	for _, by := range []int{1, 30, 1000, -3, -50, -1000, 5} {
		v.move(by)
		if !slices.ContainsFunc(v.frame(), func(l line) bool { return len(l) > 1 && l[0].style == chosen }) {
			t.Errorf("after %d places, job %d is not on the screen from place %d", by, v.selected, v.offset)
		}
	}
}
