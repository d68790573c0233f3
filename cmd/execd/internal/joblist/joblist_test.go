package joblist

import (
	"testing"

	"github.com/execd-project/execd/qstat"
)

// TestCondition: a task in error state counts most, then one that runs.
func TestCondition(t *testing.T) {
	pending, running := qstat.Task{State: "qw"}, qstat.Task{State: "r", Phase: qstat.Running}
	failed := qstat.Task{State: "Eqw"}
	for _, c := range []struct {
		tasks []qstat.Task
		want  Condition
	}{
		{nil, Waiting},
		{[]qstat.Task{pending}, Waiting},
		{[]qstat.Task{running, pending}, Running},
		{[]qstat.Task{running, failed}, Failed},
		{[]qstat.Task{failed, running}, Failed},
	} {
		r := Row{Job: qstat.Job{Tasks: c.tasks}}
		if got := r.Condition(); got != c.want {
			t.Errorf("%+v: the condition is %d, expected %d", c.tasks, got, c.want)
		}
	}
}
