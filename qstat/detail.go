package qstat

import (
	"strconv"
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
	// Where the job was submitted: sge_o_home, sge_o_path, sge_o_shell, sge_o_workdir
	// and sge_o_host.
	Home    string `json:"home,omitempty"`
	Path    string `json:"path,omitempty"`
	Shell   string `json:"shell,omitempty"`
	WorkDir string `json:"workDir,omitempty"`
	Host    string `json:"host,omitempty"`
	// ExecutionTime is that of -a, in seconds since the epoch; 0 for none.
	ExecutionTime int64  `json:"executionTime,omitempty"`
	Account       string `json:"account"`
	// CheckpointWhen are letters of -c.
	CheckpointWhen string `json:"checkpointWhen,omitempty"`
	Directory      string `json:"directory,omitempty"` // -cwd, -wd
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
	Environment []string `json:"environment,omitempty"` // -v: NAME=value
	Arguments   []string `json:"arguments,omitempty"`
	Script      string   `json:"script,omitempty"`
	// Successors are jobs that wait for this one.
	Successors      []int `json:"successors,omitempty"`
	ArraySuccessors []int `json:"arraySuccessors,omitempty"`
	// Version counts the alterations.
	Version     int      `json:"version,omitempty"`
	TaskIDs     []Range  `json:"taskIDs,omitempty"`     // -t
	Concurrency int      `json:"concurrency,omitempty"` // -tc
	Context     []string `json:"context,omitempty"`     // -ac: NAME=value
	// Type is the kind of the job, e.g. binary; "" is shown as NONE.
	Type    string       `json:"type,omitempty"`
	Details []TaskDetail `json:"details,omitempty"`
	// Reasons say why the job could not be started, in the order of their discovery.
	Reasons []string `json:"reasons,omitempty"`
}

// TaskDetail is what qstat -j shows of a task that has been started.
type TaskDetail struct {
	Task int `json:"task"` // 1 for a job that is no array
	// Running says that usage and binding are shown.
	Running bool  `json:"running"`
	Usage   Usage `json:"usage"`
	// VirtualMemory and MaxVirtualMemory are in bytes; 0 if they are not known.
	VirtualMemory    float64 `json:"virtualMemory"`
	MaxVirtualMemory float64 `json:"maxVirtualMemory"`
	// Binding is the topology of the host with the task's cores in lower case; "" for
	// none.
	Binding string `json:"binding,omitempty"`
	// ErrorReason is why the task is in error state.
	ErrorReason string `json:"errorReason,omitempty"`
}

// detailWidth is the width of the titles of qstat -j.
const detailWidth = 28

// AppendDetails appends what qstat -j prints of jobs.
func AppendDetails(dst []byte, jobs []JobDetail, zone *time.Location) []byte {
	if zone == nil {
		zone = time.UTC
	}
	for i := range jobs {
		dst = append(appendRepeated(dst, '=', 62), '\n')
		d := details{dst: dst, zone: zone}
		d.submission(&jobs[i])
		d.requests(&jobs[i])
		d.relations(&jobs[i])
		d.tasks(&jobs[i])
		dst = AppendSchedulingInfo(d.dst, jobs[i].Reasons)
	}
	return dst
}

// details appends lines of qstat -j.
type details struct {
	dst  []byte
	zone *time.Location
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
		d.dst = append(time.Unix(at, 0).In(d.zone).AppendFormat(d.dst, time.ANSIC), '\n')
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
	d.optional("sge_o_path", j.Path)
	d.optional("sge_o_shell", j.Shell)
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
	d.optional("cwd", j.Directory)
	d.list("stderr_path_list", j.Error)
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
	d.list("stdout_path_list", j.Output)
	d.list("stdin_path_list", j.Input)
	if j.POSIXPriority != 0 {
		d.int("priority", j.POSIXPriority)
	}
	d.int("jobshare", j.JobShare)
	d.list("hard_queue_list", j.HardQueues)
	d.list("soft_queue_list", j.SoftQueues)
	d.optional("restart", j.Restart)
	d.list("shell_list", j.Shells)
	d.list("env_list", j.Environment)
	d.list("job_args", j.Arguments)
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
	if j.Version != 0 {
		d.int("version", j.Version)
	}
	if j.OverrideTickets != 0 {
		d.int("oticket", j.OverrideTickets)
	}
	d.optional("project", j.Project)
	if len(j.TaskIDs) > 0 {
		d.title("job-array tasks")
		d.dst = append(appendRanges(d.dst, j.TaskIDs, true), '\n')
	}
	if j.Concurrency != 0 {
		d.int("maximum concurrency", j.Concurrency)
	}
	d.list("context", j.Context)
	d.text("binding", orNone(j.Binding))
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
			d.taskTitle("usage", t.Task)
			d.dst = appendCPU(append(d.dst, "cpu="...), t.Usage.CPU)
			d.dst = appendFixed(append(d.dst, ", mem="...), t.Usage.Memory, 0, 5)
			d.dst = appendFixed(append(d.dst, " GB s, io="...), t.Usage.IO, 0, 5)
			d.dst = appendMemory(append(d.dst, " GB, vmem="...), t.VirtualMemory)
			d.dst = append(appendMemory(append(d.dst, ", maxvmem="...), t.MaxVirtualMemory), '\n')
		}
	}
	for i := range j.Details {
		if t := &j.Details[i]; t.Running {
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
