package standalone

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
	"github.com/execd-project/execd/submit"
)

const (
	// keepFeed is the time for which the daemon records ends after the user's last request.
	keepFeed = 15 * time.Minute
	// mostSent is the number of ends in one answer: some 500 kB.
	mostSent = 1000
	// mostNoted is the maximum number of recorded ends for one user, about 15 MB.
	mostNoted = 30000
)

// feeds hold the ends of jobs for each user with a program that follows all of the user's jobs. Only the
// goroutine of Run uses them.
type feeds map[string]*feed

// feed holds the latest ends of one user's jobs.
type feed struct {
	boot    string        // different for each feed
	last    uint64        // number of the last end of the list
	list    []api.TaskEnd // the latest ends
	changed chan struct{} // closed with the next change
	until   time.Time     // when the feed is dropped, unless the user asks again
}

// forUser returns the feed of a user. The first call creates it.
func (f feeds) forUser(user string, now time.Time) *feed {
	if f[user] == nil {
		f[user] = &feed{boot: rand.Text(), changed: make(chan struct{})}
	}
	f[user].until = now.Add(keepFeed)
	return f[user]
}

// ended records the end of a task, or its error state.
func (f feeds) ended(owner string, r *run, submitted time.Time, inError bool, o *job.Outcome) {
	if x := f[owner]; x != nil {
		x.add(api.TaskEnd{Job: r.job, Task: uint32(r.id.Task), Error: inError, Submitted: submitted.Unix(), Outcome: serve.Outcome(o)})
	}
}

// left records which jobs have left the queue. Their owners are no longer known. The numbers are no
// secret: qstat shows them to every user.
func (f feeds) left(changes []store.Change, now time.Time) {
	for user, x := range f {
		if now.After(x.until) {
			close(x.changed)
			delete(f, user)
		}
	}
	if len(f) == 0 {
		return
	}
	for _, c := range changes {
		if prefix, id, _ := strings.Cut(c.Key, "/"); prefix == "job" && c.Value == nil {
			n, err := strconv.ParseUint(id, 10, 32)
			if err != nil {
				continue
			}
			for _, x := range f {
				x.add(api.TaskEnd{Job: uint32(n), Left: true})
			}
		}
	}
}

func (x *feed) add(e api.TaskEnd) {
	x.last++
	if x.list = append(x.list, e); len(x.list) >= 2*mostNoted {
		x.list = slices.Clone(x.list[mostNoted:])
	}
	close(x.changed)
	x.changed = make(chan struct{})
}

// behind returns the next ends after a number, at most mostSent. ok is false if some of them have
// been dropped.
func (x *feed) behind(after uint64) (list []api.TaskEnd, ok bool) {
	first := x.last - uint64(len(x.list)) // one less than the number of the first end in the list
	if after < first || after > x.last {
		return nil, false
	}
	list = x.list[after-first:]
	return slices.Clone(list[:min(len(list), mostSent)]), true
}

// serveEnds answers EndsRequest.
func (m *Master) serveEnds(ctx context.Context, c *serve.Call) (any, *agentapi.Error) {
	q := &api.EndsRequest{}
	if err := decode(c.Body, q); err != nil {
		return nil, err
	}
	var a *api.EndsAnswer
	later, err := m.awaitNews(ctx, c.User.UID, func(ctx context.Context) (<-chan struct{}, *agentapi.Error) {
		a = &api.EndsAnswer{}
		var changed chan struct{}
		err := m.look(ctx, func() {
			x := m.feeds.forUser(c.User.Name, m.clock.Now())
			changed, a.Boot, a.Last = x.changed, x.boot, x.last
			ok := false
			if q.Boot == x.boot {
				a.Ends, ok = x.behind(q.After)
			}
			if a.Missed = !ok; ok {
				a.Last = q.After + uint64(len(a.Ends))
			}
		})
		if err != nil || len(a.Ends) > 0 || a.Missed || q.Now {
			return nil, err
		}
		return changed, nil
	})
	if err != nil {
		return nil, err
	}
	a.Later = later
	return a, nil
}

// serveStates answers StatesRequest. Every user may see all states, as with qstat.
func (m *Master) serveStates(ctx context.Context, c *serve.Call) (any, *agentapi.Error) {
	q := &api.StatesRequest{}
	if err := decode(c.Body, q); err != nil {
		return nil, err
	}
	if m.showing.take(ctx, c.User.UID) != nil {
		return nil, ending()
	}
	c.After(func() { m.showing.give(c.User.UID) })
	a := &api.StatesAnswer{}
	err := m.look(ctx, func() {
		now := m.clock.Now()
		x := m.feeds.forUser(c.User.Name, now)
		a.Boot, a.Last = x.boot, x.last
		if len(q.Jobs) == 0 {
			for _, j := range m.cell.Jobs() {
				if j.Owner() == c.User.Name {
					a.Jobs = append(a.Jobs, stateOf(j, now.Unix()))
				}
			}
			return
		}
		for _, id := range q.Jobs {
			if j := m.cell.Job(id); j != nil {
				a.Jobs = append(a.Jobs, stateOf(j, now.Unix()))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// look calls a function in the goroutine of Run, and waits until it has returned.
func (m *Master) look(ctx context.Context, do func()) *agentapi.Error {
	done := make(chan struct{})
	if m.do(ctx, func() { do(); close(done) }) != nil {
		return ending()
	}
	select {
	case <-done:
		return nil
	case <-m.stopped:
		return ending()
	}
}

// stateOf returns the state of a job and of its tasks at a Unix time.
func stateOf(j *cell.Job, now int64) api.JobState {
	s := api.JobState{Job: j.ID(), Owner: j.Owner(), Array: j.IsArray()}
	waits := len(j.Predecessors()) > 0 || len(j.TaskPredecessors()) > 0 || j.Start > now
	held := func(t *api.TaskState, h submit.Holds) {
		t.UserHold = h&submit.HoldUser != 0
		t.SystemHold = h&^submit.HoldUser != 0 || waits
	}
	for _, t := range j.Tasks() {
		x := api.TaskState{First: int(t.Number), Last: int(t.Number), Step: 1, Error: t.Error != ""}
		if r := t.Running(); r != nil {
			x.Running = true
			x.UserSuspended = r.Suspended&scheduler.ByUser != 0
			x.SystemSuspended = r.Suspended&^scheduler.ByUser != 0
		} else {
			held(&x, t.Holds)
		}
		s.Tasks = append(s.Tasks, x)
	}
	for r := range j.Waiting.Ranges() {
		x := api.TaskState{First: r.First, Last: r.Last, Step: r.Step}
		held(&x, j.Holds)
		s.Tasks = append(s.Tasks, x)
	}
	return s
}
