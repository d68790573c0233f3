package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/simulate/runner"
)

// appendText appends a result as a table.
func appendText(b []byte, r *runner.Result, o *settings) []byte {
	if !o.noTasks {
		b = o.appendTasks(b, r)
		b = o.appendWaiting(b, r)
	}
	if o.summary {
		if !o.noTasks {
			b = append(b, '\n')
		}
		b = appendSummary(b, r.Summary())
	}
	return b
}

func (o *settings) appendTasks(b []byte, r *runner.Result) []byte {
	appendTask := appendNarrow
	if o.wide {
		b = fmt.Appendf(b, "%-12s %-10s %-12s %8s %8s %8s %8s %5s %-7s %-7s %-7s %-7s %10s %10s %10s %10s %s\n",
			"job-ID", "name", "user", "submit", "start", "end", "wait", "slots", "prior", "nurg", "npprior", "ntckts",
			"tckts", "otckt", "ftckt", "stckt", "queue")
		appendTask = appendWide
	} else {
		b = fmt.Appendf(b, narrow, "job-ID", "name", "user", "start", "end", "wait", "slots")
		b = append(b, "queue\n"...)
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.Start >= 0 {
			b = append(appendTask(b, t), '\n')
		}
	}
	return b
}

// maxColumns is the width of the table without --wide. Only the name of a single queue
// instance, and numbers that need more room than their columns have, make it wider.
const maxColumns = 100

// narrow formats the part of a line before its queue instances.
const narrow = "%-10s %-10.10s %-12.12s %10s %10s %10s %5v "

// appendNarrow appends a task for people: times as durations, long names cut.
func appendNarrow(b []byte, t *runner.Task) []byte {
	begin := len(b)
	end := "-"
	if t.End >= 0 {
		end = duration(t.End)
	}
	b = fmt.Appendf(b, narrow, taskID(t), printable.String(t.Name), printable.String(t.User), duration(t.Start), end, duration(t.Start-t.Submit), t.Slots)
	return appendSome(b, t.Grants, maxColumns-utf8.RuneCount(b[begin:]))
}

// appendSome appends as many grants as fit into a number of columns, at least one, and the number
// of further ones.
func appendSome(b []byte, grants []runner.Grant, columns int) []byte {
	all := appendGrants(nil, grants)
	if utf8.RuneCount(all) <= columns {
		return append(b, all...)
	}
	for n := len(grants) - 1; n > 0; n-- {
		some := fmt.Appendf(appendGrants(nil, grants[:n]), ",+%d", len(grants)-n)
		if n == 1 || utf8.RuneCount(some) <= columns {
			return append(b, some...)
		}
	}
	return append(b, all...)
}

// duration formats seconds as days, hours, minutes and seconds, all of them always: 0d00:10:00.
// sort -V sorts such texts.
func duration(seconds int64) string {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	return fmt.Sprintf("%dd%02d:%02d:%02d", seconds/day, seconds%day/hour, seconds%hour/minute, seconds%minute)
}

// taskID returns the job number of a task, and for an array job also the task number.
func taskID(t *runner.Task) string {
	id := strconv.FormatUint(uint64(t.Job), 10)
	if t.Number > 0 {
		id += "." + strconv.FormatUint(uint64(t.Number), 10)
	}
	return id
}

func appendGrants(b []byte, grants []runner.Grant) []byte {
	for i, g := range grants {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(printable.Append(b, g.Instance), '=')
		b = strconv.AppendInt(b, int64(g.Slots), 10)
	}
	return b
}

// appendWide appends all values of a task, in one line, with times in seconds.
func appendWide(b []byte, t *runner.Task) []byte {
	end := "-"
	if t.End >= 0 {
		end = strconv.FormatInt(t.End, 10)
	}
	p, k := &t.Priority, &t.Tickets
	b = fmt.Appendf(b, "%-12s %-10s %-12s %8d %8d %8s %8d %5d %.5f %.5f %.5f %.5f %10.0f %10.0f %10.0f %10.0f ",
		taskID(t), printable.String(t.Name), printable.String(t.User), t.Submit, t.Start, end, t.Start-t.Submit, t.Slots, p.Priority, p.NormalizedUrgency, p.NormalizedPriority,
		p.NormalizedTickets, k.Total, k.Override, k.Functional, k.Share)
	return appendGrants(b, t.Grants)
}

// appendWaiting appends the jobs of which tasks never started, and why.
func (o *settings) appendWaiting(b []byte, r *runner.Result) []byte {
	headed := false
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.Waiting == 0 {
			continue
		}
		if !headed {
			b, headed = append(b, "\nnot started:\n"...), true
		}
		if o.wide {
			b = fmt.Appendf(b, "%-12d %-10s %-12s %8d ", t.Job, printable.String(t.Name), printable.String(t.User), t.Submit)
		} else {
			b = fmt.Appendf(b, "%-10d %-10.10s %-12.12s submitted %s ", t.Job, printable.String(t.Name), printable.String(t.User), duration(t.Submit))
		}
		if t.Waiting > 1 {
			b = fmt.Appendf(b, "%d tasks", t.Waiting)
		}
		b = append(b, '\n')
		for _, reason := range t.Reasons {
			b = append(printable.Append(append(b, "             "...), reason), '\n')
		}
	}
	return b
}

