package cell

import (
	"slices"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// TestHostService checks that the queue instances of a host that accepts no jobs are in error state
// with that reason, until the host accepts jobs again, whatever happens meanwhile. Error states caused
// by jobs stay.
func TestHostService(t *testing.T) {
	h := newHarness(t, small)
	other, _ := h.model.Instance("all.q", "n2")
	says := func(why string) {
		t.Helper()
		if _, err := h.HostService(h.now, "n1", why); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, errors ...string) {
		t.Helper()
		id, _ := h.model.Instance("all.q", "n1")
		if failed := h.state.Status(id)&scheduler.Failed != 0; failed != (len(errors) > 0) || !slices.Equal(h.ErrorsOf(id), errors) {
			t.Errorf("%s: in error state %v, for %q; want %q", what, failed, h.ErrorsOf(id), errors)
		}
		if h.state.Status(other) != 0 {
			t.Errorf("%s: the queue instance of another host has status %b", what, h.state.Status(other))
		}
	}
	const gone, another = "host n1 takes no jobs: the spool directory is gone", "host n1 takes no jobs: another reason"
	says("the spool directory is gone")
	want("it takes no jobs", gone)
	h.sub("alice", "-q all.q@n1")
	h.run()
	if x := h.Job(1).task(1); x != nil && x.run != nil {
		t.Error("a job was started there")
	}
	says("another reason")
	want("for another reason", another)
	h.ModifyQueues(h.now, caller("admin"), ClearQueueError, []string{"all.q@n1"}, false)
	want("somebody has cleared the error", another)
	if _, err := h.Reconfigure(h.now, small.cluster(t)); err != nil {
		t.Fatal(err)
	}
	want("with another configuration", another)
	says("")
	want("it takes jobs")
	h.run()
	if x := h.Job(1).task(1); x == nil || x.run == nil {
		t.Fatal("the job was not started")
	}
	h.end(1, 1, End{Failure: QueueFailure})
	const failed = "queue all.q marked QERROR as result of job 1's failure at host n1"
	want("a job has failed", failed)
	says("the spool directory is gone")
	want("both", failed, gone)
	says("")
	want("what the job has caused", failed)
	h.ModifyQueues(h.now, caller("admin"), ClearQueueError, []string{"all.q@n1"}, false)
	want("somebody has cleared the error")
	if _, err := h.HostService(h.now, "elsewhere", "it burns"); err == nil {
		t.Error("a host that there is not")
	}
}

// TestHostServiceIsNotKept checks that the state of a host that accepts no jobs is not stored: the
// host reports it again.
func TestHostServiceIsNotKept(t *testing.T) {
	h := newHarness(t, small)
	if _, err := h.HostService(h.now, "n1", "it burns"); err != nil {
		t.Fatal(err)
	}
	if r, ok := h.instanceRecord("all.q@n1").(*instanceRecord); !ok || r.Failed || len(r.Errors) > 0 {
		t.Errorf("what is kept: %+v", r)
	}
}
