package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/usagetext"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qstat"
)

// Call calls a method of the agent as a user whom the pages have identified. remote is the address of the user's
// browser.
type Call func(ctx context.Context, u *userdb.User, remote string, m agentapi.Method, in, out any) error

// agentContent provides the pages of execd agent for one user: the status of the host, and its jobs. The agent knows
// no queue and no share tree, which its master has.
type agentContent struct {
	user *userdb.User
	call Call
}

// menu implements content.
func (a *agentContent) menu() []tab { return []tab{{Name: "Overview", Link: "/"}} }

// agentOverview is the data of the first page.
type agentOverview struct {
	Health agentapi.Health
	States []agentState
	Jobs   []agentJob
}

// agentState is a number of jobs.
type agentState struct {
	Name string
	Jobs int
}

// agentJob is a job in the list.
type agentJob struct {
	agentapi.Job
	Number string
	Start  int64 // 0 for a job that has not started
}

// agentJobPage is the page of a job.
type agentJobPage struct {
	agentJob
	Line    *timeLine
	Actions []action
	Meters  []meter
}

// numberOf returns the number of a job as it is in links: JOB, JOB.TASK or JOB.TASK.PETASK.
func numberOf(id agentapi.ID) string {
	text := strconv.Itoa(id.Job)
	if id.Task > 0 || id.PETask != "" {
		text += "." + strconv.Itoa(id.Task)
	}
	if id.PETask != "" {
		text += "." + id.PETask
	}
	return text
}

// parseNumber returns the opposite of numberOf.
func parseNumber(text string) (id agentapi.ID, ok bool) {
	const parts = 3
	words := strings.SplitN(text, ".", parts)
	job, err := strconv.ParseUint(words[0], 10, 31)
	id.Job = int(job)
	if len(words) > 1 && err == nil {
		var task uint64
		task, err = strconv.ParseUint(words[1], 10, 31)
		id.Task = int(task)
	}
	if len(words) == parts {
		id.PETask = words[2]
	}
	return id, err == nil && job > 0
}

func newAgentJob(j *agentapi.Job) agentJob {
	r := agentJob{Job: *j, Number: numberOf(j.ID)}
	if !j.Started.IsZero() {
		r.Start = j.Started.Unix()
	}
	return r
}

// fill implements content.
func (a *agentContent) fill(ctx context.Context, p *page, u *url.URL) (err error) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	switch {
	case u.Path == "/":
		p.Title, p.Template = "Overview", "agent"
		p.Body, err = a.overview(ctx)
	case first == "jobs" && rest != "":
		p.Title, p.Template = "Job "+rest, "agentjob"
		p.Body, err = a.job(ctx, rest, p.Now)
	default:
		err = errNoPage
	}
	if e, ok := errors.AsType[*agentapi.Error](err); ok {
		return &qclient.RefusedError{Message: e.Message}
	}
	return err
}

func (a *agentContent) overview(ctx context.Context) (*agentOverview, error) {
	o := &agentOverview{}
	if err := a.call(ctx, a.user, "", agentapi.MethodHealth, agentapi.Empty{}, &o.Health); err != nil {
		return nil, err
	}
	for name, n := range o.Health.Jobs {
		o.States = append(o.States, agentState{name, n})
	}
	slices.SortFunc(o.States, func(x, y agentState) int { return cmp.Compare(x.Name, y.Name) })
	var list agentapi.JobsAnswer
	if err := a.call(ctx, a.user, "", agentapi.MethodJobs, agentapi.Empty{}, &list); err != nil {
		return nil, err
	}
	for i := range list.Jobs {
		o.Jobs = append(o.Jobs, newAgentJob(&list.Jobs[i]))
	}
	return o, nil
}

func (a *agentContent) job(ctx context.Context, number string, now time.Time) (*agentJobPage, error) {
	id, ok := parseNumber(number)
	if !ok {
		return nil, &qclient.RefusedError{Message: "The number of a job is expected, such as 17 or 17.3."}
	}
	var answer agentapi.JobAnswer
	if err := a.call(ctx, a.user, "", agentapi.MethodJob, agentapi.JobRequest{ID: id}, &answer); err != nil {
		return nil, err
	}
	p := &agentJobPage{agentJob: newAgentJob(&answer.Job)}
	p.Line = p.timeLine(now)
	p.Meters = p.usage(now)
	mine := p.Owner == a.user.Name
	if !mine {
		var about agentapi.VersionAnswer
		if err := a.call(ctx, a.user, "", agentapi.MethodVersion, agentapi.Empty{}, &about); err != nil {
			return nil, err
		}
		mine = slices.Contains(about.Methods, agentapi.MethodDrain) // only managers may call it
	}
	if mine {
		p.Actions = p.possible()
	}
	return p, nil
}

