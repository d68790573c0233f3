package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/job"
)

// began is when everything happens.
var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// fake is an agent that runs no jobs and stores the arguments of its calls.
type fake struct {
	mu       sync.Mutex
	number   uint64
	changed  chan struct{}
	jobs     map[job.ID]*agent.JobReport
	used     map[job.ID]uint64 // numbers of reports of usage
	keys     map[string]job.ID
	starts   []agent.Start // all that came, repetitions too
	tasks    []agent.TaskStart
	calls    []string
	epoch    uint64
	draining string
	tickets  []agent.Tickets
	turns    map[string]agent.Sequence
	load     *agent.LoadReport
	version  string
	service  *agent.ServiceReport
	versionN uint64
	err      error // of all that can have one
	waiting  int   // calls of Reports that wait
	gate     chan struct{}
	terminal func() agent.Terminal // of all jobs; nil for none
}

var _ agent.Commands = (*fake)(nil)

func newFake() *fake {
	return &fake{changed: make(chan struct{}), jobs: map[job.ID]*agent.JobReport{}, used: map[job.ID]uint64{}, keys: map[string]job.ID{}, version: "1", versionN: 1, number: 1}
}

// did notes a call. It returns the error that was asked for.
func (f *fake) did(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fake) next() uint64 {
	f.number++
	close(f.changed)
	f.changed = make(chan struct{})
	return f.number
}

func (f *fake) Start(ctx context.Context, s *agent.Start) (agent.JobReport, error) {
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-ctx.Done():
			return agent.JobReport{}, ctx.Err()
		}
	}
	if err := f.did("Start %s", s.ID); err != nil {
		return agent.JobReport{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, *s)
	if s.Epoch < f.epoch {
		return agent.JobReport{}, &agent.Error{Code: agent.FailedPrecondition, Err: fmt.Errorf("epoch %d: a master with epoch %d has taken over", s.Epoch, f.epoch)}
	}
	f.epoch = s.Epoch
	key := cmp.Or(s.Key, s.ID.String())
	if id, ok := f.keys[key]; ok {
		return *f.jobs[id], nil
	}
	if f.jobs[s.ID] != nil {
		return agent.JobReport{}, &agent.Error{Code: agent.AlreadyExists, Err: fmt.Errorf("job %s exists already", s.ID)}
	}
	if f.draining != "" {
		return agent.JobReport{}, &agent.Error{Code: agent.Unavailable, Err: errors.New("the host takes no jobs: " + f.draining)}
	}
	f.keys[key] = s.ID
	f.jobs[s.ID] = &agent.JobReport{
		Number: f.next(), ID: s.ID, Key: key, State: agent.Accepted, Slave: s.Slave, Owner: s.Owner, Name: s.Request.Name,
		Queue: s.Grants[0].Queue, PE: s.PE, Slots: s.Grants[0].Slots, Received: began, Dir: "/var/spool/execd/jobs/" + s.ID.String(),
	}
	return *f.jobs[s.ID], nil
}

func (f *fake) Admit(_ context.Context, s *agent.Start) error { return f.did("Admit %s", s.ID) }

