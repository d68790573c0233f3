package qstat

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// JobDetail is what qstat -j shows of a job beyond what Job has. Of Job, the tasks, the
// urgency and the normalised priorities are not shown.
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
	// ExecutionTime is that of -a, in seconds since the epoch; 0 for none.
	ExecutionTime int64  `json:"executionTime,omitempty"`
	Account       string `json:"account"`
	// CheckpointWhen are letters of -c, CheckpointInterval is its interval in seconds.
	CheckpointWhen     string `json:"checkpointWhen,omitempty"`
	CheckpointInterval int    `json:"checkpointInterval,omitempty"`
	Directory          string `json:"directory,omitempty"`       // -cwd, -wd
	DirectivePrefix    string `json:"directivePrefix,omitempty"` // -C
	// Verification is how the request was to be verified, the letter of -w: e or w; "" if
	// it was not.
	Verification string `json:"verification,omitempty"`
	// Output, Error and Input are those of -o, -e and -i, each as name:host:path.
	Output []string `json:"output,omitempty"`
	Error  []string `json:"error,omitempty"`
	Input  []string `json:"input,omitempty"`

	Reserve     bool   `json:"reserve"`               // -R y
	Merge       bool   `json:"merge"`                 // -j y
	Notify      bool   `json:"notify"`                // -notify
	Restart     string `json:"restart,omitempty"`     // -r: y or n; "" if it was not said
	MailOptions string `json:"mailOptions,omitempty"` // letters of -m, as abe
	MailList    []Mail `json:"mailList,omitempty"`
	// Shells are those of -S, each as host:path.
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
	// Reasons say why the job could not be started, in the order of their discovery, those
	// that all jobs share first.
	Reasons []Reason `json:"reasons,omitempty"`

	// Withheld names the fields above of which the values, or all of them, were left out because
	// they are for the owner and for managers: see Withhold.
	Withheld []string `json:"withheld,omitempty"`

	// What follows is ours, and in none of the original's formats: what the job waits for in
	// plain words, from when on it may start as far as that is known, in seconds since the
	// epoch, how far an array has come, and why a task of it has ended.
	WaitingFor    []string  `json:"waitingFor,omitempty"`
	ExpectedStart int64     `json:"expectedStart,omitempty"`
	Progress      *Progress `json:"progress,omitempty"`
	LastEnding    *Ending   `json:"lastEnding,omitempty"`
}

// Ending is the end of a task, or of an attempt of it, that was explained: a limit that was
// exceeded, a failure, a signal.
type Ending struct {
	Time int64  `json:"time"` // seconds since the epoch
	Task int    `json:"task"` // 1 for a job that is no array
	Text string `json:"text"`
}

// Progress is how far an array job has come, in tasks. Those that are neither done nor
// running wait; Failed are those of them that are in error state. Tasks that were deleted
// are done.
type Progress struct {
	Total   int `json:"total"`
	Done    int `json:"done"`
	Running int `json:"running"`
	Failed  int `json:"failed,omitempty"`
}

// TaskDetail is what qstat -j shows of a task that has been started.
type TaskDetail struct {
	Task int `json:"task"` // 1 for a job that is no array
	// Running says that usage and binding are shown. Transferring says of such a task that
	// the execution host has not confirmed its start.
	Running      bool  `json:"running"`
	Transferring bool  `json:"transferring,omitempty"`
	Started      int64 `json:"started,omitempty"` // seconds since the epoch
	// NormalizedTickets are those of sge_priority(5).
	NormalizedTickets float64 `json:"normalizedTickets"`
	// Usage is nil until a report of it has come. It is without that of the Subtasks, and
	// the memory below as well; text shows the sum.
	Usage  *Usage  `json:"usage,omitempty"`
	IOWait float64 `json:"ioWait,omitempty"` // seconds
	// VirtualMemory and MaxVirtualMemory are in bytes; 0 if they are not known.
	VirtualMemory    float64   `json:"virtualMemory"`
	MaxVirtualMemory float64   `json:"maxVirtualMemory"`
	Subtasks         []Subtask `json:"subtasks,omitempty"`
	// PastUsage is that of subtasks that have ended.
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
	// Zone is the time zone of dates; nil is UTC. XML has seconds since the epoch.
	Zone *time.Location
}

// detailWidth is the width of the titles of qstat -j.
const detailWidth = 28

// AppendDetails appends what qstat -j prints of jobs.
func AppendDetails(dst []byte, jobs []JobDetail, o DetailOptions) []byte {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	for i := range jobs {
		dst = append(appendRepeated(dst, '=', 62), '\n')
		d := details{dst: dst, DetailOptions: o}
		d.submission(&jobs[i])
		d.requests(&jobs[i])
		d.relations(&jobs[i])
		d.tasks(&jobs[i])
		d.dst = AppendSchedulingInfo(d.dst, jobs[i].Reasons)
		d.outlook(&jobs[i])
		dst = d.dst
	}
	return dst
}

