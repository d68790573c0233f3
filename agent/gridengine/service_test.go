package gridengine

import (
	"errors"
	"slices"
	"testing"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
)

// cleared waits for the request that takes queue instances out of error state, and answers it.
func (w *world) cleared(status uint32) (instances []string) {
	w.Helper()
	for {
		m := w.receive()
		if w.tag(m) != message.TagGDIRequest {
			continue
		}
		r, err := w.codec.DecodeRequest(m.Payload)
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range r.Data.Elements {
			instances = append(instances, e.Values[0].(string))
		}
		r.Answers = []message.Answer{{Status: status, Text: "answer", Quality: 1}}
		if _, err := w.conn.Send(w.codec.Number(message.TagGDIRequest), m.ID, w.codec.EncodeRequest(r)); err != nil {
			w.Fatal(err)
		}
		return instances
	}
}

// refusedJob delivers a job that is refused, and takes note of its end.
func (w *world) refusedJob(number uint32) {
	w.Helper()
	w.deliver(number, 1)
	w.told("start " + job.ID{Job: int(number)}.String())
	if r := w.jobReport(number, message.StateExiting); r.GeneralFailure != message.FailureQueue {
		w.Errorf("it is reported as %+v", r)
	}
	w.acknowledge(message.AckJobExit, number, 1)
}

// TestErrorStateOfAHostOutOfService checks that the agent clears the error state of a queue
// instance when the host takes jobs again, if the only cause was that the host took no jobs. An
// error state that a job has caused remains.
func TestErrorStateOfAHostOutOfService(t *testing.T) {
	w := registered(t)
	w.commands.serve("the spool directory is gone")
	w.refusedJob(8)
	w.commands.serve("")
	if got := w.cleared(message.StatusOK); !slices.Equal(got, []string{"all.q@localhost"}) {
		t.Errorf("it was cleared for %q", got)
	}
	// What was cleared is not cleared again.
	w.commands.serve("the spool directory is gone")
	w.commands.serve("")
	w.deliver(9, 1)
	w.told("start 9")
	w.jobReport(9, message.StateWritten)

	w.commands.serve("the spool directory is gone")
	w.refusedJob(10)
	failure := job.FailureOf(job.FailedProlog)
	w.commands.put(agent.JobReport{
		ID: job.ID{Job: 9}, Queue: "all.q", State: agent.Ended, Outcome: &job.Outcome{Failed: failure.Code, Class: failure.Class},
	})
	w.jobReport(9, message.StateExiting)
	w.commands.serve("")
	w.deliver(11, 1)
	w.told("start 11")
	for r := range w.reportsUntil(11) {
		if w.tag(r) == message.TagGDIRequest {
			t.Error("the error state that a job has caused is cleared")
		}
	}
}

// TestErrorStateThatComesLate lets the host take jobs again before sge_qmaster has acknowledged a
// refusal, and while there is no connection. The agent clears the error state that sge_qmaster has
// recorded.
func TestErrorStateThatComesLate(t *testing.T) {
	w := registered(t)
	w.commands.serve("it burns")
	w.deliver(8, 1)
	w.told("start 8")
	w.jobReport(8, message.StateExiting)
	w.commands.serve("")
	w.acknowledge(message.AckJobExit, 8, 1)
	if got := w.cleared(message.StatusOK); !slices.Equal(got, []string{"all.q@localhost"}) {
		t.Errorf("it was cleared for %q", got)
	}
	w.commands.serve("it burns")
	w.refusedJob(9)
	w.deliver(10, 1) // so that the acknowledgement has come
	w.told("start 10")
	w.jobReport(10, message.StateExiting)
	w.conn.Abort()
	w.commands.serve("")
	w.accept()
	w.register()
	if got := w.cleared(message.StatusOK); !slices.Equal(got, []string{"all.q@localhost"}) {
		t.Errorf("after a break it was cleared for %q", got)
	}
}

// TestErrorStateForOtherReasons checks that the agent does not clear an error state after refusals
// for other reasons: an administrator has to look at them.
func TestErrorStateForOtherReasons(t *testing.T) {
	w := registered(t)
	w.commands.refuse = &agent.Error{Code: agent.ResourceExhausted, Err: errors.New("the disk is full")}
	w.refusedJob(8)
	w.commands.serve("")
	w.deliver(11, 1)
	w.told("start 11")
	for m := range w.reportsUntil(11) {
		if w.tag(m) == message.TagGDIRequest {
			t.Error("it is cleared")
		}
	}
}
