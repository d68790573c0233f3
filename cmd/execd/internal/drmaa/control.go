package drmaa

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"os"
	"slices"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/standalone/api"
)

// The actions of drmaa_control.
const (
	suspend = iota
	resume
	hold
	release
	terminate
)

// actions lists the command for each action of drmaa_control, and the states in which it is possible.
var actions = []struct {
	name, option string
	code         code // if the state of the job does not allow the action
	possible     func(t *api.TaskState) bool
}{
	suspend:   {"qmod", "-sj", suspendInconsistent, func(t *api.TaskState) bool { return t.Running && !t.UserSuspended }},
	resume:    {"qmod", "-usj", resumeInconsistent, func(t *api.TaskState) bool { return t.UserSuspended }},
	hold:      {"qhold", "", holdInconsistent, func(t *api.TaskState) bool { return !t.Running && !t.UserHold }},
	release:   {"qrls", "", releaseInconsistent, func(t *api.TaskState) bool { return t.UserHold }},
	terminate: {"qdel", "", invalidJob, func(*api.TaskState) bool { return true }},
}

// mostOfCommand is the maximum number of jobs on one command line.
const mostOfCommand = 1000

// control acts on a job, on the tasks of an array job, or on all jobs of the session that have not finished. If
// these are several jobs, it skips those whose state does not allow the action; it fails if it would have to
// skip all of them.
func (s *session) control(ctx context.Context, name string, action int) *callError {
	if action < 0 || action >= len(actions) {
		return failure(invalidArgument, "unknown action %d", action)
	}
	a := &actions[action]
	var ids []jobID
	several := name == sessionAll
	if several {
		s.mu.Lock()
		ids = s.pending()
		s.mu.Unlock()
		if len(ids) == 0 {
			return nil
		}
	} else {
		id, e := parseID(name)
		if e != nil {
			return e
		}
		s.mu.Lock()
		x := s.jobs[id]
		finished := x != nil && x.finished
		s.mu.Unlock()
		if finished {
			return failure(a.code, "job %s has finished", name)
		}
		ids = []jobID{id}
	}
	states, e := s.states(ctx, ids)
	if e != nil {
		return e
	}
	if _, ok := states[ids[0]]; !ok && len(ids) == 1 && len(states) > 0 { // the number of an array job
		several, ids = true, slices.SortedFunc(maps.Keys(states), func(a, b jobID) int { return cmp.Compare(a.task, b.task) })
	}
	var targets []string
	foreign := ""
	for _, id := range ids {
		switch t, ok := states[id]; {
		case !ok && !several:
			return failure(invalidJob, "there is no job %s", id)
		case !ok:
		case !a.possible(&t.TaskState):
			if !several {
				return &callError{code: a.code}
			}
		default:
			targets = append(targets, id.String())
			foreign = t.owner
		}
	}
	if len(targets) == 0 {
		if len(states) == 0 { // the jobs have just finished
			return nil
		}
		return &callError{code: a.code}
	}
	for chunk := range slices.Chunk(targets, mostOfCommand) {
		if a.option != "" {
			chunk = append([]string{a.option}, chunk...)
		}
		answer, e := s.command(ctx, a.name, chunk...)
		if e != nil {
			return e
		}
		if answer.Exit != 0 {
			text := sentence(string(answer.Stderr) + string(answer.Stdout))
			if me, err := userdb.System().UserID(uint32(os.Getuid())); err == nil && me.Name != foreign {
				return failure(authFailure, "%s", text)
			}
			if !several {
				return failure(internalError, "%s", text)
			}
		}
	}
	if action == terminate {
		// A deleted pending task of an array job leaves without an end event.
		s.background.Go(func() { s.look(false) })
	}
	return nil
}

// command runs a command of Grid Engine through the daemon.
func (s *session) command(ctx context.Context, name string, args ...string) (*api.CommandAnswer, *callError) {
	if s.daemon == nil {
		return nil, failure(internalError, "the session is not open")
	}
	a, err := s.daemon.Command(ctx, &api.CommandRequest{Key: rand.Text(), Name: name, Args: api.Texts(args), Directory: "/"})
	if err != nil {
		return nil, ofDaemon(err)
	}
	return a, nil
}

// taskState is the state of a task, with the owner of the job.
type taskState struct {
	api.TaskState
	owner string
}

// states requests the states of jobs. The number of an array job requests those of its tasks. Jobs unknown to the
// daemon are missing in the map.
func (s *session) states(ctx context.Context, ids []jobID) (map[jobID]taskState, *callError) {
	if s.daemon == nil {
		return nil, failure(internalError, "the session is not open")
	}
	wanted := map[jobID]bool{}
	var q api.StatesRequest
	for _, id := range ids {
		if wanted[id] = true; len(q.Jobs) == 0 || q.Jobs[len(q.Jobs)-1] != id.job {
			q.Jobs = append(q.Jobs, id.job)
		}
	}
	slices.Sort(q.Jobs)
	q.Jobs = slices.Compact(q.Jobs)
	a, err := s.daemon.States(ctx, q)
	if err != nil {
		return nil, ofDaemon(err)
	}
	found := map[jobID]taskState{}
	for _, j := range a.Jobs {
		for _, t := range j.Tasks {
			for n := t.First; n <= t.Last; n += max(t.Step, 1) {
				id := jobID{job: j.Job}
				if j.Array {
					id.task = uint32(n) //nolint:gosec // the daemon chose it
				}
				if wanted[id] || wanted[jobID{job: j.Job}] {
					found[id] = taskState{t, j.Owner}
				}
			}
		}
	}
	return found, nil
}

// The states of drmaa_job_ps.
const (
	undetermined   = 0x00
	queuedActive   = 0x10
	systemOnHold   = 0x01 // the following are added
	userOnHold     = 0x02
	running        = 0x20
	done           = 0x30
	failedState    = 0x40
	finishPatience = 5 // seconds until the session knows the result of a job that has left
)

// ps returns the state of a job.
func (s *session) ps(ctx context.Context, name string) (int, *callError) {
	id, e := parseID(name)
	if e != nil {
		return undetermined, e
	}
	s.mu.Lock()
	x := s.jobs[id]
	finished := x != nil && x.finished
	s.mu.Unlock()
	if !finished {
		states, e := s.states(ctx, []jobID{id})
		if e != nil {
			return undetermined, e
		}
		if t, ok := states[id]; ok {
			return stateOf(&t.TaskState), nil
		}
	}
	if x == nil {
		return undetermined, failure(invalidJob, "there is no job %s", name)
	}
	// The job has left, and its result has not arrived yet.
	var r result
	e = s.until(ctx, finishPatience, func() (bool, *callError) {
		r = x.result
		return x.finished, nil
	})
	switch {
	case e != nil && e.code == exitTimeout, e == nil && !r.known:
		return undetermined, nil
	case e != nil:
		return undetermined, e
	case r.stat&statExited != 0:
		return done, nil
	default:
		return failedState, nil
	}
}

// stateOf returns the state of a task that has not finished.
func stateOf(t *api.TaskState) int {
	flags := func(user, system bool) (n int) {
		if user {
			n |= userOnHold
		}
		if system {
			n |= systemOnHold
		}
		return n
	}
	switch {
	case t.Error:
		return failedState
	case t.Running:
		return running | flags(t.UserSuspended, t.SystemSuspended)
	default:
		return queuedActive | flags(t.UserHold, t.SystemHold)
	}
}