// outlook appends what is ours, behind all else.
func (d *details) outlook(j *JobDetail) {
	if len(j.Withheld) > 0 {
		d.title("withheld")
		for i, field := range j.Withheld {
			if i > 0 {
				d.dst = append(d.dst, ", "...)
			}
			d.dst = append(d.dst, withheldTitles[field]...)
		}
		d.dst = append(d.dst, " (for the owner and managers)\n"...)
	}
	if p := j.Progress; p != nil {
		d.title("array progress")
		d.dst = append(strconv.AppendInt(d.dst, int64(p.Done), 10), " of "...)
		d.dst = append(strconv.AppendInt(d.dst, int64(p.Total), 10), " done, "...)
		d.dst = append(strconv.AppendInt(d.dst, int64(p.Running), 10), " running"...)
		if p.Failed > 0 {
			d.dst = append(strconv.AppendInt(append(d.dst, ", "...), int64(p.Failed), 10), " in error state"...)
		}
		d.dst = append(d.dst, '\n')
	}
	if e := j.LastEnding; e != nil {
		d.title("last ended")
		if p := j.Progress; p != nil {
			d.dst = append(strconv.AppendInt(append(d.dst, "task "...), int64(e.Task), 10), ", "...)
		}
		d.dst = time.Unix(e.Time, 0).In(d.Zone).AppendFormat(d.dst, "01/02/2006 15:04:05")
		d.dst = append(append(append(d.dst, ": "...), e.Text...), '\n')
	}
	for i, text := range j.WaitingFor {
		if i == 0 {
			d.title("waiting for")
		} else {
			d.dst = appendBlanks(d.dst, detailWidth)
		}
		d.dst = append(append(d.dst, text...), '\n')
	}
	d.time("expected start", j.ExpectedStart)
}

// details appends lines of qstat -j.
type details struct {
	DetailOptions
	dst []byte
}

func (d *details) title(name string) {
	d.dst = append(append(d.dst, name...), ':')
	d.dst = appendBlanks(d.dst, detailWidth-len(name)-1)
}

func (d *details) text(name, value string) {
	d.title(name)
	d.dst = append(append(d.dst, value...), '\n')
}

// optional is a line that is there only if there is something in it.
func (d *details) optional(name, value string) {
	if value != "" {
		d.text(name, value)
	}
}

func (d *details) int(name string, value int) {
	d.title(name)
	d.dst = append(strconv.AppendInt(d.dst, int64(value), 10), '\n')
}

func (d *details) time(name string, at int64) {
	if at != 0 {
		d.title(name)
		d.dst = append(time.Unix(at, 0).In(d.Zone).AppendFormat(d.dst, time.ANSIC), '\n')
	}
}

func (d *details) yes(name string, value bool) {
	if value {
		d.text(name, "y")
	}
}

func (d *details) list(name string, items []string) {
	if len(items) > 0 {
		d.title(name)
		d.dst = append(appendList(d.dst, items, ","), '\n')
	}
}

// first is the first item: of paths for several hosts the others are not shown.
func (d *details) first(name string, items []string) {
	d.list(name, items[:min(len(items), 1)])
}

// assigned has NONE where nothing is assigned, and nothing where values are withheld: programs
// split the words at the equals sign.
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

// given has NONE where nothing is given.
func given(words []string) []string {
	list := slices.Clone(words)
	for i, w := range list {
		list[i] = orNone(w)
	}
	return list
}

func (d *details) numbers(name string, items []int) {
	if len(items) > 0 {
		d.title(name)
		d.dst = append(appendNumbers(d.dst, items, ","), '\n')
	}
}

func (d *details) resources(name string, requests []Request) {
	for i, r := range requests {
		if i == 0 {
			d.title(name)
		} else {
			d.dst = append(d.dst, ',')
		}
		d.dst = append(append(append(d.dst, r.Name...), '='), r.Value...)
	}
	if len(requests) > 0 {
		d.dst = append(d.dst, '\n')
	}
}

// submission appends who submitted the job where.
func (d *details) submission(j *JobDetail) {
	d.int("job_number", j.ID)
	d.optional("exec_file", j.ExecFile)
	d.time("submission_time", j.Submitted)
	d.time("deadline", j.Deadline)
	d.text("owner", j.Owner)
	d.int("uid", j.UID)
	d.text("group", j.Group)
	d.int("gid", j.GID)
	d.optional("sge_o_home", j.Home)
	d.optional("sge_o_log_name", j.LogName)
	d.optional("sge_o_path", j.Path)
	d.optional("sge_o_shell", j.Shell)
	d.optional("sge_o_tz", j.TimeZone)
	d.optional("sge_o_workdir", j.WorkDir)
	d.optional("sge_o_host", j.Host)
	d.time("execution_time", j.ExecutionTime)
	d.text("account", j.Account)
}

