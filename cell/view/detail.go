package view

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/scheduler/value"
	"github.com/execd-project/execd/submit"
)

// Detail returns one of the jobs as qstat -j shows it to a user. Details of the submission that the
// cell does not know (cell.Origin) are empty: the user and group ID, the home directory and others.
// A user who is neither the owner nor a manager gets the names of variables without their values,
// and no arguments.
func (v *View) Detail(j *cell.Job, by cell.Caller) qstat.JobDetail {
	d := v.requested(j)
	d.Job, d.ExecFile = v.Job(j), "job_scripts/"+strconv.Itoa(int(j.ID()))
	d.ExecutionTime, d.Version = j.Start, j.Version
	d.Successors, d.ArraySuccessors = numbers(v.cell.Successors(j)), numbers(v.cell.TaskSuccessors(j))
	d.Reasons = v.SchedulingInfo(j)
	d.WaitingFor, d.ExpectedStart = v.waiting(j)
	d.Progress = progress(j)
	if e, ok := j.LastEnding(); ok {
		d.LastEnding = &qstat.Ending{Time: e.At, Task: int(e.Task), Text: e.Text}
	}
	d.OutputFiles = v.outputFiles(j)
	v.typed(d.Hard)
	v.typed(d.Soft)
	for _, t := range j.Tasks() {
		d.Details = append(d.Details, v.taskDetail(t))
	}
	if by.User != j.Owner() && !v.cell.IsManager(by.User) {
		d.Withhold()
	}
	return d
}

// requested returns the parts of a job's request that Job does not show, and where the job was
// submitted.
func (v *View) requested(j *cell.Job) qstat.JobDetail {
	r := j.Request()
	d := qstat.JobDetail{
		Group: j.Group, Host: j.Host, Reservation: r.Reservation,
		Account: r.Account, CheckpointWhen: r.CheckpointWhen, CheckpointInterval: int(r.CheckpointInterval / time.Second),
		Directory: r.WorkingDir, Reserve: r.Reserve, Merge: r.Join, Notify: r.Notify, Output: paths(r.Output), Error: paths(r.Error), Input: paths(r.Input),
		MailOptions: detailLetters(r.MailOptions), Environment: variables(r.Env), Context: variables(r.Context), Arguments: r.Args, Script: r.Command,
		Concurrency: r.TaskLimit, Type: kind(r), MailList: mailList(r, j.Owner(), j.Host),
	}
	if d.Account == "" {
		d.Account = submit.DefaultAccount
	}
	if r.Checkpoint != "" && d.CheckpointWhen == "" {
		if c, err := v.cell.Cluster().Checkpoint(r.Checkpoint); err == nil {
			d.CheckpointWhen = inOrder(c.When)
		}
	}
	switch r.Rerun {
	case job.Yes:
		d.Restart = "y"
	case job.No:
		d.Restart = "n"
	}
	if r.Validation == submit.ValidateError || r.Validation == submit.ValidateWarn {
		d.Verification = string(rune(r.Validation))
	}
	for _, s := range r.Shell {
		d.Shells = append(d.Shells, orNone(s.Host)+":"+s.Path)
	}
	if a := r.Array; a != nil {
		d.TaskIDs = []qstat.Range{{First: a.First, Last: a.Last, Step: a.Step}}
	}
	v.addOrigin(&d, j)
	return d
}

// mailList returns the recipients of mail: the addresses of -M, or otherwise the owner.
func mailList(r *submit.Request, owner, host string) (list []qstat.Mail) {
	for _, m := range r.Mail {
		user, host, _ := strings.Cut(m, "@")
		list = append(list, qstat.Mail{User: user, Host: host})
	}
	if len(list) == 0 {
		list = []qstat.Mail{{User: owner, Host: host}}
	}
	return list
}

// Request returns a request in the form of a job that has not been submitted (qsub(1), -verify).
func (v *View) Request(r *submit.Request, by cell.Caller) qstat.JobDetail {
	j := cell.Draft(by, r)
	d := v.requested(j)
	v.addRequest(&d.Job, j)
	d.Name, d.JobShare, d.POSIXPriority, d.Project = r.Name, r.JobShare, r.Priority, r.Project
	d.MailList = mailList(r, by.User, by.Host)
	v.typed(d.Hard)
	v.typed(d.Soft)
	return d
}

