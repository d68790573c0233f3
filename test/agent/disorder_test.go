package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// TestDisorder runs several masters that repeat every call, in any order and after any delay, while
// the agent is repeatedly killed: each job must run once.
func TestDisorder(t *testing.T) {
	disorder(t, 0)
}

// TestSoakDisorder repeats this many times.
func TestSoakDisorder(t *testing.T) {
	testenv.Soak(t)
	for seed := range 20 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { disorder(t, uint64(seed+1)) })
	}
}

func disorder(t *testing.T, seed uint64) {
	const jobs, repeats, masters, kills = 40, 3, 4, 5
	n := newNode(t, "")
	out := n.open("out")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := n.restarted(ctx)
	n.mustStart(ctx, n.job(jobs+1, "exit 0\n")) // the agent accepts jobs

	random := rand.New(rand.NewPCG(seed, 1))
	var calls []int
	for id := range jobs {
		for range repeats {
			calls = append(calls, id+1)
		}
	}
	random.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })

	var wait sync.WaitGroup
	for m := range masters {
		wait.Go(func() {
			for i := m; i < len(calls); i += masters {
				id := calls[i]
				n.mustStart(ctx, n.job(id, fmt.Sprintf("echo run >> %s/%d\nexit %d\n", out, id, id%7)))
			}
		})
	}
	statuses := map[int]int{}
	wait.Go(func() { n.follow(ctx, statuses, jobs) })
	for range kills {
		// The agent answers again, and is busy.
		if _, err := n.client.Health(ctx); err != nil {
			t.Fatalf("%v\n%s", err, n.log())
		}
		agent, _ := n.agent.Process()
		_ = agent.Kill()
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	for _, id := range calls { // every call comes late
		n.mustStart(ctx, n.job(id, fmt.Sprintf("echo late >> %s/%d\n", out, id)))
	}
	if err := n.forgotten(ctx); err != nil {
		t.Fatalf("%v\n%s", err, n.log())
	}
	stop()
	for id := 1; id <= jobs; id++ {
		if runs := lines(t, filepath.Join(out, fmt.Sprint(id))); len(runs) != 1 || runs[0] != "run" {
			t.Errorf("job %d: %q", id, runs)
		}
		if statuses[id] != id%7 {
			t.Errorf("job %d was reported with exit status %d, want %d", id, statuses[id], id%7)
		}
	}
	records := map[string]int{}
	for _, line := range lines(t, filepath.Join(n.spool(), "accounting")) {
		records[strings.Split(line, ":")[5]]++
	}
	for number, times := range records {
		if times != 1 {
			t.Errorf("the accounting has job %s %d times", number, times)
		}
	}
	if len(records) != jobs+1 {
		t.Errorf("the accounting has %d jobs, want %d", len(records), jobs+1)
	}
	n.clean("spool/active_jobs", "spool/job_scripts", "tmp")
}

// follow reads the ends of jobs like a master that stores each end before it acknowledges it.
func (n *node) follow(ctx context.Context, statuses map[int]int, jobs int) {
	err := n.client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job == nil || !r.Job.State.Over() {
			return nil
		}
		if former, ok := statuses[r.Job.Job]; ok && former != r.Job.Outcome.ExitStatus {
			n.Errorf("job %d ended with %d, and then with %d", r.Job.Job, former, r.Job.Outcome.ExitStatus)
		}
		if r.Job.Job <= jobs {
			statuses[r.Job.Job] = r.Job.Outcome.ExitStatus
		}
		if err := n.client.AcknowledgeJob(ctx, r.Job.ID, r.Number); err != nil {
			return err
		}
		if len(statuses) == jobs {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		n.Errorf("%v\n%s", err, n.log())
	}
}
