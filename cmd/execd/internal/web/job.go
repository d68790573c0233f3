package web

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/cmd/execd/internal/output"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/standalone/api"
)

// jobPage is the page of a job.
type jobPage struct {
	ID       int
	Name     string
	Owner    string
	Known    bool // known to the daemon; otherwise there are only records
	Detail   *qstat.JobDetail
	States   []string
	Line     *timeLine
	Events   []api.Event // the latest first
	Problems []string    // errors of the job
	Meters   []meter
	Steps    []step
	More     int // number of steps that are not shown
	Mine     bool
	Actions  []action
	Change   []field // that qalter can change; none if the user may not
	Output   *jobOutput
	Used     *accounting.Efficiency // of finished tasks; nil without a record
	Advice   string
}

// action is a button on the page.
type action struct {
	Name, Label string
	Confirm     bool // requires a second press
}

// field is an attribute of a job that qalter can change.
type field struct{ Name, Label, Value string }

// fields returns the attributes in the form that changes a job.
func fields(d *qstat.JobDetail) []field {
	var resources []string
	for _, r := range d.Hard {
		resources = append(resources, r.Name+"="+r.Value)
	}
	return []field{
		{"name", "Name (-N)", d.Name},
		{"priority", "Priority (-p)", strconv.Itoa(d.POSIXPriority)},
		{"resources", "Resources (-l)", strings.Join(resources, ",")},
		{"queues", "Queues (-q)", strings.Join(d.HardQueues, ",")},
	}
}

// step is a task of a job, or one of its runs.
type step struct {
	Task           int // 0 if the job is not an array job
	State          string
	Started, Ended int64
	Where          string
	How            string // how the run ended
	Bad            bool
}

// meter compares usage with a limit.
type meter struct {
	Name, Text string
	Part       float64 // 0 to 1; negative without a limit
}

// jobOutput is the end of the output of a job.
type jobOutput struct {
	Path, Problem string
	Text          string
	Earlier       bool // there is more output before this
	Tasks         []tab
	Streams       []tab
}

const (
	stepsMost   = 50
	eventsMost  = 20
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
	past, err := s.history(ctx, number)
	if err != nil {
		return nil, err
	}
	var tasks *qstat.Job
	if p.Known {
		// qstat -j does not show states.
		list, err := s.ask(ctx, "qstat", "-u", "*")
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(list.Jobs, func(j qstat.Job) bool { return j.ID == number }); i >= 0 {
			tasks = &list.Jobs[i]
			p.States = joblist.New(*tasks).States
		}
	}
	if !p.Known && past.runs == 0 {
		return nil, &qclient.RefusedError{Message: "The daemon does not know job " + strconv.Itoa(number) + ", and there is no accounting record of it."}
	}
	if past.runs > 0 {
		last := past.last[len(past.last)-1]
		p.Name, p.Owner = cmp.Or(p.Name, last.JobName), cmp.Or(p.Owner, last.Owner)
		if past.used.Longest > 0 || past.used.Memory > 0 {
			p.Used = &past.used
		}
		p.Advice = strings.Join(past.used.Advice(), " ")
		if !p.Known {
			p.States = []string{"finished"}
		}
	}
	p.Mine = p.Owner == user
	p.steps(tasks, past)
	// The page works without the events of the job.
	if recent, err := s.session.Recent(ctx); err == nil {
		p.eventsOf(recent.Events)
	}
	p.Line = newTimeLine(p, past.submitted, now)
	trusted := p.Mine || s.manager(ctx, user)
	if p.Known {
		p.Problems = problems(p.Detail, now)
		p.Meters = meters(p.Detail, tasks, now)
		if trusted {
			p.Actions = possible(tasks)
			p.Change = fields(p.Detail)
		}
	}
	if trusted {
		p.Output, err = read(ctx, s, func() (*jobOutput, error) { return s.readOutput(p, past, query), nil })
		if err != nil {
			p.Output = &jobOutput{Problem: err.Error()}
		}
	}
	return p, nil
}