func (f *fake) StartTask(_ context.Context, s *agent.TaskStart) (agent.JobReport, error) {
	if err := f.did("StartTask %s", s.Job); err != nil {
		return agent.JobReport{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	parent := f.jobs[s.Job]
	if parent == nil {
		return agent.JobReport{}, &agent.Error{Code: agent.NotFound, Err: fmt.Errorf("job %s is not on this host", s.Job)}
	}
	if id, ok := f.keys[s.Key]; ok {
		return *f.jobs[id], nil
	}
	f.tasks = append(f.tasks, *s)
	id := s.Job
	id.PETask = fmt.Sprintf("%d.n1", len(f.tasks))
	f.keys[s.Key] = id
	f.jobs[id] = &agent.JobReport{
		Number: f.next(), ID: id, Key: s.Key, State: agent.Accepted, Owner: s.Owner, Name: "petask", Queue: parent.Queue, Slots: 1, Received: began,
	}
	return *f.jobs[id], nil
}

func (f *fake) Signal(_ context.Context, id job.ID, o agent.Order) error {
	return f.did("Signal %s %s", id, o)
}

func (f *fake) Attach(_ context.Context, id job.ID) (agent.Terminal, error) {
	if err := f.did("Attach %s", id); err != nil {
		return nil, err
	}
	if f.terminal != nil {
		return f.terminal(), nil
	}
	if _, ok := f.Job(id); !ok {
		return nil, &agent.Error{Code: agent.NotFound, Err: fmt.Errorf("job %s is not on this host", id)}
	}
	return nil, &agent.Error{Code: agent.FailedPrecondition, Err: fmt.Errorf("job %s is not interactive: it has no terminal", id)}
}

func (f *fake) SignalQueue(_ context.Context, queue string, o agent.Order) error {
	return f.did("SignalQueue %s %s", queue, o)
}

func (f *fake) SawEpoch(uint64) error { return nil }

func (f *fake) InTurn(t agent.Sequence, what string, do func() error) error {
	f.mu.Lock()
	again, err := t.Check(what, f.turns[what])
	f.mu.Unlock()
	if again || err != nil {
		return err
	}
	if err = do(); err == nil && t.Number > 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.turns == nil {
			f.turns = map[string]agent.Sequence{}
		}
		f.turns[what] = t
	}
	return err
}

func (f *fake) SetTickets(tickets []agent.Tickets) {
	said := []string{}
	for _, t := range tickets {
		said = append(said, fmt.Sprintf("{%s %v}", t.ID, t.Tickets))
	}
	_ = f.did("SetTickets %v", said)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tickets = tickets
}

func (f *fake) Configure(context.Context) error { return f.did("Configure") }

func (f *fake) FullReport() { _ = f.did("FullReport") }

func (f *fake) Reports(ctx context.Context, after uint64) (agent.Batch, error) {
	for {
		f.mu.Lock()
		b, changed := f.batch(after), f.changed
		if b.Number > after {
			f.mu.Unlock()
			return b, nil
		}
		f.waiting++
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		f.mu.Lock()
		f.waiting--
		f.mu.Unlock()
		if ctx.Err() != nil {
			return agent.Batch{}, &agent.Error{Code: agent.Unavailable, Err: ctx.Err()}
		}
	}
}

// batch returns the reports after a number, with the jobs sorted by ID. The caller holds mu.
func (f *fake) batch(after uint64) agent.Batch {
	b := agent.Batch{Number: f.number}
	for _, id := range slices.SortedFunc(maps.Keys(f.jobs), func(x, y job.ID) int {
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Task, y.Task), cmp.Compare(x.PETask, y.PETask))
	}) {
		r := *f.jobs[id]
		if r.Number <= after && f.used[id] > after {
			r.Number, r.Used = f.used[id], true
		}
		if r.Number > after {
			b.Jobs = append(b.Jobs, r)
		}
	}
	if f.load != nil && f.load.Number > after {
		b.Load = f.load
	}
	if f.service != nil && f.service.Number > after {
		b.Service = f.service
	}
	if f.versionN > after {
		b.Configuration, b.ConfigurationNumber = f.version, f.versionN
	}
	return b
}

func (f *fake) Acknowledge(_ context.Context, number uint64) error {
	if err := f.did("Acknowledge %d", number); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, r := range f.jobs {
		if r.State == agent.Ended && r.Number <= number {
			delete(f.jobs, id)
		}
	}
	return nil
}

func (f *fake) AcknowledgeJob(_ context.Context, id job.ID, number uint64) error {
	return f.did("AcknowledgeJob %s %d", id, number)
}

func (f *fake) Jobs() []agent.JobReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.batch(0).Jobs
}

func (f *fake) Job(id job.ID) (agent.JobReport, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.jobs[id]; r != nil {
		return *r, true
	}
	return agent.JobReport{}, false
}

func (f *fake) Drain(_ context.Context, reason string) error {
	f.mu.Lock()
	f.draining = reason
	f.mu.Unlock()
	return f.did("Drain %s", reason)
}

func (f *fake) Resume(context.Context) error {
	f.mu.Lock()
	f.draining = ""
	f.mu.Unlock()
	return f.did("Resume")
}

func (f *fake) Shutdown(endJobs bool) { _ = f.did("Shutdown %v", endJobs) }

func (f *fake) Health() agent.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := agent.Health{
		Host: "n1", Version: "1.0", Started: began, Epoch: f.epoch, Slots: 4, Jobs: map[agent.State]int{}, Draining: f.draining,
		Configuration: f.version,
	}
	for _, r := range f.jobs {
		h.Jobs[r.State]++
		h.Used += r.Slots
	}
	return h
}

// change brings a job to a state, as the agent does of its own accord.
func (f *fake) change(id job.ID, to agent.State, outcome *job.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.jobs[id]
	r.State, r.Outcome, r.Number = to, outcome, f.next()
}

// put puts a job into the table.
func (f *fake) put(r agent.JobReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Number = f.next()
	f.jobs[r.ID] = &r
}

func (f *fake) said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := f.calls
	f.calls = nil
	return said
}
