package drmaa

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/standalone/api"
)

// Job identifiers that stand for jobs of the session.
const (
	sessionAny = "DRMAA_JOB_IDS_SESSION_ANY"
	sessionAll = "DRMAA_JOB_IDS_SESSION_ALL"
)

// contactPrefix is the prefix of a contact string that names the socket of a daemon.
const contactPrefix = "socket="

// session is a DRMAA session.
type session struct {
	background sync.WaitGroup
	context    context.Context // for goroutines in the background
	contact    string
	daemon     *api.Client

	starting sync.Mutex // held while the following goroutine is started

	mu        sync.Mutex
	jobs      map[jobID]*entry    // jobs that drmaa_wait has not reaped
	reaped    map[jobID]bool      // jobs that it has reaped
	finished  []jobID             // in the order in which they finished, including reaped ones
	changed   chan struct{}       // closed at the next change of jobs
	arrays    map[uint32][]uint32 // the tasks of array jobs
	following bool
	boot      string // of the last EndsAnswer
	last      uint64 // of the last EndsAnswer
	submitted int    // number of submissions in progress
	// unclaimed holds ends of jobs that may belong to such a submission.
	unclaimed []api.TaskEnd
}

// jobID is a job, or a task of an array job.
type jobID struct {
	job, task uint32 // task is 0 for a job that is not an array job
}

func (id jobID) String() string {
	if id.task == 0 {
		return strconv.FormatUint(uint64(id.job), 10)
	}
	return strconv.FormatUint(uint64(id.job), 10) + "." + strconv.FormatUint(uint64(id.task), 10)
}

// parseID reads a job identifier.
func parseID(s string) (jobID, *callError) {
	job, task, array := strings.Cut(s, ".")
	n, err := strconv.ParseUint(job, 10, 32)
	if err != nil || n == 0 {
		return jobID{}, failure(invalidJob, "there is no job %q", s)
	}
	id := jobID{job: uint32(n)}
	if array {
		n, err = strconv.ParseUint(task, 10, 32)
		if err != nil || n == 0 {
			return jobID{}, failure(invalidJob, "there is no job %q", s)
		}
		id.task = uint32(n)
	}
	return id, nil
}

// entry is a job of the session.
type entry struct {
	since    time.Time // a time before the submission
	finished bool
	result   result
}

// result is the result of a finished job.
type result struct {
	stat  int
	ran   bool
	known bool     // if false, drmaa_wait returns NO_RUSAGE
	usage []string // NAME=VALUE
}

func newSession(ctx context.Context) *session {
	return &session{context: ctx, jobs: map[jobID]*entry{}, reaped: map[jobID]bool{}, arrays: map[uint32][]uint32{}, changed: make(chan struct{})}
}

// close waits for the goroutines of the session. Its context must be done, and its calls, which could start
// more of them, must have returned.
func (s *session) close() { s.background.Wait() }

// open connects the session to the daemon of the contact string, or to the default one.
func (s *session) open(ctx context.Context, contact string) ([]string, *callError) {
	if contact != "" {
		path, ok := strings.CutPrefix(contact, contactPrefix)
		if !ok || !strings.HasPrefix(path, "/") {
			return nil, failure(invalidContact, "invalid contact string %q: expected socket=/PATH of a daemon; sessions cannot be opened again", contact)
		}
		os.Setenv(paths.SocketVariable, path)
	}
	c := qclient.Command{Name: "drmaa", Stdout: io.Discard, Stderr: io.Discard}
	d, err := c.Dial(ctx)
	if err != nil {
		return nil, failure(communicationFailure, "%v", err)
	}
	if _, err := d.Ends(ctx, api.EndsRequest{Now: true}); err != nil {
		return nil, ofDaemon(err)
	}
	s.daemon, s.contact = d, contact
	return []string{contact}, nil
}

// run submits a template: a single job, or one job for each index.
func (s *session) run(ctx context.Context, args []string) ([]string, *callError) {
	var numbers [3]int // start, end, increment
	for i := range numbers {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			return nil, failure(internalError, "invalid number %q", args[i])
		}
		numbers[i] = n
	}
	t, rest := template{}, args[4:]
	for len(rest) > 0 && rest[0] != "" {
		if len(rest) < 2 {
			return nil, failure(internalError, "the template ends too early")
		}
		n, err := strconv.Atoi(rest[1])
		if err != nil || n < 0 || len(rest) < 2+n {
			return nil, failure(internalError, "the template ends too early")
		}
		t[rest[0]], rest = rest[2:2+n], rest[2+n:]
	}
	if len(rest) > 0 {
		rest = rest[1:]
	}
	around := newSurroundings(args[3], rest)
	s.mu.Lock()
	s.submitted++
	s.mu.Unlock()
	if e := s.follow(ctx); e != nil {
		s.claim(nil, time.Time{})
		return nil, e
	}
	ids, e := s.submit(ctx, t, around, numbers[0], numbers[1], numbers[2])
	s.claim(ids, around.now.Add(-time.Second))
	if e != nil && len(ids) == 0 {
		return nil, e
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list, e
}

