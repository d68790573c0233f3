package run

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/job"
)

// record is the outcome of a job in the format of --json: times in seconds, sizes in bytes.
type record struct {
	JobID      int          `json:"job_id"`
	TaskID     int          `json:"task_id"` // 0 for a job that is not an array job
	Failed     int          `json:"failed"`
	FailedText string       `json:"failed_text"`
	Class      string       `json:"class"`
	ExitStatus int          `json:"exit_status"`
	Signal     int          `json:"signal"`
	Reason     string       `json:"reason"`
	Notice     string       `json:"notice,omitempty"` // see job.Outcome
	Limit      *limitRecord `json:"limit"`
	Wallclock  float64      `json:"wallclock"`
	Usage      usageRecord  `json:"usage"`
	JobDir     string       `json:"job_dir"` // empty if it was removed
	Notes      []string     `json:"notes"`   // guarantees that are not fully enforced
}

type limitRecord struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Measured float64 `json:"measured"`
}

// usageRecord uses the names of accounting(5).
type usageRecord struct {
	Wallclock float64 `json:"ru_wallclock"`
	Utime     float64 `json:"ru_utime"`
	Stime     float64 `json:"ru_stime"`
	MaxRSS    int64   `json:"ru_maxrss"`
	IxRSS     int64   `json:"ru_ixrss"`
	IsmRSS    int64   `json:"ru_ismrss"`
	IdRSS     int64   `json:"ru_idrss"`
	IsRSS     int64   `json:"ru_isrss"`
	Minflt    int64   `json:"ru_minflt"`
	Majflt    int64   `json:"ru_majflt"`
	Nswap     int64   `json:"ru_nswap"`
	Inblock   int64   `json:"ru_inblock"`
	Oublock   int64   `json:"ru_oublock"`
	Msgsnd    int64   `json:"ru_msgsnd"`
	Msgrcv    int64   `json:"ru_msgrcv"`
	Nsignals  int64   `json:"ru_nsignals"`
	Nvcsw     int64   `json:"ru_nvcsw"`
	Nivcsw    int64   `json:"ru_nivcsw"`
	CPU       float64 `json:"cpu"`
	Mem       float64 `json:"mem"`
	IO        float64 `json:"io"`
	IOW       float64 `json:"iow"`
	MaxVmem   int64   `json:"maxvmem"`
}

func newRecord(o *job.Outcome, dir string, notes ...string) record {
	u := o.Usage
	r := record{
		JobID: o.ID.Job, TaskID: o.ID.Task, Failed: int(o.Failed), FailedText: o.FailedText, Class: o.Class.String(),
		ExitStatus: o.ExitStatus, Signal: o.Signal, Reason: o.Reason, Notice: o.Notice, Wallclock: u.Wallclock, JobDir: dir,
		Notes: append([]string{}, notes...),
		Usage: usageRecord{
			Wallclock: u.Wallclock, Utime: u.UserTime, Stime: u.SystemTime, MaxRSS: u.MaxRSS,
			IxRSS: u.IxRSS, IdRSS: u.IdRSS, IsRSS: u.IsRSS, Minflt: u.MinorFaults, Majflt: u.MajorFaults,
			Nswap: u.Swaps, Inblock: u.BlocksIn, Oublock: u.BlocksOut, Msgsnd: u.MessagesSent, Msgrcv: u.MessagesRecvd,
			Nsignals: u.Signals, Nvcsw: u.VoluntaryCS, Nivcsw: u.InvoluntaryCS,
			CPU: u.CPU, Mem: u.Mem, IO: u.IO, IOW: u.IOWait, MaxVmem: u.MaxVmem,
		},
	}
	if o.Limit != nil {
		r.Limit = &limitRecord{o.Limit.Name, o.Limit.Value, o.Limit.Measured}
	}
	return r
}

// formatJSON returns an object for a job, or an array with the tasks of an array job.
func formatJSON(records []record, array bool) ([]byte, error) {
	var v any = records
	if !array && len(records) == 1 {
		v = records[0]
	}
	return printer.JSON(v)
}

