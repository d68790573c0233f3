package cell

import (
	"testing"

	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/scheduler"
)

// coresOf returns the cores of a task on its hosts.
func coresOf(t *Task) string {
	text := ""
	for _, g := range t.Running().Grants {
		text += "[" + topology.FormatPairs(g.Cores) + "]"
	}
	return text
}

// TestCoresOfATask checks that the action that starts a task contains its cores. The task keeps them
// if the cluster changes.
func TestCoresOfATask(t *testing.T) {
	aware := small.with(files{"sched_conf": small["sched_conf"] + "\nparams BINDING_AWARE=1"})
	h := newHarness(t, aware)
	report := func() {
		for i := range h.model.Hosts() {
			if _, err := h.HostReport(h.now, h.model.HostName(scheduler.HostID(i)), map[string]string{"m_topology": "SCC"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	report()
	h.sub("alice", "-binding linear:2 -q all.q@n1")
	h.sub("alice", "-binding linear:1 -q all.q@n1")
	started := h.started(h.run())
	if len(started) != 1 || coresOf(started[0]) != "[0,0:0,1]" {
		t.Fatalf("started: %v", started)
	}
	if _, err := h.Reconfigure(h.now, aware.with(files{"hosts/n2": "hostname n2\ncomplex_values lic=4"}).cluster(t)); err != nil {
		t.Fatal(err)
	}
	report()
	if started := h.started(h.run()); len(started) != 0 {
		t.Errorf("started on cores of another task: %v", coresOf(started[0]))
	}
	h.alter("alice", "-binding explicit:0,1 2")
	h.end(1, 1, End{})
	if started := h.started(h.run()); len(started) != 1 || coresOf(started[0]) != "[0,1]" {
		t.Errorf("started: %v", started)
	}
}

func (h *harness) started(r *Run) (all []*Task) {
	for _, a := range r.Actions {
		if a.Kind == StartTask {
			all = append(all, a.Task)
		}
	}
	return all
}