// timeLine draws the times of a job like those of a job of a cell.
func (p *agentJobPage) timeLine(now time.Time) *timeLine {
	s := step{Started: p.Start}
	as := &jobPage{Known: p.Outcome == nil, Detail: &qstat.JobDetail{}}
	from := p.Submitted
	if from.IsZero() {
		from = p.Received
	}
	if !from.IsZero() {
		as.Detail.Submitted = from.Unix()
	}
	if p.Outcome != nil {
		s.Bad = p.Outcome.Failed != 0 || p.Outcome.ExitStatus != 0
		if !p.Outcome.End.IsZero() {
			s.Ended = p.Outcome.End.Unix()
		}
	}
	as.Steps = []step{s}
	if as.Detail.Submitted == 0 {
		return nil
	}
	line := newTimeLine(as, from, now)
	if p.Submitted.IsZero() { // the master has not said when that was
		line.Label = strings.Replace(line.Label, "Submitted", "Received", 1)
	}
	return line
}

// usage returns the usage of a running job so far, or of a finished job.
func (p *agentJobPage) usage(now time.Time) []meter {
	const gibibyte = 1 << 30
	var wallclock, cpu, read float64
	var most int64
	gpu := p.GPU
	switch {
	case p.Outcome != nil && p.Outcome.Ran:
		u := p.Outcome.Usage
		wallclock, cpu, read, most, gpu = u.Wallclock, u.CPU, u.IO, u.MaxVmem, u.GPU
	case p.Usage != nil:
		wallclock, cpu, read, most = p.Usage.Wallclock, p.Usage.CPU, p.Usage.IO, p.Usage.MaxVmem
	default:
		return nil
	}
	if p.Outcome == nil && p.Start > 0 {
		wallclock = float64(now.Unix() - p.Start)
	}
	use := meter{"CPU time", joblist.Duration(cpu), -1}
	if granted := wallclock * float64(p.Slots); granted > 0 {
		use.Part = cpu / granted
		use.Text += ", " + percent(use.Part) + " of its slots"
	}
	memory := size(float64(most)) + " at most"
	if p.Outcome == nil {
		memory = size(float64(p.Usage.Vmem)) + " now, " + memory
	}
	list := []meter{{"Run time", joblist.Duration(wallclock), -1}, use, {"Memory", memory, -1}, {"Read and written", size(read * gibibyte), -1}}
	if gpu != nil && gpu.Count > 0 {
		u := job.GPUUsage{Count: gpu.Count, Seconds: gpu.Seconds, Measured: gpu.Measured, Busy: gpu.Busy, MaxMemory: gpu.MaxMemory}
		list = append(list, meter{"GPUs", usagetext.GPUs(&u), -1})
	}
	return list
}

// possible returns the orders that the state of the job allows.
func (p *agentJobPage) possible() (list []action) {
	switch p.State {
	case agentapi.Running:
		list = append(list, action{"suspend", "Suspend", false})
	case agentapi.Suspended:
		list = append(list, action{"resume", "Resume", false})
	case agentapi.Accepted, agentapi.Starting:
	default:
		return nil
	}
	return append(list, action{"delete", "Terminate", true})
}

// agentOrders are the orders of the buttons.
var agentOrders = map[string]agentapi.Order{"suspend": agentapi.Suspend, "resume": agentapi.Resume, "delete": agentapi.Terminate}

// act implements content.
func (a *agentContent) act(r *http.Request, job, name string) (answer, bool) {
	id, ok := parseNumber(job)
	order := agentOrders[name]
	if !ok || order == "" {
		return answer{}, false
	}
	err := a.call(r.Context(), a.user, r.RemoteAddr, agentapi.MethodSignal, agentapi.SignalRequest{ID: id, Order: order}, &agentapi.Empty{})
	if e, ok := errors.AsType[*agentapi.Error](err); ok {
		return answer{text: e.Message, bad: true}, true
	}
	if err != nil {
		return answer{text: err.Error(), bad: true}, true
	}
	return answer{text: "The agent has received the order."}, true
}
