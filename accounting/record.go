package accounting

import (
	"cmp"
	"time"

	"github.com/execd-project/execd/job"
)

// Record is the accounting record of one run of a job, of a task of an array job, or of a task of a
// parallel job. A job that runs again has a record for each run. The comments give the field names
// of accounting(5).
type Record struct {
	Queue   string // qname, without a host
	Host    string // hostname
	Group   string // of the owner on the execution host
	Owner   string
	JobName string // job_name
	Job     int    // job_number
	Task    int    // task_number; 0 when the job is not an array job
	PETask  string // pe_taskid; empty for the job itself
	Account string // -A

	// Priority is the nice value of the queue, not -p.
	Priority int
	// Submitted, Start and End are zero if the event never happened. Classic lines store seconds,
	// JSON stores microseconds.
	Submitted, Start, End time.Time

	Failed     job.Failed
	ExitStatus int
	Usage      job.Usage // in its own units: ru_maxrss is in bytes
	IsmRSS     int64     // ru_ismrss, which Linux does not measure

	Project    string // empty if the line has NONE
	Department string
	PE         string // granted_pe; empty if the line has NONE
	Slots      int    // of the job on all hosts
	Category   string // see Category

	Reservation          int       // arid; 0 for none
	ReservationSubmitted time.Time // ar_submission_time

	// The following fields are written in JSON only.

	CommandLine string // submit_cmd_line: the command line of the submission; empty if unknown
	// DeletedBy (deleted_by) is "user@host" of the user who deleted the job, or the daemon that ended
	// it for exceeding a limit, as masters of Open Cluster Scheduler 9.1 record it; empty if unknown.
	DeletedBy  string
	FailedText string // failed_text: the meaning of Failed, or the first line of the error file
	Reason     string // one sentence for people; empty after a normal exit
	Notice     string // see job.Outcome
	Signal     int    // that terminated the job, 0 for none
	CoreDumped bool
	Limit      *job.LimitExceeded // that terminated the job
	// Stdout and Stderr (stdout_path, stderr_path) are the files of a batch job on its host, or
	// directories with a file of job.ID.OutputName. Stderr is empty if both streams go to Stdout.
	Stdout, Stderr string
}

// Facts holds the values of a record that neither the job's description nor its outcome contains.
type Facts struct {
	Group, Department    string
	Category             string // see Category
	PE                   string // of a job without a description, as on the host of a slave task
	Slots                int    // of the job on all hosts; 0 takes those of the description
	Reservation          int
	ReservationSubmitted time.Time
	CommandLine          string
}

// FromOutcome returns the record of a finished job. The record of a job that was never started has
// neither times nor usage, as in the original.
func FromOutcome(d *job.Description, o *job.Outcome, f Facts) *Record {
	r := &Record{
		Queue: d.Queue, Host: d.Host, Group: f.Group, Owner: d.Owner, JobName: d.Name,
		Job: d.ID.Job, Task: d.ID.Task, PETask: d.ID.PETask, Account: d.Account, Priority: d.Nice,
		Submitted: d.SubmissionTime, Failed: o.Failed,
		Project: d.Project, Department: f.Department, PE: f.PE, Slots: f.Slots, Category: f.Category,
		Reservation: f.Reservation, ReservationSubmitted: f.ReservationSubmitted, CommandLine: f.CommandLine,
		FailedText: o.FailedText, Reason: o.Reason, Notice: o.Notice, Limit: o.Limit,
	}
	if d.PE != nil {
		r.PE = d.PE.Name
		if r.Slots == 0 {
			r.Slots = d.PE.Slots
		}
	}
	if r.Slots == 0 {
		r.Slots = max(d.HostSlots, 1)
	}
	if d.Terminal == nil && !d.Streams[1].Inherit && d.ID.PETask == "" {
		r.Stdout = cmp.Or(d.Streams[1].Path, d.Cwd)
		if !d.MergeError {
			r.Stderr = cmp.Or(d.Streams[2].Path, d.Cwd)
		}
	}
	if o.Ran {
		r.Start, r.End, r.ExitStatus, r.Usage = o.Start, o.End, o.ExitStatus, o.Usage
		r.Signal, r.CoreDumped = o.Signal, o.CoreDumped
	}
	return r
}

// Wallclock returns ru_wallclock in seconds: the end minus the start, both in whole seconds, as the
// original computes it (tested), unless the usage contains another value.
func (r *Record) Wallclock() float64 {
	between := float64(seconds(r.End) - seconds(r.Start))
	if d := finite(r.Usage.Wallclock) - between; d <= -1 || d >= 1 {
		return finite(r.Usage.Wallclock)
	}
	return between
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func microseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// finite replaces infinities and NaN, which a record cannot contain.
func finite(f float64) float64 {
	if f-f != 0 {
		return 0
	}
	return f
}