// history is a summary of the accounting records of a job. An array job may have 75,000 of them, so
// only the last ones are kept.
type history struct {
	size      int64 // of the file that was read
	runs      int   // number of records, excluding tasks of a parallel job
	used      accounting.Efficiency
	submitted time.Time            // of the first record; zero if unknown
	last      []*accounting.Record // at most stepsMost, the oldest first
}

// add adds a record. Records must come in the order of the file.
func (h *history) add(r *accounting.Record) {
	h.used.Add(r)
	if r.PETask != "" {
		return
	}
	if h.runs++; h.runs == 1 {
		h.submitted = r.Submitted
	}
	if len(h.last) == stepsMost {
		copy(h.last, h.last[1:])
		h.last = h.last[:stepsMost-1]
	}
	h.last = append(h.last, r)
}

// historiesMost is the number of jobs whose history is kept in memory.
const historiesMost = 32

// history returns the history of a job, which the caller must not change. It reads the file only if
// the file has changed.
func (s *source) history(ctx context.Context, number int) (*history, error) {
	name, err := s.session.Places(ctx)
	if err != nil {
		return nil, err
	}
	return read(ctx, s, func() (*history, error) { return s.readHistory(ctx, name, number) })
}

func (s *source) readHistory(ctx context.Context, name string, number int) (*history, error) {
	file, err := records.OpenWith(s.records, name, s.onlyRecent)
	if err != nil {
		return &history{}, nil // there are no records, or not everybody may read them
	}
	defer file.Close()
	h := &history{size: file.Size}
	s.mu.Lock()
	known := s.histories[number]
	s.mu.Unlock()
	if known != nil && known.size == h.size {
		return known, nil
	}
	err = records.Each(ctx, file, number, func(r *accounting.Record) error {
		h.add(r)
		return nil
	}, func(int, error) {}) // qacct reports invalid lines
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if len(s.histories) >= historiesMost {
		clear(s.histories)
	}
	s.histories[number] = h
	s.mu.Unlock()
	return h, nil
}

// manager reports whether the user is a manager.
func (s *source) manager(ctx context.Context, user string) bool {
	a, err := s.session.Run(ctx, "qconf", "-sm")
	return err == nil && slices.Contains(strings.Fields(a.Stdout), user)
}

// steps lists the finished runs and the running tasks.
func (p *jobPage) steps(tasks *qstat.Job, past *history) {
	var list []step
	for _, r := range past.last {
		s := step{Task: r.Task, State: "finished", Where: r.Queue + "@" + r.Host, How: "exit status " + strconv.Itoa(r.ExitStatus)}
		if r.Failed != 0 {
			s.State = "failed"
		}
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
			s := step{State: joblist.State(t), Started: t.Started}
			if len(t.IDs) > 0 {
				s.Task = t.IDs[0].First
			}
			for i, g := range t.Grants {
				if i > 0 {
					s.Where += ", "
				}
				s.Where += g.Queue
			}
			if elements := joblist.Elements(t); elements != "" {
				s.Where += ", " + elements
			}
			list = append(list, s)
		}
	}
	p.Steps = list[max(len(list)-stepsMost, 0):]
	p.More = past.runs - len(past.last) + len(list) - len(p.Steps)
}

// eventsOf selects the events of this job, in the order of time. There is one job of a number at a time, but a
// number is used again.
func (p *jobPage) eventsOf(all []api.Event) {
	for _, e := range slices.Backward(all) {
		if int(e.Job) == p.ID && len(p.Events) < eventsMost {
			p.Events = append(p.Events, e)
		}
	}
}

// problems returns the errors of a job that the reasons why it is pending do not contain.
func problems(d *qstat.JobDetail, now time.Time) (list []string) {
	known := strings.Join(d.WaitingFor, "\n")
	add := func(before, text string) {
		if text != "" && !strings.Contains(known, text) {
			known += "\n" + text
			list = append(list, before+text)
		}
	}
	for _, t := range d.Details {
		add("", t.ErrorReason)
		add("", t.Notice)
	}
	if e := d.LastEnding; e != nil {
		before := clock(e.Time, now)
		if len(d.TaskIDs) > 0 {
			before += ", task " + strconv.Itoa(e.Task)
		}
		add(before+": ", e.Text)
	}
	return list
}

