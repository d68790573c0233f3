package standalone

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/api"
)

// submitted returns a command with -now y that waits for what becomes of its job.
func submitted(m *Master) *answer {
	x := newAnswer("1 key", time.Unix(1, 0))
	x.result, x.immediate = &api.CommandAnswer{Stderr: "Waiting for immediate job to be scheduled.\n", Job: 7}, 7
	m.batch.await(x)
	return x
}

// committed sends the answers of a batch, with the error of its commit.
func (b *batch) committed(err error) {
	answers := b.answers
	b.answers = nil
	for _, answer := range answers {
		answer(err)
	}
}

func ready(x *answer) bool {
	select {
	case <-x.ready:
		return true
	default:
		return false
	}
}

func TestVerdictThatCannotBeKept(t *testing.T) {
	m := &Master{seen: newAnswers(nil)}
	x := submitted(m)
	x.durable = true // the submission was kept
	m.answerImmediate(cell.Immediate{Job: 7, Events: []cell.Event{{Kind: cell.ImmediateNotStarted}, {Kind: cell.JobSubmitted}}})
	m.batch.committed(errors.New("no room"))
	if ready(x) || m.batch.immediates[7] != x {
		t.Fatal("a job whose submission is kept is undecided again: its command goes on waiting")
	}
	if x.result.Exit != 0 || strings.Contains(string(x.result.Stderr), "could not") {
		t.Errorf("nothing may be left of the verdict: %+v", x.result)
	}
	m.answerImmediate(cell.Immediate{Job: 7, Started: true, Events: []cell.Event{{Kind: cell.ImmediateStarted}, {Kind: cell.JobSubmitted}}})
	if got := m.seen.changes([]*answer{x}, time.Unix(1, 0)); !strings.Contains(string(got[0].Value), "successfully") || strings.Contains(string(got[0].Value), `"immediate"`) {
		t.Errorf("the record has not the verdict: %s", got[0].Value)
	}
	m.batch.committed(nil)
	if a, err := x.given(); !ready(x) || err != nil || !strings.Contains(string(a.(*api.CommandAnswer).Stderr), "successfully") {
		t.Errorf("%v, %v", a, err)
	}
}

func TestSubmissionThatCannotBeKept(t *testing.T) {
	m := &Master{seen: newAnswers(nil)}
	x := submitted(m)
	m.answerImmediate(cell.Immediate{Job: 7, Started: true})
	m.batch.committed(errors.New("no room"))
	if _, err := x.given(); !ready(x) || err == nil {
		t.Error("who submits is not told that nothing was kept")
	}
}

// TestAwaitAgain checks that a client can wait again for the result of an immediate job if the
// daemon was killed between the submission and the result.
func TestAwaitAgain(t *testing.T) {
	m := &Master{seen: newAnswers(nil)}
	x := submitted(m)
	record := m.seen.changes([]*answer{x}, time.Unix(1, 0))[0]
	cluster, err := qconf.BuiltinOn("node1", 1)
	if err != nil {
		t.Fatal(err)
	}
	next := &Master{seen: newAnswers(nil), cell: cell.New(1, cluster, cell.Options{})}
	if err := next.seen.restore(record.Key, record.Value); err != nil {
		t.Fatal(err)
	}
	next.awaitAgain()
	again, first := next.seen.enter(newAnswer("1 key", time.Unix(2, 0)))
	if first || !ready(again) || again.result.Exit != 1 {
		t.Errorf("the job is gone, and nobody waits for it: first %v, %+v", first, again)
	}
}
