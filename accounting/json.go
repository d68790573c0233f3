package accounting

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/job"
)

// jsonRecord is a line of accounting.jsonl in the format of Open Cluster Scheduler 9. Optional
// fields come last, followed by the fields that only this project writes.
type jsonRecord struct {
	// Type is the kind of a line of reporting.jsonl; empty in accounting.jsonl.
	Type        string    `json:"type,omitempty"`
	Job         int       `json:"job_number"`
	Task        int       `json:"task_number"`
	Start       int64     `json:"start_time"` // microseconds since 1970
	End         int64     `json:"end_time"`
	Owner       string    `json:"owner"`
	Group       string    `json:"group"`
	Account     string    `json:"account"`
	Queue       string    `json:"qname"`
	Host        string    `json:"hostname"`
	Department  string    `json:"department"`
	Slots       int       `json:"slots"`
	JobName     string    `json:"job_name"`
	Priority    int       `json:"priority"`
	Submitted   int64     `json:"submission_time"`
	CommandLine string    `json:"submit_cmd_line"`
	Category    string    `json:"category"`
	Failed      int       `json:"failed"`
	ExitStatus  int       `json:"exit_status"`
	Usage       jsonUsage `json:"usage"`

	Project              string `json:"project,omitempty"`
	PE                   string `json:"granted_pe,omitempty"`
	PETask               string `json:"pe_taskid,omitempty"`
	Reservation          int    `json:"arid,omitempty"`
	ReservationSubmitted int64  `json:"ar_submission_time,omitempty"`
	DeletedBy            string `json:"deleted_by,omitempty"`

	FailedText string     `json:"failed_text,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Notice     string     `json:"notice,omitempty"`
	Signal     int        `json:"signal,omitempty"`
	CoreDumped bool       `json:"core_dumped,omitempty"`
	Limit      *jsonLimit `json:"limit,omitempty"`
	Stdout     string     `json:"stdout_path,omitempty"`
	Stderr     string     `json:"stderr_path,omitempty"`
}

type jsonUsage struct {
	Rusage jsonRusage   `json:"rusage"`
	Usage  jsonMeasured `json:"usage"`
	// Measured is the name that Open Cluster Scheduler gives to Usage. It is only read.
	Measured *jsonMeasured `json:"eusage,omitempty"`
}

type jsonRusage struct {
	Wallclock     float64 `json:"ru_wallclock"`
	UserTime      float64 `json:"ru_utime"`
	SystemTime    float64 `json:"ru_stime"`
	MaxRSS        float64 `json:"ru_maxrss"` // KiB
	IxRSS         int64   `json:"ru_ixrss"`
	IsmRSS        int64   `json:"ru_ismrss"`
	IdRSS         int64   `json:"ru_idrss"`
	IsRSS         int64   `json:"ru_isrss"`
	MinorFaults   int64   `json:"ru_minflt"`
	MajorFaults   int64   `json:"ru_majflt"`
	Swaps         int64   `json:"ru_nswap"`
	BlocksIn      int64   `json:"ru_inblock"`
	BlocksOut     int64   `json:"ru_oublock"`
	MessagesSent  int64   `json:"ru_msgsnd"`
	MessagesRecvd int64   `json:"ru_msgrcv"`
	Signals       int64   `json:"ru_nsignals"`
	VoluntaryCS   int64   `json:"ru_nvcsw"`
	InvoluntaryCS int64   `json:"ru_nivcsw"`
}

// jsonMeasured is the usage of the whole job. The usage of getrusage(2) covers only child processes
// that their parent waited for.
type jsonMeasured struct {
	Wallclock float64 `json:"wallclock"`
	CPU       float64 `json:"cpu"`
	Mem       float64 `json:"mem"`
	IO        float64 `json:"io"`
	IOOps     float64 `json:"ioops,omitempty"`
	IOWait    float64 `json:"iow"`
	MaxVmem   float64 `json:"maxvmem"` // bytes
	MaxRSS    float64 `json:"maxrss"`  // bytes

	// The following are 0 for jobs without GPUs: see job.GPUUsage.
	GPUs        int     `json:"gpus,omitempty"`
	GPUSeconds  float64 `json:"gpu_seconds,omitempty"`
	GPUMeasured float64 `json:"gpu_measured,omitempty"`
	GPUBusy     float64 `json:"gpu_busy,omitempty"`
	GPUMaxMem   float64 `json:"gpu_maxmem,omitempty"` // bytes
}

type jsonLimit struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Measured float64 `json:"measured"`
}

// AppendJSON appends the line of a record in JSON, with its newline.
func AppendJSON(b []byte, r *Record) []byte {
	u := &r.Usage
	x := jsonRecord{
		Job: r.Job, Task: r.Task, Start: microseconds(r.Start), End: microseconds(r.End),
		Owner: r.Owner, Group: r.Group, Account: r.Account, Queue: r.Queue, Host: r.Host, Department: r.Department,
		Slots: r.Slots, JobName: r.JobName, Priority: r.Priority, Submitted: microseconds(r.Submitted),
		CommandLine: r.CommandLine, Category: r.Category, Failed: int(r.Failed), ExitStatus: r.ExitStatus,
		Usage: jsonUsage{
			Rusage: jsonRusage{
				Wallclock: r.Wallclock(), UserTime: finite(u.UserTime), SystemTime: finite(u.SystemTime), MaxRSS: float64(u.MaxRSS) / kibi,
				IxRSS: u.IxRSS, IsmRSS: r.IsmRSS, IdRSS: u.IdRSS, IsRSS: u.IsRSS, MinorFaults: u.MinorFaults, MajorFaults: u.MajorFaults,
				Swaps: u.Swaps, BlocksIn: u.BlocksIn, BlocksOut: u.BlocksOut, MessagesSent: u.MessagesSent, MessagesRecvd: u.MessagesRecvd,
				Signals: u.Signals, VoluntaryCS: u.VoluntaryCS, InvoluntaryCS: u.InvoluntaryCS,
			},
			Usage: jsonMeasured{
				Wallclock: finite(u.Wallclock), CPU: finite(u.CPU), Mem: finite(u.Mem), IO: finite(u.IO), IOOps: float64(u.IOOps), IOWait: finite(u.IOWait),
				MaxVmem: float64(u.MaxVmem), MaxRSS: float64(cmp.Or(u.PeakRSS, u.MaxRSS)),
				GPUs: u.GPU.Count, GPUSeconds: finite(u.GPU.Seconds), GPUMeasured: finite(u.GPU.Measured), GPUBusy: finite(u.GPU.Busy),
				GPUMaxMem: float64(u.GPU.MaxMemory),
			},
		},
		Project: r.Project, PE: r.PE, PETask: r.PETask, Reservation: r.Reservation, ReservationSubmitted: microseconds(r.ReservationSubmitted),
		DeletedBy: r.DeletedBy, FailedText: r.FailedText, Reason: r.Reason, Notice: r.Notice, Signal: r.Signal, CoreDumped: r.CoreDumped,
		Stdout: r.Stdout, Stderr: r.Stderr,
	}
	if l := r.Limit; l != nil {
		x.Limit = &jsonLimit{l.Name, finite(l.Value), finite(l.Measured)}
	}
	// Marshal cannot fail here: the record contains no maps, and all its numbers are finite.
	line, _ := json.Marshal(&x)
	return append(printable.AppendJSON(b, line), '\n')
}

// recordType is the type of the lines of reporting.jsonl that are accounting records.
const recordType = "acct"

// ParseJSON reads a line of accounting.jsonl, of this project or of Open Cluster Scheduler 9, or an
// accounting record of reporting.jsonl. It skips unknown fields. The error is ErrNoRecord for the
// other lines of reporting.jsonl.
func ParseJSON(line []byte) (*Record, error) {
	var x jsonRecord
	if err := json.Unmarshal(line, &x); err != nil {
		return nil, fmt.Errorf("cannot read the accounting record %.80q: %w", line, err)
	}
	if x.Type != "" && x.Type != recordType {
		return nil, ErrNoRecord
	}
	u := &x.Usage.Rusage
	m := &x.Usage.Usage
	if x.Usage.Measured != nil {
		m = x.Usage.Measured
	}
	r := &Record{
		Queue: x.Queue, Host: x.Host, Group: x.Group, Owner: x.Owner, JobName: x.JobName, Job: x.Job, Task: x.Task, PETask: x.PETask,
		Account: x.Account, Priority: x.Priority, Submitted: fromMicroseconds(x.Submitted), Start: fromMicroseconds(x.Start), End: fromMicroseconds(x.End),
		Failed: job.Failed(x.Failed), ExitStatus: x.ExitStatus, IsmRSS: u.IsmRSS,
		Usage: job.Usage{
			Wallclock: m.Wallclock, UserTime: u.UserTime, SystemTime: u.SystemTime, MaxRSS: maxRSS(u.MaxRSS), PeakRSS: int64(clamp(m.MaxRSS)),
			IxRSS: u.IxRSS, IdRSS: u.IdRSS, IsRSS: u.IsRSS, MinorFaults: u.MinorFaults, MajorFaults: u.MajorFaults,
			Swaps: u.Swaps, BlocksIn: u.BlocksIn, BlocksOut: u.BlocksOut, MessagesSent: u.MessagesSent, MessagesRecvd: u.MessagesRecvd,
			Signals: u.Signals, VoluntaryCS: u.VoluntaryCS, InvoluntaryCS: u.InvoluntaryCS,
			CPU: m.CPU, Mem: m.Mem, IO: m.IO, IOOps: int64(clamp(m.IOOps)), IOWait: m.IOWait, MaxVmem: int64(clamp(m.MaxVmem)),
			GPU: job.GPUUsage{Count: m.GPUs, Seconds: m.GPUSeconds, Measured: m.GPUMeasured, Busy: m.GPUBusy, MaxMemory: int64(clamp(m.GPUMaxMem))},
		},
		Project: x.Project, Department: x.Department, PE: x.PE, Slots: x.Slots, Category: x.Category,
		Reservation: x.Reservation, ReservationSubmitted: fromMicroseconds(x.ReservationSubmitted),
		CommandLine: x.CommandLine, DeletedBy: x.DeletedBy, FailedText: x.FailedText, Reason: x.Reason, Notice: x.Notice, Signal: x.Signal, CoreDumped: x.CoreDumped,
		Stdout: x.Stdout, Stderr: x.Stderr,
	}
	for _, name := range []*string{&r.Project, &r.PE, &r.PETask} {
		if *name == none {
			*name = ""
		}
	}
	if *m == (jsonMeasured{}) { // from a program that records only the resource usage
		r.Usage.Wallclock = u.Wallclock
	}
	if r.Usage.PeakRSS == r.Usage.MaxRSS {
		r.Usage.PeakRSS = 0
	}
	if l := x.Limit; l != nil {
		r.Limit = &job.LimitExceeded{Name: l.Name, Value: l.Value, Measured: l.Measured}
	}
	return r, nil
}

// maxRSS converts KiB to bytes.
func maxRSS(k float64) int64 { return int64(clamp(k * kibi)) }

// clamp limits a number of bytes to a range that an int64 can hold.
func clamp(f float64) float64 { return max(-1<<62, min(f, 1<<62)) }

func fromMicroseconds(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
