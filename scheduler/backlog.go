package scheduler

import (
	"cmp"
	"slices"
)

// backlog holds the jobs that have tasks to start. Jobs that differ only in their time of submission
// form a line. A run compares only the first job of each line, unless tickets make jobs of a line
// different.
type backlog struct {
	lines map[lineKey]*line
	list  []*line // in no particular order
	jobs  int
	ids   numbered
}

type lineKey struct {
	category *Category
	owner    string
	priority int
	deadline int64
	reserve  bool
}

// line is a list of jobs in the order of their submission.
type line struct {
	key  lineKey
	jobs []*Job
	gone int // at the beginning
	at   int // in the list of lines
}

func (b *backlog) init() { b.lines = map[lineKey]*line{} }

func compareJobs(a, b *Job) int {
	return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID))
}

func (b *backlog) add(j *Job) {
	key := lineKey{category: j.Category, owner: j.Owner, priority: j.Priority, deadline: j.Deadline, reserve: j.Reserve}
	l := b.lines[key]
	if l == nil {
		l = &line{key: key, at: len(b.list)}
		b.lines[key] = l
		b.list = append(b.list, l)
	}
	if n := len(l.jobs); n == l.gone || compareJobs(l.jobs[n-1], j) < 0 {
		l.jobs = append(l.jobs, j)
	} else {
		i, _ := slices.BinarySearchFunc(l.jobs[l.gone:], j, compareJobs)
		l.jobs = slices.Insert(l.jobs, l.gone+i, j)
	}
	j.line = l
	b.jobs++
	b.ids.add(j)
}

func (b *backlog) remove(j *Job) {
	l := j.line
	j.line = nil
	b.jobs--
	b.ids.remove(j)
	i, _ := slices.BinarySearchFunc(l.jobs[l.gone:], j, compareJobs)
	if i += l.gone; i == l.gone {
		// Most jobs leave at the beginning of their line.
		l.jobs[i] = nil
		l.gone++
		if l.gone > 64 && l.gone > len(l.jobs)/2 {
			l.jobs = slices.Delete(l.jobs, 0, l.gone)
			l.gone = 0
		}
	} else {
		l.jobs = slices.Delete(l.jobs, i, i+1)
	}
	if len(l.jobs) == l.gone {
		delete(b.lines, l.key)
		last := b.list[len(b.list)-1]
		b.list[l.at], last.at = last, l.at
		b.list = b.list[:len(b.list)-1]
	}
}

func (l *line) waiting() []*Job { return l.jobs[l.gone:] }

// Enqueue adds a job that has tasks to start: a job without holds, unmet dependencies or an error,
// whose start time (-a) has come. Adding a job twice has no further effect. If the job can never be
// scheduled, Enqueue returns an error and does not add it.
func (s *State) Enqueue(j *Job) error {
	if err := s.checkJob(j); err != nil {
		return err
	}
	if j.line == nil {
		s.pending.add(j)
		if j.Override > 0 {
			s.overridden++
		}
	}
	return nil
}

// Dequeue removes a job, if it is enqueued. An enqueued job must not be changed, except for its
// Tasks and Active.
func (s *State) Dequeue(j *Job) {
	if j.line != nil {
		s.pending.remove(j)
		if j.Override > 0 {
			s.overridden--
		}
	}
}

// SetChanged sets the rank of a job among jobs with equal tickets: the job that changed first comes
// first. The job may be enqueued. Masters count the changes of all jobs: submission, alterations,
// holds that are set or removed, and starts of tasks (tested).
func (s *State) SetChanged(j *Job, count int64) {
	j.Changed = count
	if j.line != nil {
		s.pending.ids.changed(j)
	}
}

// Pending returns the number of jobs that have tasks to start.
func (s *State) Pending() int { return s.pending.jobs }