// requests appends what was asked for.
func (d *details) requests(j *JobDetail) {
	d.optional("checkpoint_object", j.Checkpoint)
	if j.CheckpointWhen != "" {
		d.text("checkpoint_attr", j.CheckpointWhen+"    ")
	}
	if j.CheckpointInterval != 0 {
		d.text("checkpoint_interval", strconv.Itoa(j.CheckpointInterval)+" seconds")
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
				d.dst = append(d.dst, ',')
			}
			d.dst = m.append(d.dst)
		}
		d.dst = append(d.dst, '\n')
	}
	notify := "FALSE"
	if j.Notify {
		notify = "TRUE"
	}
	d.text("notify", notify)
	d.text("job_name", j.Name)
	d.first("stdout_path_list", j.Output)
	d.first("stdin_path_list", j.Input)
	if j.POSIXPriority != 0 {
		d.int("priority", j.POSIXPriority)
	}
	d.int("jobshare", j.JobShare)
	d.list("hard_queue_list", j.HardQueues)
	d.list("soft_queue_list", j.SoftQueues)
	d.optional("restart", j.Restart)
	d.list("shell_list", j.Shells)
	d.list("env_list", j.assigned("environment", j.Environment))
	d.list("job_args", given(j.Arguments))
	d.list("master hard queue_list", j.MasterQueues)
	d.optional("script_file", j.Script)
	if j.PE != nil {
		d.dst = append(append(append(d.dst, "parallel environment:  "...), j.PE.Name...), " range: "...)
		d.dst = append(appendRanges(d.dst, j.PE.Slots, false), '\n')
	}
}

// relations appends what the job has to do with others, and what it is.
func (d *details) relations(j *JobDetail) {
	d.list("jid_predecessor_list (req)", j.PredecessorsAsked)
	d.numbers("jid_predecessor_list", j.Predecessors)
	d.numbers("jid_successor_list", j.Successors)
	d.numbers("ja_ad_predecessor_list", j.ArrayPredecessors)
	d.numbers("ja_ad_successor_list", j.ArraySuccessors)
	if v := verification(j.Verification); v != 0 {
		d.int("verify_suitable_queues", v)
	}
	if j.Version != 0 {
		d.int("version", j.Version)
	}
	if j.OverrideTickets != 0 {
		d.int("oticket", j.OverrideTickets)
	}
	d.optional("project", j.Project)
	if len(j.TaskIDs) > 0 {
		d.title("job-array tasks")
		for i, r := range j.TaskIDs { // also of one task with its step
			if i > 0 {
				d.dst = append(d.dst, ',')
			}
			d.dst = append(strconv.AppendInt(d.dst, int64(r.First), 10), '-')
			d.dst = append(strconv.AppendInt(d.dst, int64(r.Last), 10), ':')
			d.dst = strconv.AppendInt(d.dst, int64(r.Step), 10)
		}
		d.dst = append(d.dst, '\n')
	}
	if j.Concurrency != 0 {
		d.int("maximum concurrency", j.Concurrency)
	}
	d.list("context", j.assigned("context", j.Context))
	if j.Reservation != 0 {
		d.int("ar_id", j.Reservation)
	}
	if !d.NoBinding {
		d.text("binding", orNone(j.Binding))
	}
	d.text("job_type", orNone(j.Type))
}

func orNone(s string) string {
	if s == "" {
		return "NONE"
	}
	return s
}

// taskTitle is a title with the number of a task.
func (d *details) taskTitle(name string, task int) {
	const column = 15
	d.dst = appendInt(append(d.dst, name...), task, column-len(name))
	d.dst = append(d.dst, ':')
	d.dst = appendBlanks(d.dst, detailWidth-column-1)
}

func (d *details) tasks(j *JobDetail) {
	for i := range j.Details {
		if t := &j.Details[i]; t.Running {
			u, memory, most := t.total()
			d.taskTitle("usage", t.Task)
			d.dst = appendCPU(append(d.dst, "cpu="...), u.CPU)
			d.dst = appendFixed(append(d.dst, ", mem="...), u.Memory, 0, 5)
			d.dst = appendFixed(append(d.dst, " GB s, io="...), u.IO, 0, 5)
			d.dst = appendMemory(append(d.dst, " GB, vmem="...), memory)
			d.dst = append(appendMemory(append(d.dst, ", maxvmem="...), most), '\n')
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.Running && !d.NoBinding {
			d.taskTitle("binding", t.Task)
			d.dst = append(append(d.dst, orNone(t.Binding)...), '\n')
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.ErrorReason != "" {
			d.dst = append(appendInt(append(d.dst, "error reason"...), t.Task, 11), ":      "...)
			d.dst = append(append(d.dst, t.ErrorReason...), '\n')
		}
	}
}

// total is what a task has used with its subtasks, and their virtual memory.
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

// appendCPU prints seconds as hours:minutes:seconds, with days in front where there are
// any.
func appendCPU(dst []byte, seconds float64) []byte {
	whole := int64(seconds)
	if days := whole / (24 * 60 * 60); days > 0 {
		dst = append(strconv.AppendInt(dst, days, 10), ':')
	}
	return appendDuration(dst, whole%(24*60*60))
}

// appendMemory prints bytes with three decimals and the largest letter that leaves at
// least 1.
func appendMemory(dst []byte, bytes float64) []byte {
	if bytes == 0 {
		return append(dst, "N/A"...)
	}
	v, letter := scaled(bytes)
	return append(appendFixed(dst, v, 0, 3), letter...)
}
