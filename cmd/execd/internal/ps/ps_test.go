package ps

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/qstat"
)

// rows returns an array job with tasks in every state, and a job with hostile names.
func rows() []joblist.Row {
	array := joblist.New(qstat.Job{ID: 17, Name: "array", Owner: "alice", Submitted: 1000, Tasks: []qstat.Task{
		{IDs: []qstat.Range{{First: 3, Last: 3, Step: 1}}, Phase: qstat.Running, State: "r", Started: 8200, Grants: []qstat.Grant{{Queue: "all.q@n1", Slots: 2}}},
		{IDs: []qstat.Range{{First: 4, Last: 8, Step: 2}}, Phase: qstat.Pending, State: "qw", Slots: 2},
		{IDs: []qstat.Range{{First: 9, Last: 9, Step: 1}}, Phase: qstat.Pending, State: "Eqw", Slots: 2},
	}})
	array.Progress = &qstat.Progress{Total: 8, Done: 3, Running: 1, Failed: 1}
	array.Why, array.Expected = []string{"2 slots, of which 1 is free"}, 10300
	return []joblist.Row{array, joblist.New(qstat.Job{ID: 18, Name: "\x1b[2J", Owner: "mall\u202eory", Submitted: 9990, Tasks: []qstat.Task{{State: "hqw", Slots: 1}}})}
}

func TestText(t *testing.T) {
	const want = `JOB  NAME     USER           STATE                                   TIME        SLOTS  QUEUE
17   array    alice          1 running, 3 pending, 1 in error state  30 min 0 s  2      all.q@n1
    [#######-------------] 3 of 8 tasks done, 1 in error state
    waits for 2 slots, of which 1 is free; expected to start in 5 min 0 s
18   \x1b[2J  mall\u202eory  on hold                                 10 s        1      -
1 more jobs: list them with --limit 0
`
	p := &page{width: 1000, now: 10000}
	if diff := cmp.Diff(want, p.text(rows(), 3)); diff != "" {
		t.Error(diff)
	}
	for _, width := range []int{1, 3, 10, 40, 60, 80} {
		p := &page{width: width, now: 10000}
		for line := range strings.Lines(p.text(rows(), 2)) {
			if n := len(strings.TrimRight(line, " \n")); n > max(width, len(indent)) {
				t.Errorf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
	p = &page{width: 1000, now: 10000, colors: true}
	if text := p.text(rows(), 2); !strings.Contains(text, "  \x1b[31m1 running, 3 pending, 1 in error state\x1b[0m  ") || strings.Count(text, "\x1b") != 4 {
		t.Errorf("with colours: %q", text)
	}
}