func appendSummary(b []byte, s *runner.Summary) []byte {
	b = fmt.Appendf(b, "%-24s %s\n", "simulated", duration(s.Duration))
	for _, x := range []struct {
		name string
		n    int
	}{
		{"tasks started", s.Started},
		{"tasks finished", s.Finished},
		{"tasks not started", s.Waiting},
		{"jobs refused", s.Refused},
		{"scheduling runs", s.Runs},
	} {
		b = fmt.Appendf(b, "%-24s %d\n", x.name, x.n)
	}
	b = fmt.Appendf(b, "\n%-24s %12s %12s %12s %12s\n", "", "mean", "median", "95 %", "max")
	rounded := func(seconds float64) string { return duration(int64(math.Round(seconds))) }
	for _, x := range []struct {
		name  string
		d     *runner.Distribution
		print func(float64) string
	}{
		{"wait", &s.Wait, rounded},
		{"bounded slowdown", &s.Slowdown, func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }},
	} {
		b = fmt.Appendf(b, "%-24s %12s %12s %12s %12s\n", x.name, x.print(x.d.Mean), x.print(x.d.Median), x.print(x.d.Percentile95), x.print(x.d.Max))
	}
	for _, x := range []struct {
		title string
		list  []runner.Use
	}{{"user", s.Users}, {"project", s.Projects}, {"queue", append(s.Queues, s.Total)}} {
		if len(x.list) == 0 {
			continue
		}
		b = fmt.Appendf(b, "\n%-24s %12s %12s %12s %12s\n", x.title, "tasks", "slot hours", "utilisation", "mean wait")
		for _, u := range x.list {
			b = fmt.Appendf(b, "%-24s %12d %12.2f %11.2f%% %12s\n", printable.String(u.Name), u.Tasks, u.SlotSeconds/3600, 100*u.Utilization, rounded(u.Wait))
		}
	}
	return b
}

// jsonTask is a task in JSON. Times are seconds since the start of the simulation.
type jsonTask struct {
	Job         uint32      `json:"job"`
	Task        uint32      `json:"task,omitempty"`
	TraceNumber int64       `json:"traceNumber,omitempty"`
	Line        int         `json:"line"`
	Name        string      `json:"name"`
	User        string      `json:"user"`
	Project     string      `json:"project,omitempty"`
	Submitted   int64       `json:"submitted"`
	Started     *int64      `json:"started"` // null for never
	Ended       *int64      `json:"ended"`
	Wait        *int64      `json:"wait"`
	PE          string      `json:"pe,omitempty"`
	Slots       int         `json:"slots"`
	Grants      []jsonGrant `json:"grants,omitempty"`
	Priority    *jsonRank   `json:"priority,omitempty"`
	Waiting     int         `json:"tasksNotStarted,omitempty"`
	Reasons     []string    `json:"reasons,omitempty"`
}

type jsonGrant struct {
	Queue string `json:"queue"` // the instance
	Slots int    `json:"slots"`
}

// jsonRank is a priority and its parts (sge_priority(5)).
type jsonRank struct {
	Priority           float64 `json:"prior"`
	NormalizedUrgency  float64 `json:"nurg"`
	NormalizedPriority float64 `json:"npprior"`
	NormalizedTickets  float64 `json:"ntckts"`
	Urgency            float64 `json:"urg"`
	Resource           float64 `json:"rrcontr"`
	Waiting            float64 `json:"wtcontr"`
	Deadline           float64 `json:"dlcontr"`
	Tickets            float64 `json:"tckts"`
	Override           float64 `json:"otckt"`
	Functional         float64 `json:"ftckt"`
	Share              float64 `json:"stckt"`
}

type jsonRefused struct {
	Line        int    `json:"line"`
	TraceNumber int64  `json:"traceNumber,omitempty"`
	User        string `json:"user"`
	Text        string `json:"text"`
}

// appendJSON appends a result as one object, a task in each line.
func appendJSON(b []byte, r *runner.Result, o *settings) ([]byte, error) {
	b = append(b, '{')
	if !o.noTasks {
		b = append(b, "\"tasks\": ["...)
		for i := range r.Tasks {
			line, err := json.Marshal(toJSON(&r.Tasks[i]))
			if err != nil {
				return nil, err
			}
			b = printable.AppendJSON(append(b, separator(i)...), line)
		}
		b = append(b, "\n],\n"...)
	}
	refused := make([]jsonRefused, len(r.Refused))
	for i, x := range r.Refused {
		refused[i] = jsonRefused{x.Line, x.Trace, x.User, x.Text}
	}
	line, err := json.Marshal(refused)
	if err != nil {
		return nil, err
	}
	b = printable.AppendJSON(append(b, "\"refused\": "...), line)
	if o.summary {
		line, err := json.MarshalIndent(r.Summary(), "", "  ")
		if err != nil {
			return nil, err
		}
		b = printable.AppendJSON(append(b, ",\n\"summary\": "...), line)
	}
	return append(b, "}\n"...), nil
}

func separator(i int) string {
	if i == 0 {
		return "\n"
	}
	return ",\n"
}

func toJSON(t *runner.Task) *jsonTask {
	x := &jsonTask{
		Job: t.Job, Task: t.Number, TraceNumber: t.Trace, Line: t.Line, Name: t.Name, User: t.User, Project: t.Project,
		Submitted: t.Submit, PE: t.PE, Slots: t.Slots, Waiting: t.Waiting, Reasons: t.Reasons,
	}
	if t.Start < 0 {
		return x
	}
	wait := t.Start - t.Submit
	x.Started, x.Wait = &t.Start, &wait
	if t.End >= 0 {
		x.Ended = &t.End
	}
	for _, g := range t.Grants {
		x.Grants = append(x.Grants, jsonGrant{g.Instance, g.Slots})
	}
	p, k := &t.Priority, &t.Tickets
	x.Priority = &jsonRank{
		p.Priority, p.NormalizedUrgency, p.NormalizedPriority, p.NormalizedTickets,
		p.Urgency, p.ResourceContribution, p.WaitingTimeContribution, p.DeadlineContribution, k.Total, k.Override, k.Functional, k.Share,
	}
	return x
}
