package standalone

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/messages"
	"github.com/execd-project/execd/internal/messages/deliver"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
)

const (
	// messagePrefix begins the keys of the records of type jobNews.
	messagePrefix = ownPrefix + "message/"
	// pendingPause is the time between two looks at the pending jobs.
	pendingPause = 2 * time.Second
	// messagePatience is the time in which the daemon delivers messages when it ends.
	messagePatience = 5 * time.Second
	// complaintPause is the time between two log lines about the messages of the same user.
	complaintPause = time.Minute
	// mostReason is the length of a reason in a message, in bytes.
	mostReason = 300
)

// news makes the messages about jobs (package messages). Only the goroutine of Run uses it, except
// for complain.
type news struct {
	outbox *messages.Outbox
	jobs   map[uint32]*jobNews
	dirty  map[uint32]bool     // jobs whose record has to be written
	ready  []*messages.Message // for the time after the next commit

	mu        sync.Mutex
	complaint map[string]time.Time // of the last log line about a user
}

// jobNews records the messages about a job that the receivers got. It is stored when a restart would otherwise repeat
// a message or forget a part of it.
type jobNews struct {
	Started bool `json:"started,omitempty"`
	// User and Site are the largest times in seconds after which the receivers of the owner, and those
	// of the site, got a message that the job is pending.
	User int64 `json:"user,omitempty"`
	Site int64 `json:"site,omitempty"`
	// Tasks are the finished tasks of an array job. Their message is sent when the job has left the
	// queue; Job then describes it.
	Tasks *messages.Tasks `json:"tasks,omitempty"`
	Job   *messages.Job   `json:"job,omitempty"`
	// Error is set if a task of an array job was in error state: there is one message for all of them.
	Error bool `json:"error,omitempty"`

	stored bool
}

// startMessages makes the outbox.
func (m *Master) startMessages() {
	m.news = &news{complaint: map[string]time.Time{}}
	m.news.outbox = messages.NewOutbox(messages.Options{
		Helper: []string{m.host.Executable, deliver.Word}, Version: m.host.Version, Confine: m.host.Confine, Failed: m.complain,
		Now: m.clock.Now,
		Site: func() ([]byte, error) {
			if m.host.File == nil {
				return nil, fs.ErrNotExist
			}
			return m.host.File(messages.SiteFile)
		},
	})
}

// endMessages delivers the messages that are waiting.
func (m *Master) endMessages() {
	ctx, cancel := context.WithTimeout(context.Background(), messagePatience)
	defer cancel()
	m.news.outbox.Close(ctx)
}

// complain logs that a message was not delivered, at most once a minute for each user.
func (m *Master) complain(owner string, err error) {
	n := m.news
	n.mu.Lock()
	last, now := n.complaint[owner], m.clock.Now()
	again := !last.IsZero() && now.Sub(last) < complaintPause
	if !again {
		n.complaint[owner] = now
	}
	n.mu.Unlock()
	if !again {
		m.log.Warn("a message was not delivered", "owner", owner, "error", err)
	}
}

// restoreMessages reads the records from the store. The jobs that run have been reported as started.
func (m *Master) restoreMessages() {
	n := m.news
	n.jobs, n.dirty, n.ready = map[uint32]*jobNews{}, map[uint32]bool{}, nil
	for key, value := range m.store.All(messagePrefix) {
		id, err := strconv.ParseUint(strings.TrimPrefix(key, messagePrefix), 10, 32)
		j := &jobNews{stored: true}
		if err == nil {
			err = json.Unmarshal(value, j)
		}
		if err != nil {
			m.log.Warn("a message may be missing", "record", key, "error", err)
			continue
		}
		n.jobs[uint32(id)] = j
	}
	for _, j := range m.cell.Jobs() {
		for _, t := range j.Tasks() {
			if t.Running() != nil && t.Phase != cell.Transferring {
				n.recordOf(j.ID()).Started = true
			}
		}
	}
	for id := range n.jobs {
		if m.cell.Job(id) == nil {
			m.messageLeft(id)
		}
	}
}