// meters compares the usage of a running job with its limits. For each limit it uses the task that
// is closest to it.
func meters(d *qstat.JobDetail, tasks *qstat.Job, now time.Time) []meter {
	if tasks == nil {
		return nil
	}
	requests := map[string]string{}
	for _, r := range d.Hard {
		requests[r.Name] = r.Value
	}
	var longest, cpu, mostCPU, granted, memory, peak, slots, all, io float64
	measured := false
	for _, t := range tasks.Tasks {
		if t.Phase != qstat.Running || t.Started == 0 {
			continue
		}
		n := 0
		for _, g := range t.Grants {
			n += g.Slots
		}
		slots, all = max(slots, float64(n)), all+float64(n)
		run := max(float64(now.Unix()-t.Started), 0)
		longest = max(longest, run)
		granted += run * float64(n)
		uses := []*qstat.Usage{t.Usage, t.PastUsage}
		for _, sub := range t.Subtasks { // of a parallel job
			uses = append(uses, sub.Usage)
		}
		own := 0.0
		for _, u := range uses {
			if u != nil {
				measured = true
				own, io = own+u.CPU, io+u.IO
			}
		}
		cpu, mostCPU = cpu+own, max(mostCPU, own)
	}
	for _, t := range d.Details {
		if t.Running {
			own, most := t.VirtualMemory, t.MaxVirtualMemory
			for _, sub := range t.Subtasks {
				own, most = own+sub.VirtualMemory, most+sub.MaxVirtualMemory
			}
			memory, peak = max(memory, own), max(peak, most)
		}
	}
	if slots == 0 {
		return nil
	}
	var list []meter
	run := meter{"Run time", joblist.Duration(longest), -1}
	if limit, err := quantity.Time(requests["h_rt"]); err == nil && limit > 0 && limit != quantity.Infinity {
		run.Part = longest / float64(limit)
		run.Text += " of " + joblist.Duration(float64(limit)) + " (h_rt)"
	}
	list = append(list, run)
	if n, err := strconv.ParseFloat(requests[gpuMap], 64); err == nil && n > 0 {
		list = append(list, meter{"GPUs", count(n*all) + " granted" + gpuUse(d), -1})
	}
	if peak == 0 && !measured {
		return append(list, meter{"Usage", "The host has not measured it yet.", -1})
	}
	use := meter{"CPU time", joblist.Duration(cpu), -1}
	if granted > 0 {
		use.Part = cpu / granted
		use.Text += ", " + percent(use.Part) + " of its slots"
	}
	if limit, err := quantity.Time(requests["h_cpu"]); err == nil && limit > 0 && limit != quantity.Infinity {
		most := float64(limit) * slots
		use.Part = mostCPU / most
		use.Text += ", " + percent(use.Part) + " of " + joblist.Duration(most) + " (h_cpu)"
	}
	list = append(list, use)
	mem := meter{"Memory", size(memory) + " now, " + size(peak) + " at most", -1}
	for _, name := range []string{"h_vmem", "h_rss", "s_vmem", "s_rss", "m_mem_free", "mem_free", "virtual_free"} {
		if limit, err := quantity.Memory(requests[name]); err == nil && limit > 0 && limit != quantity.Infinity {
			most := float64(limit) * slots
			mem.Part = peak / most
			mem.Text += ", " + percent(mem.Part) + " of " + size(most) + " (" + name + ")"
			break
		}
	}
	list = append(list, mem)
	if measured {
		const gibibyte = 1 << 30
		list = append(list, meter{"Read and written", size(io * gibibyte), -1})
	}
	return list
}

// gpuUse describes the use of the GPUs of the first running task that has been measured.
func gpuUse(d *qstat.JobDetail) string {
	for _, t := range d.Details {
		switch {
		case t.GPUUsage == "":
		case len(d.TaskIDs) > 0:
			return ", task " + strconv.Itoa(t.Task) + ": " + t.GPUUsage
		default:
			return ", " + t.GPUUsage
		}
	}
	return ""
}

