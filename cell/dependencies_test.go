package cell

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyDependencies checks that the steps of one command are limited: a user could otherwise delay all others
// by changing the dependencies of thousands of jobs.
func TestManyDependencies(t *testing.T) {
	h := newHarness(t, small)
	const jobs = 20
	for i := range jobs {
		h.sub("alice", fmt.Sprintf("-h -N j%d", i))
	}
	line := "-hold_jid 'j*' j19"
	h.said(h.alter("alice", line), "modified job id hold list of job 20\n   blocking jobs: "+"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19"+"\n   exited jobs:   NONE")
	if h.work.done < jobs {
		t.Errorf("%d steps", h.work.done)
	}
	one := h.work.done
	h.alter("alice", "-hold_jid '*j*' j19 j19 j19")
	if h.work.done < 3*one {
		t.Errorf("%d steps for three times the job, %d for one", h.work.done, one)
	}
	h.work.done = mostWork + 1
	if err := h.resolveDependencies(h.jobs[1], []string{"x"}, nil); err == nil || !strings.Contains(err.Error(), "too many jobs change") {
		t.Error(err)
	}
	h.sub("alice", "-h") // each command has its own limit
}

// TestCycleWithManyPaths checks that a search for a cycle visits each dependency once: a chain in which each job
// depends on all previous ones has exponentially many paths.
func TestCycleWithManyPaths(t *testing.T) {
	h := newHarness(t, small)
	const jobs = 60
	for i := range jobs {
		h.sub("alice", fmt.Sprintf("-h -N a%d -hold_jid 'a*'", i))
	}
	h.sub("alice", "-h -N b")
	h.alter("alice", "-hold_jid 'a*' b")
	if steps := h.work.done; steps > 20*jobs {
		t.Errorf("%d steps to see that a job without successors is in no cycle", steps)
	}
	h.said(h.alter("alice", "-hold_jid b a30"), "job 31 dependency change would generate a dependency cycle with job 61")
	if steps := h.work.done; steps > jobs*jobs {
		t.Errorf("%d steps", steps)
	}
}

// TestRepeatedReference checks that qalter lists a job once that several references name.
func TestRepeatedReference(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-h -N a")
	h.sub("alice", "-h -N b")
	h.said(h.alter("alice", "-hold_jid a,a,1,'*a',99,99 b"), "modified job id hold list of job 2\n   blocking jobs: 1\n   exited jobs:   99,99")
}