// recordOf returns the record of the messages about a job, creating it on first use.
func (n *news) recordOf(id uint32) *jobNews {
	if n.jobs[id] == nil {
		n.jobs[id] = &jobNews{}
	}
	return n.jobs[id]
}

// describe returns the description of a job for messages; nil if the job is not in the queue.
func (m *Master) describe(id uint32) *messages.Job {
	j := m.cell.Job(id)
	if j == nil {
		return nil
	}
	return &messages.Job{
		ID: id, Name: printable.Clip(j.Name(), mostReason), Owner: j.Owner(), Project: j.Project, Array: j.IsArray(), Submitted: time.Unix(j.Submitted(), 0),
	}
}

// message adds a message to those that are posted after the next commit.
func (m *Master) message(x messages.Message) {
	x.ID, x.Host = rand.Text(), m.host.Name
	if x.Time.IsZero() {
		x.Time = m.clock.Now()
	}
	x.Describe()
	m.news.ready = append(m.news.ready, &x)
}

// messageRuns reports that a job runs.
func (m *Master) messageRuns(id uint32, began time.Time) {
	if known := m.news.jobs[id]; !began.IsZero() && (known == nil || !known.Started) {
		m.messageStarted(m.describe(id), began)
	}
}

// messageStarted reports that a job runs, once for each job.
func (m *Master) messageStarted(about *messages.Job, at time.Time) {
	if about == nil || at.IsZero() {
		return
	}
	if j := m.news.recordOf(about.ID); !j.Started {
		j.Started = true
		if about.Array {
			m.news.dirty[about.ID] = true // a task that ends leaves no trace of it
		}
		m.message(messages.Message{Event: messages.Started, Time: at, Job: *about})
	}
}

// messageEnded reports the end of a job, or the error state of a job. The end of a task of an array
// job becomes a part of the message about the whole job.
func (m *Master) messageEnded(about *messages.Job, r *agent.JobReport, task uint32, inError bool, o *job.Outcome) {
	if about == nil {
		return
	}
	what := "finished with exit status " + strconv.Itoa(o.ExitStatus)
	if o.Reason != "" || o.Failed != job.FailedNone {
		what = "failed: " + cmp.Or(o.Reason, o.FailedText)
	}
	e := api.Event{Job: about.ID, Name: api.Text(about.Name), User: about.Owner, What: what, Bad: o.Failed != job.FailedNone || o.ExitStatus != 0}
	if about.Array {
		e.Task = task
	}
	m.recent.add(e, m.now())
	x := messages.Outcome{
		ExitStatus: o.ExitStatus, Signal: o.Signal, Failed: int(o.Failed), Error: inError, Reason: printable.Clip(told(o.Reason, o.Notice), mostReason),
		Wallclock: o.Usage.Wallclock, CPU: o.Usage.CPU, MaxVmem: o.Usage.MaxVmem,
	}
	if x.Reason == "" && o.Failed != job.FailedNone {
		x.Reason = printable.Clip(o.FailedText, mostReason)
	}
	if r != nil {
		x.Queue = r.Queue
	}
	if o.Ran {
		m.messageStarted(about, o.Start)
	}
	if about.Array {
		x.Task = task
	}
	j := m.news.recordOf(about.ID)
	if about.Array && inError {
		if j.Error {
			return
		}
		j.Error, m.news.dirty[about.ID] = true, true
	}
	if !about.Array || inError {
		event := messages.Failed
		if x.Good() {
			event = messages.Ended
		}
		m.message(messages.Message{Event: event, Job: *about, Outcome: &x})
		return
	}
	if j.Tasks == nil {
		j.Tasks, j.Job = &messages.Tasks{}, about
	}
	if x.Good() {
		j.Tasks.Succeeded++
	} else if j.Tasks.Failed++; len(j.Tasks.Failures) < messages.MostFailures {
		j.Tasks.Failures = append(j.Tasks.Failures, x)
	}
	m.news.dirty[about.ID] = true
}

