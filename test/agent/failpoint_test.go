package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

var errEnough = errors.New("enough")

// points returns all places at which a program can be killed, read from the sources, so that new
// ones are tested, too.
func points(t *testing.T) (agent, shepherd []string) {
	t.Helper()
	at := regexp.MustCompile(`failpoint\.At\("([^"]+)"\)`)
	for _, dir := range []string{"agent", "agent/launch", "jobdir", "starter"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range at.FindAllStringSubmatch(string(text), -1) {
				if strings.HasPrefix(m[1], "shepherd-") {
					shepherd = append(shepherd, m[1])
				} else {
					agent = append(agent, m[1])
				}
			}
		}
	}
	if len(agent)+len(shepherd) < 30 {
		t.Fatalf("only %d points were found: %q %q", len(agent)+len(shepherd), agent, shepherd)
	}
	slices.Sort(agent)
	slices.Sort(shepherd)
	return slices.Compact(agent), slices.Compact(shepherd)
}

// TestAgentKilledAtEachPoint kills the agent at each step of a job's life, and starts another one:
// the job must run once, and its report must be correct.
func TestAgentKilledAtEachPoint(t *testing.T) {
	agent, _ := points(t)
	for _, point := range agent {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			agentKilled(t, point)
		})
	}
}

func agentKilled(t *testing.T, point string) {
	t.Helper()
	if o := oneJob(t, point); o.ExitStatus != 5 || o.Failed != 0 || !o.Ran {
		t.Errorf("the job was reported as %+v", o)
	}
}

// TestSupervisorKilledAtEachPoint kills the supervisor instead. The result of the job is then not
// always known, but the job never runs twice, and the report is never wrong.
func TestSupervisorKilledAtEachPoint(t *testing.T) {
	_, shepherd := points(t)
	for _, point := range shepherd {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			supervisorKilled(t, point)
		})
	}
}

// TestBothKilledAtEachPoint kills the supervisor, and the agent when it has noticed that.
func TestBothKilledAtEachPoint(t *testing.T) {
	_, shepherd := points(t)
	for _, point := range shepherd {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			supervisorKilled(t, point+",agent-before-collect")
		})
	}
}

func supervisorKilled(t *testing.T, point string) {
	t.Helper()
	if o := oneJob(t, point); o.Failed == 0 && (o.ExitStatus != 5 || !o.Ran) {
		t.Errorf("the job was reported as %+v", o)
	}
}

// TestSoakKilledAtEachPoint does all of this several times: the timing of the other processes
// differs each time.
func TestSoakKilledAtEachPoint(t *testing.T) {
	testenv.Soak(t)
	agent, shepherd := points(t)
	const rounds = 10
	for round := range rounds {
		for _, point := range agent {
			t.Run(fmt.Sprintf("%s/%d", point, round), func(t *testing.T) {
				t.Parallel()
				agentKilled(t, point)
			})
		}
		for _, point := range shepherd {
			t.Run(fmt.Sprintf("%s/%d", point, round), func(t *testing.T) {
				t.Parallel()
				supervisorKilled(t, point)
				supervisorKilled(t, point+",agent-before-collect")
			})
		}
	}
}

// oneJob starts a job as a master, on a node where a process is killed at a point, and repeats its
// calls until it knows the outcome of the job. It returns the outcome when no processes or files of
// the job are left.
func oneJob(t *testing.T, point string) api.Outcome {
	t.Helper()
	n := newNode(t, "failpoint")
	out := filepath.Join(n.open("out"), "runs")
	n.start("EXECD_FAILPOINT=" + point)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := n.restarted(ctx)
	defer func() { t.Attr("killed", fmt.Sprint(stop())) }()

	n.mustStart(ctx, n.job(1, fmt.Sprintf("echo run >> %s\nexit 5\n", out)))
	var outcomes []api.Outcome
	err := n.client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job == nil || !r.Job.State.Over() {
			return nil
		}
		outcomes = append(outcomes, *r.Job.Outcome)
		if err := n.client.Acknowledge(ctx, r.Number); err != nil {
			return err
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%v\n%s", err, n.log())
	}
	// No further acknowledgement of the end is sent.
	for {
		jobs, err := n.client.Jobs(ctx)
		if err != nil {
			t.Fatalf("%v\n%s", err, n.log())
		}
		if len(jobs) == 0 {
			break
		}
	}
	runs := lines(t, out)
	if len(runs) > 1 || len(runs) == 0 && outcomes[0].Failed == 0 {
		t.Errorf("the job ran %d times\n%s", len(runs), n.log())
	}
	if records := lines(t, filepath.Join(n.spool(), "accounting")); len(records) != 1 {
		t.Errorf("the accounting has %d records: %q\n%s", len(records), records, n.log())
	}
	n.clean("spool/active_jobs", "spool/job_scripts", "tmp")
	return outcomes[0]
}

// restarted restarts the agent whenever it was killed. It returns a function that stops this and
// returns the number of restarts.
func (n *node) restarted(ctx context.Context) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	killed := 0
	go func() {
		defer close(done)
		for {
			_, gone := n.agent.Process()
			select {
			case <-gone:
				killed++
				n.start()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() int {
		cancel()
		<-done
		return killed
	}
}

// forgotten acknowledges all ends until the agent has no jobs.
func (n *node) forgotten(ctx context.Context) error {
	for {
		jobs, err := n.client.Jobs(ctx)
		if err != nil || len(jobs) == 0 {
			return err
		}
		var last uint64
		for _, j := range jobs {
			if j.State.Over() {
				last = max(last, j.Number)
			}
		}
		if last > 0 {
			if err := n.client.Acknowledge(ctx, last); err != nil {
				return err
			}
		}
	}
}

// clean checks that no processes or files of jobs are left.
func (n *node) clean(dirs ...string) {
	n.Helper()
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(n.dir, dir))
		if err != nil {
			n.Fatal(err)
		}
		for _, e := range entries {
			n.Errorf("%s is left in %s\n%s", e.Name(), dir, n.log())
		}
	}
}