// submit submits a template. It also returns the jobs that were submitted before an error.
func (s *session) submit(ctx context.Context, t template, around *surroundings, start, end, increment int) ([]jobID, *callError) {
	if increment == 0 {
		id, e := s.qsub(ctx, t, around, "", "")
		if e != nil {
			return nil, e
		}
		return []jobID{{job: id}}, nil
	}
	if start < 1 || end < 1 || increment > 0 && end < start || increment < 0 && end > start {
		return nil, failure(invalidArgument, "invalid indices %d to %d by %d: expected numbers from 1, and some job", start, end, increment)
	}
	var indices []int
	for i := start; increment > 0 && i <= end || increment < 0 && i >= end; i += increment {
		indices = append(indices, i)
	}
	var ids []jobID
	if t.indexed() {
		for _, i := range indices {
			id, e := s.qsub(ctx, t, around, strconv.Itoa(i), "")
			if e != nil {
				return ids, e
			}
			ids = append(ids, jobID{job: id})
		}
		return ids, nil
	}
	first, last := slices.Min(indices), slices.Max(indices)
	array := strconv.Itoa(first) + "-" + strconv.Itoa(last) + ":" + strconv.Itoa(max(increment, -increment))
	job, e := s.qsub(ctx, t, around, "$TASK_ID", array)
	if e != nil {
		return nil, e
	}
	for _, i := range indices {
		ids = append(ids, jobID{job, uint32(i)}) //nolint:gosec // it is positive
	}
	return ids, nil
}

// exitLater is the exit status of qsub if the user has too many jobs.
const exitLater = 25

// qsub submits a job.
func (s *session) qsub(ctx context.Context, t template, around *surroundings, index, array string) (uint32, *callError) {
	args, env, e := t.commandLine(around, index, array)
	if e != nil {
		return 0, e
	}
	var said strings.Builder
	c := qclient.Command{Name: "qsub", Args: args, Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Directory: around.directory, Environment: env}
	a, err := c.Ask(ctx, s.daemon)
	if err != nil {
		if _, ok := errors.AsType[*agentapi.Error](err); ok {
			return 0, ofDaemon(err)
		}
		return 0, failure(deniedByDRM, "%v", err)
	}
	if a.Exit != 0 || a.Job == 0 {
		refusal := sentence(string(a.Stderr))
		return 0, &callError{map[bool]code{true: tryLater, false: deniedByDRM}[a.Exit == exitLater], cmp.Or(refusal, "qsub has submitted no job")}
	}
	return a.Job, nil
}

// notify wakes the calls that wait for a change of jobs. The caller holds the lock.
func (s *session) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// deadline returns a channel that is ready after a timeout in seconds; never for -1.
func deadline(timeout int64) (<-chan time.Time, func()) {
	if timeout < 0 {
		return nil, func() {}
	}
	const most = int64(100 * 365 * 24 * 60 * 60)
	t := time.NewTimer(time.Duration(min(timeout, most)) * time.Second)
	return t.C, func() { t.Stop() }
}

// until waits until done returns true or an error. It calls done with the lock held.
func (s *session) until(ctx context.Context, timeout int64, done func() (bool, *callError)) *callError {
	over, stop := deadline(timeout)
	defer stop()
	for {
		s.mu.Lock()
		ok, e := done()
		changed := s.changed
		s.mu.Unlock()
		if ok || e != nil {
			return e
		}
		select {
		case <-changed:
		case <-over:
			return &callError{code: exitTimeout}
		case <-ctx.Done():
			return failure(communicationFailure, "the session is closed")
		}
	}
}

// wait waits for a job, or for any job of the session, and reaps it. It returns the job's
// identifier, stat and usage.
func (s *session) wait(ctx context.Context, name string, timeout int64) ([]string, *callError) {
	var wanted jobID
	if name != sessionAny {
		var e *callError
		if wanted, e = parseID(name); e != nil {
			return nil, e
		}
	}
	var id jobID
	var r result
	e := s.until(ctx, timeout, func() (bool, *callError) {
		id = wanted
		if name == sessionAny {
			if len(s.jobs) == 0 {
				return false, failure(invalidJob, "the session has no job to wait for")
			}
			for len(s.finished) > 0 && s.jobs[s.finished[0]] == nil {
				s.finished = s.finished[1:]
			}
			if len(s.finished) == 0 {
				return false, nil
			}
			id = s.finished[0]
		}
		x := s.jobs[id]
		if x == nil {
			return false, failure(invalidJob, "%s is no job of this session, or was waited for already", name)
		}
		if !x.finished {
			return false, nil
		}
		r = x.result
		s.reap(id)
		s.notify()
		return true, nil
	})
	if e != nil {
		return nil, e
	}
	out := append([]string{id.String(), strconv.Itoa(r.stat)}, r.usage...)
	if !r.known {
		return out, &callError{code: noRusage}
	}
	return out, nil
}

// reap forgets the result of a job. The caller holds the lock.
func (s *session) reap(id jobID) {
	delete(s.jobs, id)
	s.reaped[id] = true
}

// synchronize waits for jobs, and reaps them if dispose is set. A job that was reaped before has finished.
func (s *session) synchronize(ctx context.Context, names []string, timeout int64, dispose bool) *callError {
	var ids []jobID
	s.mu.Lock()
	all := slices.Contains(names, sessionAll)
	if all {
		for id := range s.jobs {
			ids = append(ids, id)
		}
	}
	for _, name := range names {
		if name == sessionAll {
			continue
		}
		id, e := parseID(name)
		if e == nil && s.jobs[id] == nil && !s.reaped[id] {
			e = failure(invalidJob, "%s is no job of this session", name)
		}
		if e != nil {
			s.mu.Unlock()
			return e
		}
		ids = append(ids, id)
	}
	s.mu.Unlock()
	rest := ids
	return s.until(ctx, timeout, func() (bool, *callError) {
		for len(rest) > 0 && (s.jobs[rest[0]] == nil || s.jobs[rest[0]].finished) {
			rest = rest[1:]
		}
		if len(rest) > 0 {
			return false, nil
		}
		if dispose {
			for _, id := range ids {
				s.reap(id)
			}
			s.notify()
		}
		return true, nil
	})
}