// messageLeft reports the end of an array job that has left the queue, and removes the record of a job.
func (m *Master) messageLeft(id uint32) {
	j := m.news.jobs[id]
	if j == nil {
		return
	}
	delete(m.news.jobs, id)
	delete(m.news.dirty, id)
	if j.stored {
		m.batch.records = append(m.batch.records, store.Change{Key: messageKey(id)})
	}
	if j.Tasks != nil {
		m.message(messages.Message{Event: messages.Array, Job: *j.Job, Tasks: j.Tasks})
	}
}

func messageKey(id uint32) string { return messagePrefix + strconv.FormatUint(uint64(id), 10) }

// messageRecords returns the records that have to be written.
func (m *Master) messageRecords() []store.Change {
	var list []store.Change
	for id := range m.news.dirty {
		value, err := json.Marshal(m.news.jobs[id])
		if err != nil {
			m.log.Error("a message may be missing after a restart", "job", id, "error", err)
			continue
		}
		m.news.jobs[id].stored = true
		list = append(list, store.Change{Key: messageKey(id), Value: value})
	}
	clear(m.news.dirty)
	return list
}

// messagesCommitted posts the messages about changes that have been written, and notes which jobs
// have left.
func (m *Master) messagesCommitted(changes []store.Change) {
	ready := m.news.ready
	m.news.ready = nil
	for _, c := range changes {
		if prefix, id, _ := strings.Cut(c.Key, "/"); prefix == "job" && c.Value == nil {
			if n, err := strconv.ParseUint(id, 10, 32); err == nil {
				m.messageLeft(uint32(n))
			}
		}
	}
	for _, x := range ready {
		m.news.outbox.Post(x)
	}
}

// messagePending looks again and again for jobs that have been pending for longer than their owners,
// or the site, want to wait for a message.
func (m *Master) messagePending(ctx context.Context) {
	for clock.Wait(ctx, m.clock, pendingPause) {
		pending := map[string][]uint32{} // by owner, and all of them for the site
		if m.look(ctx, func() {
			for _, j := range m.cell.Jobs() {
				if m.neverStarted(j) {
					pending[j.Owner()] = append(pending[j.Owner()], j.ID())
					pending[""] = append(pending[""], j.ID())
				}
			}
		}) != nil {
			return
		}
		for owner, ids := range pending {
			m.news.outbox.Times(owner, func(times []time.Duration) {
				_ = m.do(ctx, func() { m.pendingFor(owner, ids, times) }) // the daemon ends
			})
		}
	}
}

// neverStarted reports whether a job is pending and no part of it has run.
func (m *Master) neverStarted(j *cell.Job) bool {
	known := m.news.jobs[j.ID()]
	return !j.Waiting.IsEmpty() && len(j.Tasks()) == 0 && (known == nil || !known.Started && known.Tasks == nil)
}

// pendingFor reports to a user, or with an empty name to the site, those of the jobs that have been
// pending for longer than one of the times.
func (m *Master) pendingFor(owner string, ids []uint32, times []time.Duration) {
	now := m.now()
	for _, id := range ids {
		j := m.cell.Job(id)
		if j == nil || owner != "" && j.Owner() != owner || !m.neverStarted(j) {
			continue
		}
		waited := now - max(j.Submitted(), j.Start)
		for _, t := range times {
			after := int64(t / time.Second)
			if waited < after {
				break
			}
			n := m.news.recordOf(j.ID())
			last := &n.Site
			if owner != "" {
				last = &n.User
			}
			if *last < after {
				*last = after
				m.news.dirty[j.ID()] = true
				m.message(messages.Message{Event: messages.Pending, Job: *m.describe(j.ID()), After: after, SiteOnly: owner == "", UserOnly: owner != ""})
			}
		}
	}
}
