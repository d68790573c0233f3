package top

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/qstat"
)

// snapshot holds the answers of the daemon. It is never changed.
type snapshot struct {
	at     time.Time
	hosts  []qstat.Host
	queues []qstat.QueueInstance
	jobs   []job // in the order of qstat
}

// job is a job of the list.
type job struct {
	joblist.Row
	gpus   int     // of running tasks, or of the largest pending task
	part   float64 // used part of the processors of the slots since the start; negative if unknown
	memory float64 // current virtual memory of the running tasks in bytes; negative if unknown
}

const (
	// detailed is the maximum number of jobs for whose details the collector asks: their memory, and
	// why they are pending. The answer takes the daemon longer than the list.
	detailed = 200
	// askTime is the maximum time of an answer.
	askTime = 30 * time.Second
	// share bounds the part of the daemon's time that the command uses: after an answer that took long,
	// the pause is this many times as long.
	share = 10
)

// collector asks the daemon for snapshots.
type collector struct {
	ask joblist.Ask
	now func() time.Time

	mu     sync.Mutex
	choice choice
}

// choice selects the jobs that the collector asks for.
type choice struct {
	user  string // as for qstat -u
	shown []int  // jobs whose details are needed
}

// choose sets what the following snapshots contain.
func (c *collector) choose(next choice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.choice = next
}

// viewOf returns a function that asks the daemon for views.
func viewOf(session *qclient.Session) joblist.Ask {
	return func(ctx context.Context, command ...string) (*qstat.Document, error) {
		return session.View(ctx, command[0], command[1:]...)
	}
}

// collect asks the daemon for a snapshot.
func (c *collector) collect(ctx context.Context) (*snapshot, error) {
	c.mu.Lock()
	choice := c.choice
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	all, err := c.ask(ctx, "qhost", "-F", "-q")
	if err != nil {
		return nil, err
	}
	list, err := c.ask(ctx, "qstat", "-u", choice.user)
	if err != nil {
		return nil, err
	}
	s := &snapshot{at: c.now(), queues: all.Queues}
	for _, h := range all.Hosts {
		if h.Name != "global" {
			s.hosts = append(s.hosts, h)
		}
	}
	for _, j := range list.Jobs {
		s.jobs = append(s.jobs, newJob(j, s.at))
	}
	return s, c.details(ctx, s, choice.shown)
}

// details completes the jobs that are shown, and the first ones of all others.
func (c *collector) details(ctx context.Context, s *snapshot, shown []int) error {
	places := map[int]int{}
	for i := range s.jobs {
		places[s.jobs[i].ID] = i
	}
	var ids []string
	chosen := map[int]bool{}
	add := func(id int) {
		if _, there := places[id]; there && !chosen[id] && len(ids) < detailed {
			chosen[id] = true
			ids = append(ids, strconv.Itoa(id))
		}
	}
	for _, id := range shown {
		add(id)
	}
	for i := range s.jobs {
		add(s.jobs[i].ID)
	}
	if len(ids) == 0 {
		return nil
	}
	// A job that has finished since then is missing from the answer.
	d, err := c.ask(ctx, "qstat", "-j", strings.Join(ids, ","))
	if err != nil {
		if qclient.Refused(err) {
			return nil
		}
		return err
	}
	for i := range d.Details {
		if place, there := places[d.Details[i].ID]; there {
			s.jobs[place].complete(&d.Details[i])
		}
	}
	return nil
}

// newJob returns a job without details.
func newJob(j qstat.Job, now time.Time) job {
	row := job{Row: joblist.New(j), part: -1, memory: -1}
	var used, granted float64
	each := perSlot(j.Hard, "gpu")
	most := 0
	for _, t := range j.Tasks {
		slots := 0
		for _, g := range t.Grants {
			slots += g.Slots
		}
		if t.Phase != qstat.Running {
			most = max(most, each*max(t.Slots, 1))
			continue
		}
		row.gpus += each * max(slots, 1)
		if t.Usage != nil && t.Started > 0 {
			used += t.Usage.CPU
			for _, sub := range t.Subtasks {
				if sub.Usage != nil {
					used += sub.Usage.CPU
				}
			}
			granted += float64(slots) * max(now.Sub(time.Unix(t.Started, 0)).Seconds(), 0)
		}
	}
	if row.gpus == 0 {
		row.gpus = most
	}
	if granted > 0 {
		row.part = used / granted
	}
	return row
}

// perSlot returns the number that a job requests of a consumable for each slot.
func perSlot(hard []qstat.Request, name string) int {
	i := slices.IndexFunc(hard, func(r qstat.Request) bool { return r.Name == name })
	if i < 0 {
		return 0
	}
	n, err := strconv.ParseFloat(hard[i].Value, 64)
	if err != nil || !(n >= 0 && n <= math.MaxInt16) {
		return 0
	}
	return int(n)
}

// complete adds what only qstat -j shows.
func (j *job) complete(d *qstat.JobDetail) {
	j.Why, j.Expected, j.Progress = d.WaitingFor, d.ExpectedStart, d.Progress
	for _, t := range d.Details {
		if t.Running {
			j.memory = max(j.memory, 0) + t.VirtualMemory
			for _, sub := range t.Subtasks {
				j.memory += sub.VirtualMemory
			}
		}
	}
}

// isRunning reports whether a task of the job is running.
func (j *job) isRunning() bool {
	return slices.ContainsFunc(j.Tasks, func(t qstat.Task) bool { return t.Phase == qstat.Running })
}

// update is a message of a collector: the newest snapshot, or the reason why there is none.
type update struct {
	shown *snapshot
	err   error
}

// follow sends an update for each interval, and at once after a message on wake, until the context is
// done.
func (c *collector) follow(ctx context.Context, interval time.Duration, wake <-chan struct{}, to chan<- update) {
	for ctx.Err() == nil {
		begin := c.now()
		s, err := c.collect(ctx)
		select {
		case to <- update{s, err}:
		case <-ctx.Done():
			return
		}
		pause := time.NewTimer(max(interval, share*c.now().Sub(begin)))
		select {
		case <-ctx.Done():
		case <-wake:
		case <-pause.C:
		}
		pause.Stop()
	}
}
