package agentclient

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/printer"
)

// statusText returns the output of execd status.
func statusText(h *api.Health, now time.Time) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		printer.Fprintf(&b, "%-15s%s\n", name, printer.Trusted(printer.Sprintf(format, args...)))
	}
	state := "takes jobs"
	if h.Draining != "" {
		state = "takes no jobs: " + h.Draining
	}
	line("host", "%s", h.Host)
	line("state", "%s", state)
	if h.Slots > 0 {
		line("slots", "%d of %d in use", h.Used, h.Slots)
	}
	line("jobs", "%s", counts(h.Jobs))
	line("configuration", "%s", cmp.Or(h.Configuration, "none"))
	line("agent", "version %s, since %s (%s)", h.Version, when(h.Started), now.Sub(h.Started).Round(time.Second))
	if h.Epoch > 0 {
		line("master", "epoch %d", h.Epoch)
	}
	for i := range h.Sensors {
		for n, text := range sensorText(&h.Sensors[i], now) {
			name := "sensor"
			if n > 0 {
				name = ""
			}
			line(name, "%s", text)
		}
	}
	for i := range h.GPUs {
		line("gpu", "%s", gpuText(&h.GPUs[i]))
	}
	for _, t := range h.Troubles {
		line("trouble", "%s", t)
	}
	// An agent that has found out by itself has it among its troubles.
	told := slices.ContainsFunc(h.Troubles, func(t string) bool { return strings.Contains(t, h.ConfigurationError) })
	if h.ConfigurationError != "" && !told {
		line("trouble", "a newer configuration is not used: %s", h.ConfigurationError)
	}
	return b.String()
}

// gpuText names a GPU, what is wrong with it, and the jobs that have it.
func gpuText(g *api.GPU) string {
	text := g.ID
	if text == "" {
		text = "not offered"
	}
	text += ": " + cmp.Or(g.Model, g.Vendor) + ", " + g.Address
	if g.Memory > 0 {
		text += fmt.Sprintf(", %d MiB", g.Memory>>20)
	}
	if len(g.Jobs) > 0 {
		text += ", job " + strings.Join(g.Jobs, " ")
	}
	if g.Problem != "" {
		text += "; " + g.Problem
	}
	return text
}

// sensorText returns the status of a load sensor, and below it the last violation.
func sensorText(s *api.Sensor, now time.Time) []string {
	first := s.Path + ": " + sensorState(s, now)
	switch {
	case s.LastReport.IsZero():
		first += ", no report yet"
	default:
		first += fmt.Sprintf(", %s %s ago", count(s.Values, "value"), ago(now, s.LastReport))
	}
	if s.Starts > 1 {
		first += ", started " + count(s.Starts, "time")
	}
	lines := []string{first}
	if s.Fault != "" {
		lines = append(lines, "  fault: "+s.Fault)
	}
	if v := s.LastViolation; v != nil {
		text := "  " + count(s.Violations, "violation") + ", the last: "
		if v.Line > 0 {
			text += fmt.Sprintf("line %d: ", v.Line)
		}
		if v.Text != "" {
			text += strconv.Quote(v.Text) + ": "
		}
		text += v.Problem
		if v.Expected != "" {
			text += "; expected " + v.Expected
		}
		lines = append(lines, text)
	}
	return lines
}

// sensorState describes the state of a sensor. A sensor that has been asked for values counts as
// running.
func sensorState(s *api.Sensor, now time.Time) string {
	switch {
	case s.State == "asked" && s.Fault == "":
		return "running, asked for " + ago(now, s.Since)
	case s.State == "asked":
		return "restarted, asked for " + ago(now, s.Since)
	case s.State == "waiting" && s.NextStart.After(now):
		return "restarting in " + ago(s.NextStart, now)
	case s.State == "waiting":
		return "starting"
	}
	return s.State
}

func ago(now, then time.Time) string { return now.Sub(then).Round(time.Second).String() }

// count returns a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// counts returns the numbers of jobs in the order of their states.
func counts(jobs map[string]int) string {
	var parts []string
	for _, state := range slices.Concat(States, []string{string(api.Acknowledged)}) {
		if n := jobs[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// jobsText returns the table that execd jobs prints.
func jobsText(jobs []api.Job) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	printer.Fprintf(w, "JOB\tTASK\tNAME\tOWNER\tSTATE\tQUEUE\tSLOTS\tSTARTED\tCPU\tMAXVMEM\tNOTE\n")
	for i := range jobs {
		j := &jobs[i]
		cpu, mem := used(j)
		printer.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", j.Job, task(j.ID), j.Name, j.Owner,
			j.State, j.Queue, j.Slots, when(j.Started), cpu, mem, note(j))
	}
	w.Flush() // into memory
	lines := strings.SplitAfter(b.String(), "\n")
	for i, l := range lines {
		if text, ok := strings.CutSuffix(l, "\n"); ok {
			lines[i] = strings.TrimRight(text, " ") + "\n"
		}
	}
	return strings.Join(lines, "")
}

// task returns the number of the task of an array job, and the id of that of a parallel one.
func task(id api.ID) string {
	switch {
	case id.Task > 0 && id.PETask != "":
		return fmt.Sprintf("%d/%s", id.Task, id.PETask)
	case id.Task > 0:
		return strconv.Itoa(id.Task)
	}
	return cmp.Or(id.PETask, "-")
}

// used returns CPU time and the most memory that a job has used, so far or in all.
func used(j *api.Job) (cpu, mem string) {
	switch {
	case j.Outcome != nil && j.Outcome.Ran:
		return seconds(j.Outcome.Usage.CPU), size(j.Outcome.Usage.MaxVmem)
	case j.Outcome == nil && j.Usage != nil:
		return seconds(j.Usage.CPU), size(j.Usage.MaxVmem)
	}
	return "-", "-"
}

// suspenders names who has suspended a job, by order.
var suspenders = map[api.Order]string{
	api.Suspend: "user", api.SuspendQueue: "queue", api.SuspendThreshold: "threshold",
}

// note explains why a job is suspended, or how it ended.
func note(j *api.Job) string {
	o := j.Outcome
	if o != nil && o.Notice != "" {
		told := *j
		ended := *o
		ended.Notice, told.Outcome = "", &ended
		return note(&told) + "; " + o.Notice
	}
	switch {
	case o != nil && o.Reason != "":
		return o.Reason
	case o != nil && o.Failed != 0:
		return strings.TrimSpace(fmt.Sprintf("failed %d %s", o.Failed, o.FailedText))
	case o != nil && o.Ran:
		return fmt.Sprintf("exit status %d", o.ExitStatus)
	case len(j.SuspendedBy) > 0:
		var by []string
		for _, order := range j.SuspendedBy {
			by = append(by, cmp.Or(suspenders[order], string(order)))
		}
		return "suspended by " + strings.Join(by, ", ")
	case j.Slave:
		return "tasks only"
	}
	return ""
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// seconds returns a time as qstat shows it, with days where there are any.
func seconds(s float64) string {
	n := int64(s)
	if days := n / 86400; days > 0 {
		return fmt.Sprintf("%d:%02d:%02d:%02d", days, n/3600%24, n/60%60, n%60)
	}
	return fmt.Sprintf("%02d:%02d:%02d", n/3600, n/60%60, n%60)
}

// size returns a number of bytes with three digits, as qstat shows it.
func size(n int64) string {
	const units = "KMGTP"
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f%c", v, units[unit])
}
