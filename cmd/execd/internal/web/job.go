package web

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/output"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/quantity"
)

// jobPage is the page of a job.
type jobPage struct {
	ID      int
	Name    string
	Owner   string
	Known   bool // to the daemon; otherwise there are records alone
	Detail  *qstat.JobDetail
	States  []string
	Line    *timeLine
	Meters  []meter
	Steps   []step
	More    int // steps that are not shown
	Mine    bool
	Actions []action
	Output  *jobOutput
	Used    *accounting.Efficiency // of finished tasks; nil without a record
	Advice  string
}

// action is a button.
type action struct {
	Name, Label string
	Confirm     bool // a second press is needed
}

// step is a task of a job, or one of its runs.
type step struct {
	Task           int // 0 if the job is not an array job
	State          string
	Started, Ended int64
	Where          string
	How            string // how it ended
	Bad            bool
}

// meter compares usage with a limit.
type meter struct {
	Name, Text string
	Part       float64 // 0 to 1; less than 0 without a limit
}

// jobOutput is the end of the output of a job.
type jobOutput struct {
	Path, Problem string
	Text          string
	Earlier       bool // there is more before it
	Tasks         []tab
	Streams       []tab
}

const (
	stepsMost   = 50
	outputBytes = 64 << 10
	outputLines = 200
)

func (s *source) job(ctx context.Context, user string, number int, query url.Values, now time.Time) (*jobPage, error) {
	p := &jobPage{ID: number}
	d, err := s.ask(ctx, "qstat", "-j", strconv.Itoa(number))
	switch {
	case err != nil && !qclient.Refused(err):
		return nil, err
	case err == nil && len(d.Details) == 1:
		p.Known, p.Detail = true, &d.Details[0]
		p.Name, p.Owner = p.Detail.Name, p.Detail.Owner
	}
	runs, err := s.records(ctx, number)
	if err != nil {
		return nil, err
	}
	var tasks *qstat.Job
	if p.Known {
		// qstat -j has no states.
		list, err := s.ask(ctx, "qstat", "-u", "*")
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(list.Jobs, func(j qstat.Job) bool { return j.ID == number }); i >= 0 {
			tasks = &list.Jobs[i]
			p.States = newRow(*tasks).States
		}
	}
	if !p.Known && len(runs) == 0 {
		return nil, &qclient.RefusedError{Message: "The daemon does not know job " + strconv.Itoa(number) + ", and there is no accounting record of it."}
	}
	if len(runs) > 0 {
		last := runs[len(runs)-1]
		p.Name, p.Owner = cmp.Or(p.Name, last.JobName), cmp.Or(p.Owner, last.Owner)
		p.Used = &accounting.Efficiency{}
		for _, r := range runs {
			p.Used.Add(r)
		}
		p.Advice = strings.Join(p.Used.Advice(), " ")
		if !p.Known {
			p.States = []string{"finished"}
		}
	}
	p.Mine = p.Owner == user
	p.steps(tasks, runs)
	p.Line = newTimeLine(p, runs, now)
	if p.Known {
		p.Meters = meters(p.Detail, tasks, now)
		manager := false
		if !p.Mine {
			manager = s.manager(ctx, user)
		}
		if p.Mine || manager {
			p.Actions = possible(tasks)
		}
		if p.Mine {
			p.Output = readOutput(p.Detail, query)
		}
	}
	return p, nil
}

// recorded are the accounting records of a job in a file of this size.
type recorded struct {
	size int64
	runs []*accounting.Record
}

// recordedMost is the number of jobs whose records are kept in memory.
const recordedMost = 32

// records returns the accounting records of a job. It reads the file again only if the file has changed.
func (s *source) records(ctx context.Context, number int) (runs []*accounting.Record, err error) {
	name, err := s.session.Places(ctx)
	if err != nil {
		return nil, err
	}
	file, err := records.Open(name)
	if err != nil {
		return nil, nil // the daemon keeps no records, or not for everybody
	}
	defer file.Close()
	length := int64(-1)
	if f, ok := file.ReadCloser.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			length = info.Size()
		}
	}
	s.mu.Lock()
	known, ok := s.recorded[number]
	s.mu.Unlock()
	if ok && known.size == length {
		return known.runs, nil
	}
	err = records.Each(file, number, func(r *accounting.Record) error {
		if r.PETask == "" {
			runs = append(runs, r)
		}
		return ctx.Err()
	}, func(int, error) {}) // qacct reports invalid lines
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if len(s.recorded) >= recordedMost {
		clear(s.recorded)
	}
	s.recorded[number] = recorded{length, runs}
	s.mu.Unlock()
	return runs, nil
}

// manager reports whether the user is a manager.
func (s *source) manager(ctx context.Context, user string) bool {
	a, err := s.session.Run(ctx, "qconf", "-sm")
	return err == nil && slices.Contains(strings.Fields(a.Stdout), user)
}

// steps lists the finished runs and the tasks that are running.
func (p *jobPage) steps(tasks *qstat.Job, runs []*accounting.Record) {
	var list []step
	for _, r := range runs {
		s := step{Task: r.Task, State: "finished", Where: r.Queue + "@" + r.Host, How: "exit status " + strconv.Itoa(r.ExitStatus)}
		if !r.Start.IsZero() {
			s.Started = r.Start.Unix()
		}
		if !r.End.IsZero() {
			s.Ended = r.End.Unix()
		}
		if s.Bad = r.Failed != 0 || r.ExitStatus != 0; r.Reason != "" || r.Failed != 0 {
			s.How = cmp.Or(r.Reason, r.FailedText)
		}
		list = append(list, s)
	}
	if tasks != nil {
		for _, t := range tasks.Tasks {
			if t.Phase != qstat.Running {
				continue
			}
			s := step{State: stateWords(t), Started: t.Started}
			if len(t.IDs) > 0 {
				s.Task = t.IDs[0].First
			}
			for i, g := range t.Grants {
				if i > 0 {
					s.Where += ", "
				}
				s.Where += g.Queue
			}
			list = append(list, s)
		}
	}
	if p.More = len(list) - stepsMost; p.More > 0 {
		list = list[p.More:]
	}
	p.Steps = list
}

