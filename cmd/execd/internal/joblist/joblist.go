// Package joblist describes jobs for people, for lists in a terminal and in a browser: states in words,
// numbers of tasks, and why a job is pending.
//
// Other projects should not import this package: it may change at any time.
package joblist

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/qstat"
)

// Row is a job in a list.
type Row struct {
	qstat.Job
	States   []string // in words, with numbers of tasks for an array
	Where    string
	Slots    int
	Started  int64
	Why      []string
	Expected int64
	Progress *qstat.Progress
}

// Condition is the most important state of the tasks of a job.
type Condition int

// The conditions.
const (
	Waiting Condition = iota // no task runs or is in error state
	Running                  // a task runs
	Failed                   // a task is in error state
)

// Condition returns the condition of a job.
func (r *Row) Condition() Condition {
	c := Waiting
	for _, t := range r.Tasks {
		switch {
		case strings.Contains(t.State, "E"):
			return Failed
		case t.Phase == qstat.Running:
			c = Running
		}
	}
	return c
}

// Ask returns the output of a command of Grid Engine, as qclient.Session.View.
type Ask func(ctx context.Context, command ...string) (*qstat.Document, error)

// Rows returns the rows of jobs, with the reasons why jobs are pending and the progress of array jobs, for which
// it asks the daemon once.
func Rows(ctx context.Context, ask Ask, jobs []qstat.Job) ([]Row, error) {
	var rows []Row
	var some []string
	for _, j := range jobs {
		rows = append(rows, New(j))
		if IsArray(j) || slices.ContainsFunc(j.Tasks, func(t qstat.Task) bool { return t.Phase == qstat.Pending }) {
			some = append(some, strconv.Itoa(j.ID))
		}
	}
	if len(some) == 0 {
		return rows, nil
	}
	// A job that has left since then is missing from the answer.
	details, err := ask(ctx, "qstat", "-j", strings.Join(some, ","))
	switch {
	case err != nil && qclient.Refused(err):
		return rows, nil
	case err != nil:
		return nil, err
	}
	known := map[int]*qstat.JobDetail{}
	for i := range details.Details {
		known[details.Details[i].ID] = &details.Details[i]
	}
	for i := range rows {
		if d := known[rows[i].ID]; d != nil {
			rows[i].Why, rows[i].Expected, rows[i].Progress = d.WaitingFor, d.ExpectedStart, d.Progress
		}
	}
	return rows, nil
}

// Count returns the number of tasks in ranges; no range is a job that is not an array job.
func Count(ranges []qstat.Range) (n int) {
	for _, r := range ranges {
		n += (r.Last-r.First)/max(r.Step, 1) + 1
	}
	return max(n, 1)
}

// New returns the row of a job.
func New(j qstat.Job) Row {
	r := Row{Job: j}
	tasks := map[string]int{}
	var order []string
	places := map[string]bool{}
	for _, t := range j.Tasks {
		words := State(t)
		if tasks[words] == 0 {
			order = append(order, words)
		}
		tasks[words] += Count(t.IDs)
		slots := t.Slots
		for _, g := range t.Grants {
			slots += g.Slots
			places[g.Queue] = true
		}
		r.Slots = max(r.Slots, slots)
		if t.Started > 0 && (r.Started == 0 || t.Started < r.Started) {
			r.Started = t.Started
		}
	}
	for _, words := range order {
		if IsArray(j) {
			words = fmt.Sprintf("%d %s", tasks[words], words)
		}
		r.States = append(r.States, words)
	}
	var list []string
	for p := range places {
		list = append(list, p)
	}
	slices.Sort(list)
	if r.Where = strings.Join(list[:min(len(list), 2)], ", "); len(list) > 2 {
		r.Where += fmt.Sprintf(" and %d more", len(list)-2)
	}
	if len(j.Tasks) == 1 {
		if elements := Elements(j.Tasks[0]); elements != "" {
			r.Where += ", " + elements
		}
	}
	return r
}

// Elements returns the elements of resource maps that a task has, such as "gpu 0 1"; "" for a task without any.
// The host is named only for a task that has elements of several hosts.
func Elements(t qstat.Task) string {
	var list []string
	several := len(t.Grants) > 1
	for _, g := range t.Grants {
		for _, element := range g.Elements {
			text := element.Name + " " + strings.Join(element.IDs, " ")
			if several {
				text += " of " + element.Host
			}
			list = append(list, text)
		}
	}
	return strings.Join(list, ", ")
}

// IsArray reports whether a job is an array job.
func IsArray(j qstat.Job) bool {
	return slices.ContainsFunc(j.Tasks, func(t qstat.Task) bool { return len(t.IDs) > 0 })
}

// State returns the letters of qstat(1) in words.
func State(t qstat.Task) string {
	has := func(letters string) bool { return strings.ContainsAny(t.State, letters) }
	switch {
	case has("d"):
		return "being deleted"
	case has("E"):
		return "in error state"
	case t.Phase == qstat.Finished:
		return "finished"
	case has("sST"):
		return "suspended"
	case has("t"):
		return "starting"
	case t.Phase == qstat.Running && has("R"):
		return "running again"
	case t.Phase == qstat.Running:
		return "running"
	case has("h"):
		return "on hold"
	}
	return "pending"
}

// Duration prints seconds in the two largest units.
func Duration(seconds float64) string {
	s := int64(math.Round(max(seconds, 0)))
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}
