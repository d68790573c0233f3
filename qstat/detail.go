package qstat

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// JobDetail holds the fields of a job that qstat -j shows in addition to Job. qstat -j does not
// show the tasks, the urgency and the normalised priorities of Job.
type JobDetail struct {
	Job
	ExecFile string `json:"execFile,omitempty"` // job_scripts/1
	UID      int    `json:"uid"`
	GID      int    `json:"gid"`
	Group    string `json:"group"`
	// Where the job was submitted: sge_o_home, sge_o_log_name, sge_o_path, sge_o_shell,
	// sge_o_tz, sge_o_workdir and sge_o_host, and the mail box, which text does not show.
	Home     string `json:"home,omitempty"`
	LogName  string `json:"logName,omitempty"`
	Path     string `json:"path,omitempty"`
	Shell    string `json:"shell,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
	Mail     string `json:"mail,omitempty"`
	WorkDir  string `json:"workDir,omitempty"`
	Host     string `json:"host,omitempty"`
	// Reservation is the advance reservation that the job runs in, -ar; 0 for none.
	Reservation int `json:"reservation,omitempty"`
	// ExecutionTime is the time of -a, in seconds since the epoch; 0 for none.
	ExecutionTime int64  `json:"executionTime,omitempty"`
	Account       string `json:"account"`
	// CheckpointWhen are letters of -c, CheckpointInterval is its interval in seconds.
	CheckpointWhen     string `json:"checkpointWhen,omitempty"`
	CheckpointInterval int    `json:"checkpointInterval,omitempty"`
	Directory          string `json:"directory,omitempty"`       // -cwd, -wd
	DirectivePrefix    string `json:"directivePrefix,omitempty"` // -C
	// Verification is the letter of -w, with which the request was verified: e or w; "" if
	// it was not.
	Verification string `json:"verification,omitempty"`
	// Output, Error and Input are the paths of -o, -e and -i, each as name:host:path.
	Output []string `json:"output,omitempty"`
	Error  []string `json:"error,omitempty"`
	Input  []string `json:"input,omitempty"`

	Reserve     bool   `json:"reserve"`               // -R y
	Merge       bool   `json:"merge"`                 // -j y
	Notify      bool   `json:"notify"`                // -notify
	Restart     string `json:"restart,omitempty"`     // -r: y or n; "" if it was not said
	MailOptions string `json:"mailOptions,omitempty"` // letters of -m, as abe
	MailList    []Mail `json:"mailList,omitempty"`
	// Shells are the shells of -S, each as host:path.
	Shells      []string `json:"shells,omitempty"`
	Environment []string `json:"environment,omitempty"` // -v: NAME=value, or NAME without one
	Arguments   []string `json:"arguments,omitempty"`
	Script      string   `json:"script,omitempty"`
	// Successors are jobs that wait for this one.
	Successors      []int `json:"successors,omitempty"`
	ArraySuccessors []int `json:"arraySuccessors,omitempty"`
	// Version counts the alterations.
	Version     int      `json:"version,omitempty"`
	TaskIDs     []Range  `json:"taskIDs,omitempty"`     // -t
	Concurrency int      `json:"concurrency,omitempty"` // -tc
	Context     []string `json:"context,omitempty"`     // -ac: NAME=value, or NAME without one
	// Type is the kind of the job: binary, noshell and immediate, with commas; "" is shown
	// as NONE.
	Type    string       `json:"type,omitempty"`
	Details []TaskDetail `json:"details,omitempty"`
	// Reasons say why the job could not be started, in the order of their discovery; reasons that
	// all jobs share come first.
	Reasons []Reason `json:"reasons,omitempty"`

	// Withheld names the fields above that were removed, in whole or in part, because only the
	// owner and managers may see them: see Withhold.
	Withheld []string `json:"withheld,omitempty"`

	// Only execd has the following fields; Grid Engine's formats do not show them: the reasons why
	// the job is pending in plain words, the time from which it may start (Unix seconds, 0 for
	// unknown), the progress of an array job, and the reason why one of its tasks ended.
	WaitingFor    []string  `json:"waitingFor,omitempty"`
	ExpectedStart int64     `json:"expectedStart,omitempty"`
	Progress      *Progress `json:"progress,omitempty"`
	LastEnding    *Ending   `json:"lastEnding,omitempty"`
	// OutputFiles are the files for standard output and error, one if both go into the same;
	// DetailOptions.Files shows them in text.
	OutputFiles []OutputFile `json:"outputFiles,omitempty"`
}

// Ending is the end of a task, or of an attempt of it, that was explained: a limit that was
// exceeded, a failure, a signal.
type Ending struct {
	Time int64  `json:"time"` // seconds since the epoch
	Task int    `json:"task"` // 1 for a job that is not an array
	Text string `json:"text"`
}

// Progress holds numbers of tasks of an array job. Tasks that are neither done nor running are
// pending; Failed counts the pending ones in error state. Deleted tasks count as done.
type Progress struct {
	Total   int `json:"total"`
	Done    int `json:"done"`
	Running int `json:"running"`
	Failed  int `json:"failed,omitempty"`
}

// TaskDetail holds the fields that qstat -j shows of a started task.
type TaskDetail struct {
	Task int `json:"task"` // 1 for a job that is not an array
	// Running says that usage and binding are shown. Transferring says of such a task that
	// the execution host has not confirmed its start.
	Running      bool  `json:"running"`
	Transferring bool  `json:"transferring,omitempty"`
	Started      int64 `json:"started,omitempty"` // seconds since the epoch
	// NormalizedTickets are the normalised tickets of sge_priority(5).
	NormalizedTickets float64 `json:"normalizedTickets"`
	// Usage is nil until the first report. Usage and the memory below do not include the Subtasks;
	// the text shows the sum.
	Usage  *Usage  `json:"usage,omitempty"`
	IOWait float64 `json:"ioWait,omitempty"` // seconds
	// VirtualMemory and MaxVirtualMemory are in bytes; 0 if they are not known.
	VirtualMemory    float64 `json:"virtualMemory"`
	MaxVirtualMemory float64 `json:"maxVirtualMemory"`
	// Elements are the elements of resource maps that a running task has.
	Elements []MapElements `json:"things,omitempty"`
	// GPUUsage describes what a running task has used of its GPUs, or is "".
	GPUUsage string `json:"gpuUsage,omitempty"`
	// Notice describes a request that the execution host has refused to a running task, or GPUs that the
	// task does not use, or is "".
	Notice   string    `json:"notice,omitempty"`
	Subtasks []Subtask `json:"subtasks,omitempty"`
	// PastUsage is the usage of finished subtasks.
	PastUsage []Measure `json:"pastUsage,omitempty"`
	// Binding is the topology of the host with the task's cores in lower case; "" for
	// none.
	Binding string `json:"binding,omitempty"`
	// ErrorReason is why the task is in error state.
	ErrorReason string `json:"errorReason,omitempty"`
}

// DetailOptions are options of qstat -j.
type DetailOptions struct {
	NoBinding bool // -ncb: no core binding
	Files     bool // show the files of standard output and error; only in execd
	// NoMessages says that the scheduler has no messages about any job.
	NoMessages bool
	// Zone is the time zone of dates; nil is UTC. XML has seconds since the epoch.
	Zone *time.Location
}

// detailWidth is the width of the titles of qstat -j.
const detailWidth = 28

// AppendDetails appends the output of qstat -j for jobs.
func AppendDetails(dst []byte, jobs []JobDetail, o DetailOptions) []byte {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	d := details{page: page{dst}, DetailOptions: o}
	for i := range jobs {
		d.rule('=', 62)
		d.end()
		d.submission(&jobs[i])
		d.requests(&jobs[i])
		d.relations(&jobs[i])
		d.tasks(&jobs[i])
		if reasons := jobs[i].Reasons; len(reasons) > 0 || !o.NoMessages {
			d.schedulingInfo(reasons)
		} else {
			d.schedulingInfo([]Reason{noReasons})
		}
		d.outlook(&jobs[i])
	}
	return d.text
}

// outlook appends the lines that only execd prints, after all others.
func (d *details) outlook(j *JobDetail) {
	if len(j.Withheld) > 0 {
		d.title("withheld")
		for i, field := range j.Withheld {
			if i > 0 {
				d.put(", ")
			}
			d.put(withheldTitles[field])
		}
		d.put(" (for the owner and managers)\n")
	}
	if p := j.Progress; p != nil {
		d.title("array progress")
		d.number(int64(p.Done))
		d.put(" of ")
		d.number(int64(p.Total))
		d.put(" done, ")
		d.number(int64(p.Running))
		d.put(" running")
		if p.Failed > 0 {
			d.put(", ")
			d.number(int64(p.Failed))
			d.put(" in error state")
		}
		d.end()
	}
	if e := j.LastEnding; e != nil {
		d.title("last ended")
		if p := j.Progress; p != nil {
			d.put("task ")
			d.number(int64(e.Task))
			d.put(", ")
		}
		d.time(e.Time, d.Zone)
		d.put(": ")
		d.line(e.Text)
	}
	for i, text := range j.WaitingFor {
		if i == 0 {
			d.title("waiting for")
		} else {
			d.blanks(detailWidth)
		}
		d.line(text)
	}
	d.moment("expected start", j.ExpectedStart)
	if d.Files {
		for i, f := range j.OutputFiles {
			if i == 0 {
				d.title("output files")
			} else {
				d.blanks(detailWidth)
			}
			d.line(f.text())
		}
	}
}

// OutputFile is a file for the output of a job. The home directory of the owner is written as
// ~owner, and the number of an array job's task as $TASK_ID.
type OutputFile struct {
	Path string `json:"path"`
	// Name is the name of the file in Path, if Path is a directory on the execution host. It is
	// empty if Path is certainly the file itself.
	Name string `json:"name,omitempty"`
}

// text returns the file in words.
func (f OutputFile) text() string {
	if f.Name == "" {
		return f.Path
	}
	return f.Path + ", or " + f.Name + " in it if it is a directory"
}

// details is the output of qstat -j, one line for each field.
type details struct {
	DetailOptions
	page
}

func (d *details) title(name label) {
	d.put(name)
	d.put(":")
	d.blanks(detailWidth - len(name) - 1)
}

func (d *details) field(name label, value string) {
	d.title(name)
	d.line(value)
}

// optional adds a line unless its value is empty.
func (d *details) optional(name label, value string) {
	if value != "" {
		d.field(name, value)
	}
}

func (d *details) count(name label, value int) {
	d.title(name)
	d.number(int64(value))
	d.end()
}

func (d *details) moment(name label, at int64) {
	if at != 0 {
		d.title(name)
		d.date(at, d.Zone, time.ANSIC)
		d.end()
	}
}

func (d *details) yes(name label, value bool) {
	if value {
		d.field(name, "y")
	}
}

func (d *details) items(name label, items []string) {
	if len(items) > 0 {
		d.title(name)
		d.list(items, ",")
		d.end()
	}
}

// first writes the first item only: if there are paths for several hosts, the others are not shown.
func (d *details) first(name label, items []string) {
	d.items(name, items[:min(len(items), 1)])
}

// assigned replaces missing values by NONE, and withheld values by nothing: programs split the
// words at the equals sign.
func (j *JobDetail) assigned(field string, variables []string) []string {
	value := "=NONE"
	if slices.Contains(j.Withheld, field) {
		value = "="
	}
	list := slices.Clone(variables)
	for i, v := range list {
		if !strings.Contains(v, "=") {
			list[i] += value
		}
	}
	return list
}

// given returns words, or NONE if there are none.
func given(words []string) []string {
	list := slices.Clone(words)
	for i, w := range list {
		list[i] = orNone(w)
	}
	return list
}

func (d *details) jobs(name label, ids []int) {
	if len(ids) > 0 {
		d.title(name)
		d.numbers(ids, ",")
		d.end()
	}
}

func (d *details) resources(name label, requests []Request) {
	for i, r := range requests {
		if i == 0 {
			d.title(name)
		} else {
			d.put(",")
		}
		d.request(r)
	}
	if len(requests) > 0 {
		d.end()
	}
}

// request adds NAME=VALUE.
func (p *page) request(r Request) {
	p.value(r.Name)
	p.put("=")
	p.value(r.Value)
}

// submission adds the user and the environment of the submission.
func (d *details) submission(j *JobDetail) {
	d.count("job_number", j.ID)
	d.optional("exec_file", j.ExecFile)
	d.moment("submission_time", j.Submitted)
	d.moment("deadline", j.Deadline)
	d.field("owner", j.Owner)
	d.count("uid", j.UID)
	d.field("group", j.Group)
	d.count("gid", j.GID)
	d.optional("sge_o_home", j.Home)
	d.optional("sge_o_log_name", j.LogName)
	d.optional("sge_o_path", j.Path)
	d.optional("sge_o_shell", j.Shell)
	d.optional("sge_o_tz", j.TimeZone)
	d.optional("sge_o_workdir", j.WorkDir)
	d.optional("sge_o_host", j.Host)
	d.moment("execution_time", j.ExecutionTime)
	d.field("account", j.Account)
}

// requests adds the requests of the job.
func (d *details) requests(j *JobDetail) {
	d.optional("checkpoint_object", j.Checkpoint)
	if j.CheckpointWhen != "" {
		d.field("checkpoint_attr", j.CheckpointWhen+"    ")
	}
	if j.CheckpointInterval != 0 {
		d.field("checkpoint_interval", strconv.Itoa(j.CheckpointInterval)+" seconds")
	}
	d.optional("cwd", j.Directory)
	d.optional("directive_prefix", j.DirectivePrefix)
	d.first("stderr_path_list", j.Error)
	d.yes("reserve", j.Reserve)
	d.yes("merge", j.Merge)
	d.resources("hard resource_list", j.Hard)
	d.resources("soft resource_list", j.Soft)
	d.optional("mail_options", j.MailOptions)
	if len(j.MailList) > 0 {
		d.title("mail_list")
		for i, m := range j.MailList {
			if i > 0 {
				d.put(",")
			}
			d.mail(m)
		}
		d.end()
	}
	notify := "FALSE"
	if j.Notify {
		notify = "TRUE"
	}
	d.field("notify", notify)
	d.field("job_name", j.Name)
	d.first("stdout_path_list", j.Output)
	d.first("stdin_path_list", j.Input)
	if j.POSIXPriority != 0 {
		d.count("priority", j.POSIXPriority)
	}
	d.count("jobshare", j.JobShare)
	d.items("hard_queue_list", j.HardQueues)
	d.items("soft_queue_list", j.SoftQueues)
	d.optional("restart", j.Restart)
	d.items("shell_list", j.Shells)
	d.items("env_list", j.assigned("environment", j.Environment))
	d.items("job_args", given(j.Arguments))
	d.items("master hard queue_list", j.MasterQueues)
	d.optional("script_file", j.Script)
	if j.PE != nil {
		d.put("parallel environment:  ")
		d.value(j.PE.Name)
		d.put(" range: ")
		d.ranges(j.PE.Slots, false)
		d.end()
	}
}

// relations adds the dependencies on other jobs, the type of the job and its restrictions.
func (d *details) relations(j *JobDetail) {
	d.items("jid_predecessor_list (req)", j.PredecessorsAsked)
	d.jobs("jid_predecessor_list", j.Predecessors)
	d.jobs("jid_successor_list", j.Successors)
	d.jobs("ja_ad_predecessor_list", j.ArrayPredecessors)
	d.jobs("ja_ad_successor_list", j.ArraySuccessors)
	if v := verification(j.Verification); v != 0 {
		d.count("verify_suitable_queues", v)
	}
	if j.Version != 0 {
		d.count("version", j.Version)
	}
	if j.OverrideTickets != 0 {
		d.count("oticket", j.OverrideTickets)
	}
	d.optional("project", j.Project)
	if len(j.TaskIDs) > 0 {
		d.title("job-array tasks")
		for i, r := range j.TaskIDs { // also of one task with its step
			if i > 0 {
				d.put(",")
			}
			d.number(int64(r.First))
			d.put("-")
			d.number(int64(r.Last))
			d.put(":")
			d.number(int64(r.Step))
		}
		d.end()
	}
	if j.Concurrency != 0 {
		d.count("maximum concurrency", j.Concurrency)
	}
	d.items("context", j.assigned("context", j.Context))
	if j.Reservation != 0 {
		d.count("ar_id", j.Reservation)
	}
	if !d.NoBinding {
		d.field("binding", orNone(j.Binding))
	}
	d.field("job_type", orNone(j.Type))
}

func orNone(s string) string {
	if s == "" {
		return "NONE"
	}
	return s
}

// taskTitle writes a title with the number of a task.
func (d *details) taskTitle(name label, task int) {
	const column = 15
	d.put(name)
	d.int(task, column-len(name))
	d.put(":")
	d.blanks(detailWidth - column - 1)
}

func (d *details) tasks(j *JobDetail) {
	for i := range j.Details {
		if t := &j.Details[i]; t.Running {
			u, memory, most := t.total()
			d.taskTitle("usage", t.Task)
			d.put("cpu=")
			d.cpu(u.CPU)
			d.put(", mem=")
			d.fixed(u.Memory, 0, 5)
			d.put(" GB s, io=")
			d.fixed(u.IO, 0, 5)
			d.put(" GB, vmem=")
			d.memory(memory)
			d.put(", maxvmem=")
			d.memory(most)
			d.end()
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.Running && len(t.Elements) > 0 { // ours
			d.taskTitle("resource map", t.Task)
			var list []string
			for _, element := range t.Elements {
				list = append(list, element.Name+"="+element.Host+"("+strings.Join(element.IDs, " ")+")")
			}
			d.line(strings.Join(list, ", "))
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.Running && t.GPUUsage != "" { // ours
			d.taskTitle("gpu usage", t.Task)
			d.line(t.GPUUsage)
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.Running && t.Notice != "" { // ours
			d.taskTitle("notice", t.Task)
			d.line(t.Notice)
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.Running && !d.NoBinding {
			d.taskTitle("binding", t.Task)
			d.line(orNone(t.Binding))
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.ErrorReason != "" {
			d.put("error reason")
			d.int(t.Task, 11)
			d.put(":      ")
			d.line(t.ErrorReason)
		}
	}
}

// total returns the usage of a task with its subtasks, and their current and maximum virtual memory
// in bytes.
func (t *TaskDetail) total() (u Usage, memory, most float64) {
	past := Usage{CPU: amount(t.PastUsage, "cpu"), Memory: amount(t.PastUsage, "mem"), IO: amount(t.PastUsage, "io")}
	sum := past.add(t.Usage)
	memory, most = t.VirtualMemory, t.MaxVirtualMemory+amount(t.PastUsage, "maxvmem")
	for i := range t.Subtasks {
		s := &t.Subtasks[i]
		sum = sum.add(s.Usage)
		memory, most = memory+s.VirtualMemory, most+s.MaxVirtualMemory
	}
	return *sum, memory, most
}

// cpu adds seconds as hours:minutes:seconds, with days in front where there are any.
func (p *page) cpu(seconds float64) {
	whole := int64(seconds)
	if days := whole / (24 * 60 * 60); days > 0 {
		p.number(days)
		p.put(":")
	}
	p.duration(whole % (24 * 60 * 60))
}

// memory adds bytes with three decimals and the largest letter that leaves at least 1.
func (p *page) memory(bytes float64) {
	if bytes == 0 {
		p.put("N/A")
		return
	}
	v, letter := scaled(bytes)
	p.fixed(v, 0, 3)
	p.value(letter)
}
