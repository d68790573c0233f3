package agent

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
)

// TestOneOwnerStopsNoQueue runs jobs of one owner whose procedures fail, in any order. As long as a
// procedure succeeds for another owner, and has done so once, its failure is never an error of the
// queue. If it fails for all owners, the failure of the second owner is one.
func TestOneOwnerStopsNoQueue(t *testing.T) {
	failures := map[job.Failed]job.Failed{8: 30, 9: 30, 10: 30, 13: 12, 15: 14}
	rapid.Check(t, func(t *rapid.T) {
		p := procedureEnds{}
		run := func(owner string, failed job.Failed) *job.Outcome {
			d := &job.Description{
				Owner: owner, Queue: "q", Prolog: "/site/p", Epilog: "/site/e $job_id",
				PE: &job.ParallelEnvironment{Start: " /site/start", Stop: "/site/stop"},
			}
			// What runs as somebody else says something of the queue at once.
			if other := *d; failed != 0 {
				other.Prolog, other.Epilog = "root@/site/p", "site@/site/e"
				other.PE = &job.ParallelEnvironment{Start: "root@/site/start", Stop: "root@/site/stop"}
				o := outcomeOf(failed)
				if p.attributeFailure(&other, o); o.Failed != failed {
					t.Errorf("%d of a procedure of root's is %d", failed, o.Failed)
				}
			}
			if failed == 0 || failed == 13 || failed == 15 {
				p.began(d)
			}
			o := outcomeOf(failed)
			p.attributeFailure(d, o)
			return o
		}
		run("bob", 0)
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			failed := rapid.SampledFrom([]job.Failed{0, 8, 9, 10, 13, 15, 25, 30, 100}).Draw(t, "failed")
			if rapid.Bool().Draw(t, "bob's") {
				run("bob", 0)
				continue
			}
			want := failed
			if f, ok := failures[failed]; ok {
				want = f
			}
			if o := run("alice", failed); o.Failed != want || o.Class == job.ClassQueue || o.Class == job.ClassQueueFinished || o.ByOwner != (want != failed) {
				t.Errorf("%d is %+v, want %d", failed, o, want)
			}
		}
		for failed := range failures {
			run("alice", failed)
			for _, owner := range []string{"bob", "carol", "alice"} {
				if o := run(owner, failed); o.Failed != failed || o.ByOwner {
					t.Errorf("%d of all owners is %d for %s", failed, o.Failed, owner)
				}
			}
		}
	})
}

// TestFailureWithoutOtherOwnersIsQueueError checks that a failure is an error of the queue
// (queue_conf(5)) if no job of another owner has run.
func TestFailureWithoutOtherOwnersIsQueueError(t *testing.T) {
	p := procedureEnds{}
	d := &job.Description{Owner: "alice", Queue: "q", Prolog: "/site/p"}
	p.began(d)
	other := &job.Description{Owner: "bob", Queue: "other", Prolog: "/site/p"}
	p.began(other)
	o := outcomeOf(job.FailedProlog)
	if p.attributeFailure(d, o); o.Failed != job.FailedProlog || o.Class != job.ClassQueue {
		t.Errorf("%+v", o)
	}
}

func outcomeOf(failed job.Failed) *job.Outcome {
	f := job.FailureOf(failed)
	return &job.Outcome{Failed: failed, Class: f.Class, Effect: f.Effect, Ran: failed == 0, Reason: fmt.Sprint("ended with ", failed)}
}