// addOrigin fills in where the job was submitted.
func (v *View) addOrigin(d *qstat.JobDetail, j *cell.Job) {
	o := j.Origin
	if o == nil {
		return
	}
	d.UID, d.GID = o.UID, o.GID
	for _, x := range submit.SubmitEnvironment(o.Environment, j.Host, o.Directory) {
		switch x.Name {
		case "SGE_O_HOME":
			d.Home = x.Value
		case "SGE_O_LOGNAME":
			d.LogName = x.Value
		case "SGE_O_PATH":
			d.Path = x.Value
		case "SGE_O_SHELL":
			d.Shell = x.Value
		case "SGE_O_TZ":
			d.TimeZone = x.Value
		case "SGE_O_MAIL":
			d.Mail = x.Value
		case "SGE_O_HOST":
			d.Host = x.Value
		case "SGE_O_WORKDIR":
			d.WorkDir = x.Value
		}
	}
}

// inOrder returns letters of -c in the order of qstat.
func inOrder(when string) string {
	var text strings.Builder
	for _, letter := range "nmsxr" {
		if strings.ContainsRune(when, letter) {
			text.WriteRune(letter)
		}
	}
	return text.String()
}

// kind returns the type of a job in the words of qstat.
func kind(r *submit.Request) string {
	var words []string
	for _, k := range []struct {
		word string
		is   bool
	}{{"binary", r.Binary}, {"noshell", r.NoShell && r.Binary}, {"immediate", r.Immediate}} {
		if k.is {
			words = append(words, k.word)
		}
	}
	return strings.Join(words, ",")
}

func orNone(s string) string {
	if s == "" {
		return "NONE"
	}
	return s
}

func paths(list []submit.HostPath) (texts []string) {
	for _, p := range list {
		texts = append(texts, orNone(p.Host)+":NONE:"+p.Path)
	}
	return texts
}

func variables(list []submit.Variable) (texts []string) {
	for _, v := range list {
		if v.Value == "" {
			texts = append(texts, v.Name)
		} else {
			texts = append(texts, v.String())
		}
	}
	return texts
}

// detailLetters returns the letters of -m in the order of qstat -j.
func detailLetters(o job.MailOptions) string {
	var text strings.Builder
	for _, x := range [...]struct {
		bit    job.MailOptions
		letter string
	}{{job.MailAtAbort, "a"}, {job.MailAtBegin, "b"}, {job.MailAtEnd, "e"}, {job.MailAtSuspend, "s"}} {
		if o&x.bit != 0 {
			text.WriteString(x.letter)
		}
	}
	return text.String()
}

// typeNumbers are the numbers that the original has for the types of attributes.
var typeNumbers = map[value.Type]int{
	value.Int: 1, value.String: 2, value.Time: 3, value.Memory: 4, value.Bool: 5, value.CString: 6, value.Host: 7, value.Double: 8, value.REString: 9,
}

// consumables are the numbers for consumable in complex(5).
var consumables = map[qconf.Consumable]int{qconf.ConsumableYes: 1, qconf.ConsumableJob: 2, qconf.ConsumableHost: 3}

// typed fills in the types of requested attributes.
func (v *View) typed(requests []qstat.Request) {
	for i := range requests {
		r := &requests[i]
		id, ok := v.model.Attribute(r.Name)
		if !ok {
			continue
		}
		a := &v.model.Attributes()[id]
		r.Name, r.Type, r.Consumable = a.Name, typeNumbers[a.Type], consumables[a.Consumable]
		x, err := value.Parse(a.Type, r.Value)
		switch {
		case err != nil || a.Type.IsText():
		case x.IsInfinite():
			r.Number = math.MaxFloat64
		default:
			r.Number = x.Number()
		}
	}
}

