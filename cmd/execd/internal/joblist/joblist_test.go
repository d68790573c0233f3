package joblist

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/qstat"
)

// TestCondition checks that the condition of a job is that of a task in error state, and otherwise
// that of a running one.
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

// TestElements names the host of GPUs only where a job has several.
func TestElements(t *testing.T) {
	one := qstat.Grant{Queue: "a.q@n1", Slots: 1, Elements: []qstat.MapElements{{Name: "gpu", Host: "n1", IDs: []string{"0", "3"}}, {Name: "port", Host: "global", IDs: []string{"x"}}}}
	other := qstat.Grant{Queue: "a.q@n2", Slots: 1, Elements: []qstat.MapElements{{Name: "gpu", Host: "n2", IDs: []string{"1"}}}}
	for want, grants := range map[string][]qstat.Grant{
		"":                {{Queue: "a.q@n1", Slots: 1}},
		"gpu 0 3, port x": {one},
		"gpu 0 3 of n1, port x of global, gpu 1 of n2": {one, other},
	} {
		task := qstat.Task{Phase: qstat.Running, Grants: grants}
		if got := Elements(task); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
		if where := New(qstat.Job{Tasks: []qstat.Task{task, task}}).Where; strings.Contains(where, "gpu") {
			t.Errorf("several tasks: %q", where)
		}
	}
}