// meters compares the usage of a running job with its limits, for the task that is nearest to each.
func meters(d *qstat.JobDetail, tasks *qstat.Job, now time.Time) []meter {
	if tasks == nil {
		return nil
	}
	requests := map[string]string{}
	for _, r := range d.Hard {
		requests[r.Name] = r.Value
	}
	var longest, cpu, granted, memory, peak, slots float64
	for _, t := range tasks.Tasks {
		if t.Phase != qstat.Running || t.Started == 0 {
			continue
		}
		n := 0
		for _, g := range t.Grants {
			n += g.Slots
		}
		slots = max(slots, float64(n))
		run := max(float64(now.Unix()-t.Started), 0)
		longest = max(longest, run)
		granted += run * float64(n)
		if t.Usage != nil {
			cpu += t.Usage.CPU
		}
	}
	for _, t := range d.Details {
		if t.Running {
			memory, peak = max(memory, t.VirtualMemory), max(peak, t.MaxVirtualMemory)
		}
	}
	if slots == 0 {
		return nil
	}
	var list []meter
	run := meter{"Run time", duration(longest), -1}
	if limit, err := quantity.Time(requests["h_rt"]); err == nil && limit > 0 && limit != quantity.Infinity {
		run.Part = longest / float64(limit)
		run.Text += " of " + duration(float64(limit)) + " (h_rt)"
	}
	list = append(list, run)
	use := meter{"CPU time", duration(cpu), -1}
	if granted > 0 {
		use.Part = cpu / granted
		use.Text += ", " + percent(use.Part) + " of its slots"
	}
	list = append(list, use)
	mem := meter{"Memory", size(memory) + " now, " + size(peak) + " at most", -1}
	for _, name := range []string{"h_vmem", "h_rss", "s_vmem", "s_rss", "m_mem_free", "mem_free", "virtual_free"} {
		if limit, err := quantity.Memory(requests[name]); err == nil && limit > 0 && limit != quantity.Infinity {
			all := float64(limit) * slots
			mem.Part = peak / all
			mem.Text += ", " + percent(mem.Part) + " of " + size(all) + " (" + name + ")"
			break
		}
	}
	return append(list, mem)
}

// possible returns the actions that suit the states of a job.
func possible(tasks *qstat.Job) []action {
	if tasks == nil {
		return nil
	}
	var running, waiting, held, suspended, failed bool
	for _, t := range tasks.Tasks {
		switch {
		case strings.Contains(t.State, "E"):
			failed = true
		case t.Phase == qstat.Running && strings.Contains(t.State, "s"):
			suspended = true
		case t.Phase == qstat.Running:
			running = true
		case strings.Contains(t.State, "h"):
			held = true
		case t.Phase == qstat.Pending:
			waiting = true
		}
	}
	var list []action
	if waiting {
		list = append(list, action{"hold", "Hold", false})
	}
	if held {
		list = append(list, action{"release", "Release", false})
	}
	if running {
		list = append(list, action{"suspend", "Suspend", false})
	}
	if suspended {
		list = append(list, action{"resume", "Resume", false})
	}
	if running || suspended {
		list = append(list, action{"requeue", "Requeue", true})
	}
	if failed {
		list = append(list, action{"clear", "Clear the error", false})
	}
	return append(list, action{"delete", "Delete", true})
}

// readOutput reads the end of an output file of the caller's job, with the rights of the caller.
func readOutput(d *qstat.JobDetail, query url.Values) *jobOutput {
	if len(d.OutputFiles) == 0 {
		return nil
	}
	o := &jobOutput{}
	stream, _ := strconv.Atoi(query.Get("stream"))
	stream = min(max(stream, 0), len(d.OutputFiles)-1)
	task, _ := strconv.Atoi(query.Get("task"))
	link := func(stream, task int) string {
		q := url.Values{}
		if stream > 0 {
			q.Set("stream", strconv.Itoa(stream))
		}
		if task > 0 {
			q.Set("task", strconv.Itoa(task))
		}
		return "/jobs/" + strconv.Itoa(d.ID) + "?" + q.Encode() + "#output"
	}
	if len(d.TaskIDs) > 0 {
		for _, t := range d.Details {
			if task == 0 {
				task = t.Task
			}
			if len(o.Tasks) < stepsMost {
				o.Tasks = append(o.Tasks, tab{"task " + strconv.Itoa(t.Task), link(stream, t.Task), t.Task == task})
			}
		}
	}
	if len(d.OutputFiles) > 1 {
		for i, name := range []string{"standard output", "standard error"} {
			o.Streams = append(o.Streams, tab{name, link(i, task), i == stream})
		}
	}
	var err error
	if o.Path, err = output.Path(d.OutputFiles[stream], task); err != nil {
		o.Problem = err.Error()
		return o
	}
	text, earlier, err := output.Tail(o.Path, outputBytes, outputLines)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.Problem = "There is no output yet."
	case err != nil:
		o.Problem = err.Error()
	default:
		o.Text, o.Earlier = printable.Lines(string(text)), earlier
	}
	return o
}