// ExitCannotRun is the exit status of execd run if the job could not be run.
const ExitCannotRun = 125

// exitStatus returns the exit status of execd run for a job: the job's own exit status, 128+n if
// signal n ended the job, or ExitCannotRun if the job did not run.
func exitStatus(o *job.Outcome) int {
	if o.Ran {
		return o.ExitStatus
	}
	return ExitCannotRun
}

// notStarted returns the outcome of a job that could not be prepared.
func notStarted(id job.ID, err error) *job.Outcome {
	f := job.FailureOf(job.FailedBeforeJob)
	return &job.Outcome{ID: id, Failed: f.Code, FailedText: f.Text, Class: f.Class, Effect: f.Effect, Reason: err.Error()}
}

// summary describes the result of a job in one line.
func summary(o *job.Outcome, name string, rerunnable bool) string {
	text := ending(o, name, rerunnable)
	if o.Notice != "" {
		text += "; " + o.Notice
	}
	return text
}

func ending(o *job.Outcome, name string, rerunnable bool) string {
	what := "job " + o.ID.String() + " (" + name + ") "
	after := aftermath(o, rerunnable)
	switch {
	case o.Ran:
	case strings.HasPrefix(o.Reason, "was "):
		return what + o.Reason + after
	case o.Failed == job.FailedNoExitStatus:
		return what + "is lost: " + o.Reason + after
	default:
		return what + "did not run: " + o.Reason + after
	}
	used := ", after " + seconds(o.Usage.Wallclock) + " s with " + seconds(o.Usage.CPU) + " s of CPU and " + size(max(o.Usage.MaxVmem, o.Usage.MaxRSS)) + " of memory"
	if o.Usage == (job.Usage{}) {
		used = "" // the usage could not be measured
	}
	switch {
	case o.Limit != nil:
		return what + strings.TrimPrefix(o.Reason, "job ") + ", and was ended" + used + after
	case o.Failed == job.FailedNone && o.Reason == "":
		return what + "ended with exit status " + strconv.Itoa(o.ExitStatus) + used
	case o.Signal != 0:
		return what + o.Reason + used + after
	default:
		return what + "ended with exit status " + strconv.Itoa(o.ExitStatus) + used + "; " + o.Reason + after
	}
}

// arraySummary describes the results of the tasks of an array job in one line.
func arraySummary(number int, name string, tasks int, records []record) string {
	good := 0
	var bad []string
	for _, r := range records {
		if r.Failed == 0 && r.ExitStatus == 0 {
			good++
		} else {
			bad = append(bad, strconv.Itoa(r.TaskID))
		}
	}
	text := fmt.Sprintf("job %d (%s): %d of %d tasks ended with exit status 0", number, name, good, tasks)
	if len(bad) > 0 {
		const most = 10
		if more := len(bad) - most; more > 0 {
			bad = append(bad[:most], fmt.Sprintf("and %d more", more))
		}
		text += "; others: " + strings.Join(bad, ", ")
	}
	if rest := tasks - len(records); rest > 0 {
		text += fmt.Sprintf("; %d were not started", rest)
	}
	return text
}

// aftermath describes what a master would do with the job and its queue.
func aftermath(o *job.Outcome, rerunnable bool) string {
	var list []string
	switch {
	case o.Effect == job.Requeued, o.Effect == job.IfRerunnable && rerunnable:
		list = append(list, "a master would queue the job again")
	case o.Effect == job.Restarts:
		list = append(list, "a master would run the job again")
	case o.Effect == job.ErrorState:
		list = append(list, "a master would hold the job in error state")
	}
	switch o.Class {
	case job.ClassQueue:
		list = append(list, "put the queue into error state")
	case job.ClassQueueFinished:
		list = append(list, "a master would put the queue into error state")
	case job.ClassHost:
		list = append(list, "put all queues of the host into error state")
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, " and ") + "; failed " + strconv.Itoa(int(o.Failed)) + ")"
}

func seconds(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", bytes/1024)
}
