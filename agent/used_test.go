package agent

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// known holds what a master knows about a job.
type known struct {
	state State
	nice  int
	cpu   float64
}

// TestUsageReportsAreSeparateFromJobs checks that a master that asks for more reports, after it has
// processed any part of them, gets the state and usage of all jobs. The line of a job is sent only
// if more than its usage has changed.
func TestUsageReportsAreSeparateFromJobs(t *testing.T) {
	spool, err := jobdir.OpenSpool(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	cluster := cluster(t)
	rapid.Check(t, func(t *rapid.T) {
		a := &Agent{
			options: Options{Host: host}, launcher: launch.Local{Spool: spool}, clock: clock.System(), log: hclog.NewNullLogger(),
			table: newTable(hclog.NewNullLogger()),
		}
		a.settings.replace(cluster, nil)
		a.table.numbers.last = 100
		const jobs = 5
		for i := range jobs {
			e := newEntry(job.ID{Job: i + 1}, Record{})
			e.state = Running
			a.table.jobs[e.id] = e
			a.table.touch(e)
		}
		knows := map[job.ID]known{}
		after, promised := uint64(0), uint64(0)
		var ending *entry
		end := func() {
			a.table.set(ending, Ended)
			ending.number = promised
			a.table.numbers.keep(promised)
			ending = nil
		}
		// take takes the reports with the first numbers of a batch.
		take := func(share float64) {
			b := a.batch(after)
			numbers := map[uint64]bool{}
			for _, r := range b.Jobs {
				numbers[r.Number] = true
			}
			most := int(share * float64(len(numbers)))
			taken := map[uint64]bool{}
			for _, r := range b.Jobs {
				if !taken[r.Number] && len(taken) == most {
					break
				}
				if r.Number <= after && !taken[r.Number] || r.Number > a.table.numbers.limit() {
					t.Fatalf("number %d comes after %d, with limit %d", r.Number, after, a.table.numbers.limit())
				}
				taken[r.Number] = true
				after = r.Number
				k, there := knows[r.ID]
				if r.Used {
					if !there || k.state != r.State || k.nice != r.Nice {
						t.Fatalf("of job %s only its usage is reported, but %+v was known and is %v, %d", r.ID, k, r.State, r.Nice)
					}
				}
				knows[r.ID] = known{r.State, r.Nice, r.Usage.CPU}
			}
			if share == 1 {
				after = b.Number
			}
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			e := a.table.jobs[job.ID{Job: rapid.IntRange(1, jobs).Draw(t, "job")}]
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				e.priority.Nice++
				a.table.touch(e)
			case 1, 2:
				var list []*entry
				for _, e := range a.table.list() {
					if e.state.Live() && e.id.Job >= rapid.IntRange(1, jobs).Draw(t, "from") {
						e.usage.CPU++
						list = append(list, e)
					}
				}
				a.table.hasUsed(list)
			case 3:
				if ending != nil {
					end()
				} else if e.state == Running {
					ending, promised = e, a.table.numbers.promise()
				}
			case 4:
				take(rapid.Float64Range(0, 1).Draw(t, "part"))
			case 5:
				take(1)
			}
		}
		if ending != nil {
			end()
		}
		take(1)
		want := map[job.ID]known{}
		for id, e := range a.table.jobs {
			want[id] = known{e.state, e.priority.Nice, e.usage.CPU}
		}
		if diff := cmp.Diff(want, knows, cmp.AllowUnexported(known{})); diff != "" {
			t.Fatal(diff)
		}
		if b := a.batch(after); b.Number != after || len(b.Jobs) > 0 {
			t.Fatalf("after all there is %+v", b)
		}
		fresh, err := a.Reports(context.Background(), 0)
		if err != nil || len(fresh.Jobs) != jobs {
			t.Fatalf("a master that comes anew gets %+v, %v", fresh, err)
		}
		for _, r := range fresh.Jobs {
			if r.Used {
				t.Fatalf("a master that comes anew gets of job %s its usage alone", r.ID)
			}
		}
	})
}