// Array reports whether the job has tasks.
func (p *jobPage) Array() bool {
	return p.Detail != nil && len(p.Detail.TaskIDs) > 0 || slices.ContainsFunc(p.Steps, func(s step) bool { return s.Task > 0 })
}

// possible returns the actions that the states of a job allow.
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

// readOutput reads the end of an output file of a job, with the rights of the user or, for root's pages, of
// the owner. The path comes from the request of a job that the daemon knows, otherwise from its records.
func (s *source) readOutput(p *jobPage, past *history, query url.Values) *jobOutput {
	number := func(name string) int {
		n, _ := strconv.Atoi(query.Get(name))
		return max(n, 0)
	}
	stream, task := number("stream"), number("task")
	tasks := outputTasks(p, past)
	if task == 0 && len(tasks) > 0 {
		task = tasks[0]
	}
	var files []qstat.OutputFile
	switch {
	case p.Known:
		files = p.Detail.OutputFiles
	default:
		i := slices.IndexFunc(past.last, func(r *accounting.Record) bool { return task == 0 || r.Task == task })
		if i >= 0 {
			files = output.Files(past.last[i])
		}
	}
	if len(files) == 0 {
		return nil
	}
	stream = min(stream, len(files)-1)
	link := func(stream, task int) string {
		q := url.Values{}
		if stream > 0 {
			q.Set("stream", strconv.Itoa(stream))
		}
		if task > 0 {
			q.Set("task", strconv.Itoa(task))
		}
		return "/jobs/" + strconv.Itoa(p.ID) + "?" + q.Encode() + "#output"
	}
	o := &jobOutput{}
	for _, t := range tasks {
		o.Tasks = append(o.Tasks, tab{"task " + strconv.Itoa(t), link(stream, t), t == task})
	}
	if len(files) > 1 {
		for i, name := range []string{"standard output", "standard error"} {
			o.Streams = append(o.Streams, tab{name, link(i, task), i == stream})
		}
	}
	open := s.open
	if !p.Mine {
		var err error
		if open, err = s.ofOwner(p.Owner); err != nil {
			o.Problem = err.Error()
			return o
		}
	}
	finder := output.NewFinder(userdb.System())
	finder.IsDir = func(path string) bool {
		f, err := open(path)
		if err == nil {
			f.Close()
		}
		kind, ok := errors.AsType[*userfile.KindError](err)
		return ok && kind.Kind == "a directory"
	}
	var text []byte
	var earlier bool
	var err error
	if o.Path, err = finder.Path(files[stream], task); err == nil {
		text, earlier, err = tail(open, o.Path)
	}
	switch {
	case errors.Is(err, errNoRights):
		o.Problem = "These pages show no output, because the process that serves them has no rights to read files of users (--front-user). " +
			"To read the output, type execd tail " + strconv.Itoa(p.ID) + " on the host, or execd web, which shows the same pages with your rights."
	case errors.Is(err, fs.ErrNotExist) && p.Known:
		o.Problem = "There is no output yet."
	case errors.Is(err, fs.ErrNotExist):
		o.Problem = "The file does not exist any more."
	case errors.Is(err, fs.ErrPermission) && !p.Mine:
		o.Problem = "The permissions of the file do not let you read it. Its owner and root can see it here."
	case err != nil:
		o.Problem = err.Error()
	default:
		o.Text, o.Earlier = printable.Lines(string(text)), earlier
	}
	return o
}

// tail returns the end of a file.
func tail(open opener, path string) (text []byte, earlier bool, err error) {
	f, err := open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	return output.TailOf(f, outputBytes, outputLines)
}

// outputTasks returns the tasks of an array job whose output the page offers: those that have
// started, or the last ones of a finished job.
func outputTasks(p *jobPage, past *history) (tasks []int) {
	if p.Known {
		if len(p.Detail.TaskIDs) > 0 {
			for _, t := range p.Detail.Details[:min(len(p.Detail.Details), stepsMost)] {
				tasks = append(tasks, t.Task)
			}
		}
		return tasks
	}
	for _, r := range past.last {
		if r.Task > 0 && !slices.Contains(tasks, r.Task) {
			tasks = append(tasks, r.Task)
		}
	}
	return tasks
}
