package client

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Phase is the progress of a job.
type Phase string

// The phases of a job and of its tasks.
const (
	Pending   Phase = "pending"   // also if it is held
	Running   Phase = "running"   // also while it starts and while it is deleted
	Suspended Phase = "suspended" // by a user, a queue or a threshold
	Failing   Phase = "error"     // in error state: it does not run before qmod -cj
	Finished  Phase = "finished"  // it has left qstat
)

// Status is the status of a job.
type Status struct {
	ID int
	// Phase is the phase of the task with the most progress: a job with a running task is running.
	Phase Phase
	Tasks []TaskStatus // of pending and running tasks, in the order of qstat
	// Records has the accounting records of a finished job, one per task and run. It is empty if the
	// job was deleted before it ran.
	Records []Record
}

// TaskStatus is a line of qstat: a running task, or several pending ones.
type TaskStatus struct {
	Tasks string // task numbers, such as 1-5:2; empty if the job is not an array job
	Phase Phase
	State string // the letters of qstat(1), such as hqw
	Queue string // where it runs, as queue@host
	Slots int
	Since time.Time // when it was started or, if it is pending, submitted
}

// phase translates the letters of qstat(1).
func phase(state string) Phase {
	switch {
	case strings.Contains(state, "E"):
		return Failing
	case strings.ContainsAny(state, "sST"):
		return Suspended
	case strings.Contains(state, "qw"):
		return Pending
	}
	return Running
}

var order = map[Phase]int{Pending: 1, Failing: 2, Suspended: 3, Running: 4}

// list returns the jobs that qstat lists, by their numbers.
func (c *Client) list(ctx context.Context) (map[int]*Status, error) {
	out, err := c.run(ctx, nil, nil, "qstat", "-xml", "-u", "*")
	if err != nil {
		return nil, err
	}
	type line struct {
		ID      int    `xml:"JB_job_number"`
		State   string `xml:"state"`
		Queue   string `xml:"queue_name"`
		Slots   int    `xml:"slots"`
		Tasks   string `xml:"tasks"`
		Submit  string `xml:"JB_submission_time"`
		Started string `xml:"JAT_start_time"`
	}
	var document struct {
		Running []line `xml:"queue_info>job_list"`
		Pending []line `xml:"job_info>job_list"`
	}
	if err := xml.Unmarshal([]byte(out), &document); err != nil {
		return nil, fmt.Errorf("cannot read the output of qstat -xml: %w", err)
	}
	jobs := map[int]*Status{}
	for _, l := range append(document.Running, document.Pending...) {
		j := jobs[l.ID]
		if j == nil {
			j = &Status{ID: l.ID}
			jobs[l.ID] = j
		}
		t := TaskStatus{Tasks: l.Tasks, Phase: phase(l.State), State: l.State, Queue: l.Queue, Slots: l.Slots}
		for _, text := range []string{l.Submit, l.Started} {
			if at, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local); err == nil {
				t.Since = at
			}
		}
		if j.Tasks = append(j.Tasks, t); order[t.Phase] > order[j.Phase] {
			j.Phase = t.Phase
		}
	}
	return jobs, nil
}

// Status returns the status of a job. The error wraps ErrUnknownJob if there is none: also of a job that was
// deleted before it ran.
func (c *Client) Status(ctx context.Context, job int) (*Status, error) {
	jobs, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	if j := jobs[job]; j != nil {
		return j, nil
	}
	records, err := c.Records(ctx, job)
	if err != nil {
		return nil, err
	}
	return &Status{ID: job, Phase: Finished, Records: records}, nil
}

// Wait waits until jobs have finished, and returns their status in the same order. A job that qstat does
// not list, and that has no record, has no Records: it was deleted before it ran, or never existed.
// Canceling the context does not delete the jobs.
func (c *Client) Wait(ctx context.Context, jobs ...int) ([]*Status, error) {
	most := c.Poll
	if most <= 0 {
		most = defaultPoll
	}
	for pause := min(most, 100*time.Millisecond); ; pause = min(most, 2*pause) {
		listed, err := c.list(ctx)
		if err != nil {
			return nil, err
		}
		left := false
		for _, id := range jobs {
			left = left || listed[id] != nil
		}
		if !left {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot wait for the jobs: %w", ctx.Err())
		}
	}
	var list []*Status
	for _, id := range jobs {
		records, err := c.Records(ctx, id)
		if err != nil && !errors.Is(err, ErrUnknownJob) {
			return nil, err
		}
		list = append(list, &Status{ID: id, Phase: Finished, Records: records})
	}
	return list, nil
}

// Succeeded reports whether the job has finished, ran, and every task exited with status 0. Of a task that
// ran several times the last run counts.
func (s *Status) Succeeded() bool {
	last := map[int]bool{}
	for _, r := range s.Records {
		last[r.Task] = r.Failed == 0 && r.ExitStatus == 0
	}
	for _, good := range last {
		if !good {
			return false
		}
	}
	return s.Phase == Finished && len(last) > 0
}

// Usage is the usage of a task so far.
type Usage struct {
	Task    int           // 0 if the job is not an array job
	CPU     time.Duration // processor time
	Memory  float64       // gigabyte seconds
	IO      float64       // gigabytes
	MaxVMem int64         // bytes; 0 if unknown
}

// usageLine is a line of qstat -j.
var usageLine = regexp.MustCompile(`(?m)^usage +([0-9]+): +(.*)$`)

// Usage returns the usage of a task so far. The error wraps ErrUnknownJob if there is no such job.
func (c *Client) Usage(ctx context.Context, job int) ([]Usage, error) {
	status, err := c.Status(ctx, job)
	if err != nil {
		return nil, err
	}
	var list []Usage
	for _, r := range status.Records {
		list = append(list, r.Usage)
	}
	if status.Phase == Finished {
		return list, nil
	}
	out, err := c.run(ctx, nil, nil, "qstat", "-j", strconv.Itoa(job))
	if e, ok := errors.AsType[*CommandError](err); ok && strings.Contains(e.Text, "do not exist") {
		return c.Usage(ctx, job) // it has just finished
	}
	if err != nil {
		return nil, err
	}
	for _, found := range usageLine.FindAllStringSubmatch(out, -1) {
		var u Usage
		if status.Tasks[0].Tasks != "" {
			u.Task, _ = strconv.Atoi(found[1])
		}
		for word := range strings.SplitSeq(found[2], ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
			switch name {
			case "cpu":
				u.CPU = clock(value)
			case "mem":
				u.Memory = amount(value) / (1 << 30)
			case "io":
				u.IO = amount(value)
			case "maxvmem":
				u.MaxVMem = int64(amount(value))
			}
		}
		list = append(list, u)
	}
	return list, nil
}
