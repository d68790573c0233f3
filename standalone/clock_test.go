package standalone

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// startsOnly is an agent that sends the number of each job that it is to start, and reports
// nothing.
type startsOnly struct {
	agent.Commands
	starts chan int
}

func (s *startsOnly) Start(_ context.Context, x *agent.Start) (agent.JobReport, error) {
	s.starts <- x.ID.Job
	return agent.JobReport{}, nil
}

func (*startsOnly) Reports(ctx context.Context, _ uint64) (agent.Batch, error) {
	<-ctx.Done()
	return agent.Batch{}, ctx.Err()
}

func (*startsOnly) Health() agent.Health                    { return agent.Health{} }
func (*startsOnly) Jobs() []agent.JobReport                 { return nil }
func (*startsOnly) Job(job.ID) (r agent.JobReport, ok bool) { return r, false }
func (*startsOnly) SetTickets([]agent.Tickets)              {}

// TestScheduleIntervalByMasterClock submits a job that may start one schedule_interval later, and
// advances the clock of the master by this time.
func TestScheduleIntervalByMasterClock(t *testing.T) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	now := clock.NewManual(noon)
	cluster, err := qconf.BuiltinOn("node1", 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(&daemon.Host{
		Name: "node1", Spool: t.TempDir(), Log: hclog.NewNullLogger(),
		Read: func() (*qconf.Cluster, error) { return cluster, nil }, Cluster: func() *qconf.Cluster { return cluster },
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := &startsOnly{starts: make(chan int, 1)}
	go func() { ended <- m.Run(ctx, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	interval := cluster.Scheduler().ScheduleInterval
	later := noon.Add(interval)
	for _, event := range []func(){
		func() {
			a, err := m.cell.HostReport(m.now(), "node1", map[string]string{"np_load_avg": "0"})
			if err != nil {
				t.Error(err)
			}
			m.follow(a.Actions)
		},
		func() {
			start, err := submit.ParseDateTime(later.Format("200601021504.05"))
			if err != nil {
				t.Error(err)
			}
			_, err = m.cell.Submit(m.now(), cell.Caller{User: "alice", Group: "users", Host: "node1"},
				&submit.Request{Command: "job.sh", Name: "job.sh", Script: []byte("true\n"), Start: start})
			if err != nil {
				t.Error(err)
			}
			m.pace.demand()
		},
	} {
		if err := m.do(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	// Until then Run may be in a scheduling run, which must not seem to take so long.
	if err := now.WaitFor(t.Context(), interval); err != nil {
		t.Fatal(err)
	}
	now.Advance(interval - time.Second)
	select {
	case <-s.starts:
		t.Fatal("the job was started too early")
	default:
	}
	now.Advance(time.Second)
	if n := <-s.starts; n != 1 {
		t.Errorf("job %d was started", n)
	}
}