func (v *View) taskDetail(t *cell.Task) qstat.TaskDetail {
	d := qstat.TaskDetail{
		Task: int(t.Number), Running: t.Running() != nil, Transferring: t.Phase == cell.Transferring, Started: t.Started, ErrorReason: cmp.Or(t.Error, t.Message),
	}
	if d.Running {
		p, _ := v.ofRunning(t)
		d.NormalizedTickets = p.NormalizedTickets
	} else if v.decisions != nil {
		p, _ := v.decisions.Of(t.Job.Scheduled())
		d.NormalizedTickets = p.NormalizedTickets
	}
	if d.Running {
		d.VirtualMemory, d.MaxVirtualMemory, d.IOWait = float64(t.Live.Vmem), float64(t.Live.MaxVmem), t.Live.IOWait
		var notices []string
		if n := t.Live.Refused; n > 0 {
			notices = append(notices, "the kernel refused it "+strconv.FormatInt(n, 10)+" processes and threads beyond its limit (pids_limit)")
		}
		if ids := t.Live.IdleGPUs; len(ids) > 0 {
			notices = append(notices, "it has not used GPU "+strings.Join(ids, ", ")+" for ten minutes or longer")
		}
		d.Notice = strings.Join(notices, "; ")
		d.GPUUsage = gpuUsage(&t.Live.GPU)
		grants := t.Running().Grants
		for i := range grants {
			d.Elements = append(d.Elements, v.elements(&grants[i])...)
		}
	}
	if t.Used != (tickets.Amounts{}) || d.MaxVirtualMemory > 0 {
		d.Usage = &qstat.Usage{CPU: t.Used[tickets.CPU], Memory: t.Used[tickets.Mem], IO: t.Used[tickets.IO]}
	}
	return d
}

// gpuUsage returns the usage of GPUs in the style of the line "usage"; "" for a task without GPUs.
func gpuUsage(u *job.GPUUsage) string {
	if u.Count == 0 {
		return ""
	}
	text := fmt.Sprintf("gpus=%d, time=%s, utilisation=", u.Count, quantity.FormatTime(uint64(u.Seconds)))
	if part := u.Utilisation(); part >= 0 {
		text += strconv.FormatFloat(100*part, 'f', 0, 64) + "%"
	} else {
		text += "N/A"
	}
	text += ", maxmem="
	if u.MaxMemory == 0 {
		return text + "N/A"
	}
	return text + strconv.FormatInt(u.MaxMemory>>20, 10) + "M"
}

// reason returns a message of the scheduler.
func reason(r *scheduler.Reason, shared bool) qstat.Reason {
	return qstat.Reason{Text: r.Text(), Number: r.Number(), Shared: shared}
}

// Numbers of messages that concern a job as a whole, as sge_schedd has them.
const (
	unnumbered = -1 // the reason has no number
	notYet     = 31 // its execution time
	inErrors   = 32
	inHold     = 33
	dependent  = 35
)

// HasReasons reports whether there is any reason why a job did not start in the last scheduling run.
func (v *View) HasReasons() bool {
	if v.decisions == nil {
		return false
	}
	if len(v.decisions.Dropped) > 0 {
		return true
	}
	for _, j := range v.cell.Jobs() {
		if Pending(j) && len(v.SchedulingInfo(j)) > 0 {
			return true
		}
	}
	return false
}

// Reasons returns the reasons why jobs did not start in the last scheduling run, as qstat -j
// without a list of jobs prints them: shared holds the reasons that concern all jobs, and groups
// holds the others, one group for the jobs with the same reasons, in the order of the job numbers.
func (v *View) Reasons() (shared []qstat.Reason, groups []qstat.ReasonGroup) {
	if v.decisions == nil {
		return nil, nil
	}
	for i := range v.decisions.Dropped {
		shared = append(shared, reason(&v.decisions.Dropped[i], true))
	}
	type list struct {
		reasons []qstat.Reason
		jobs    []int
	}
	var lists []*list
	known := map[string]*list{}
	for _, j := range v.cell.Jobs() {
		if !Pending(j) {
			continue
		}
		own := v.SchedulingInfo(j)[len(shared):]
		var key strings.Builder
		for _, r := range own {
			key.WriteString(strconv.Itoa(r.Number) + " " + r.Text + "\n")
		}
		l := known[key.String()]
		if l == nil {
			l = &list{reasons: own}
			known[key.String()] = l
			lists = append(lists, l)
		}
		l.jobs = append(l.jobs, int(j.ID()))
	}
	for _, l := range lists {
		for _, r := range l.reasons {
			groups = append(groups, qstat.ReasonGroup{Text: qstat.GeneralReason(r), Number: r.Number, Jobs: l.jobs})
		}
	}
	return shared, groups
}
