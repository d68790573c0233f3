package job

import (
	"strconv"
	"strings"
	"time"
)

// Outcome is what became of a job: what the accounting record and the user are
// told.
type Outcome struct {
	ID         ID
	Failed     Failed
	FailedText string // the first line of the error file, or of the table
	// Stamp is what stands before FailedText in the error file: when and by which process it was
	// written, "MM/DD/YYYY HH:MM:SS [uid:pid]: ". It is empty where no shepherd has.
	Stamp  string `json:",omitempty"`
	Class  Class
	Effect Effect
	// Ran is set when the job itself was started; without it there is neither
	// an exit status nor usage.
	Ran        bool
	ExitStatus int // of the job: 0-255, 128+n after signal n
	Signal     int // that ended the job, 0 for none
	CoreDumped bool
	Reason     string // one sentence for people; empty after a normal end
	Limit      *LimitExceeded
	// Notice is one sentence about what the host has refused to the job while it ran, which
	// may have ended well all the same, or about what shells do not understand in the script of
	// a job that did not exit with 0; empty for nothing.
	Notice     string    `json:",omitempty"`
	Start, End time.Time // of the job itself
	// Restart is how a job that migrates is to be run again, 0 for all others: with
	// RestartedFromCkpt there is a checkpoint, of the process with the number
	// CheckpointPID.
	Restart       Restart `json:",omitempty"`
	CheckpointPID int     `json:",omitempty"`
	Usage         Usage
}

// diedThrough is how Reason begins after a signal.
const diedThrough = "died through signal "

// Because returns why a job did not end well, as Grid Engine says so in mails, in the error reason of
// qstat -j and to its master: with the stamp of the shepherd, or with the job, its task (1 for a job
// that is not an array) and the number of the signal. It is empty where neither is known.
func (o *Outcome) Because() string {
	text := o.Reason
	if text == "" {
		text = o.FailedText
	}
	switch label := "job " + strconv.Itoa(o.ID.Job) + "." + strconv.Itoa(max(o.ID.Task, 1)) + " "; {
	case o.FailedText != "" && strings.HasPrefix(text, o.FailedText):
		text = o.Stamp + text
	case o.Signal != 0 && strings.HasPrefix(text, diedThrough):
		name, more, found := strings.Cut(strings.TrimPrefix(text, diedThrough), " ")
		text = label + diedThrough + name + " (" + strconv.Itoa(o.Signal) + ")"
		if found {
			text += "; " + more
		}
	case strings.HasPrefix(text, "died "), strings.HasPrefix(text, "was "):
		text = label + text
	}
	if o.Notice != "" {
		text += "; " + o.Notice
	}
	return text
}

// LimitExceeded says which limit ended a job. Values are in the unit of the
// resource.
type LimitExceeded struct {
	Name            string // "h_rt"
	Value, Measured float64
}

// Usage is what a job used, under the names of accounting(5) in the comments.
type Usage struct {
	Wallclock     float64 // ru_wallclock, seconds
	UserTime      float64 // ru_utime, seconds
	SystemTime    float64 // ru_stime, seconds
	MaxRSS        int64   // ru_maxrss, bytes (accounting(5) has it in KiB)
	IxRSS         int64   // ru_ixrss
	IdRSS         int64   // ru_idrss
	IsRSS         int64   // ru_isrss
	MinorFaults   int64   // ru_minflt
	MajorFaults   int64   // ru_majflt
	Swaps         int64   // ru_nswap
	BlocksIn      int64   // ru_inblock, of 512 bytes
	BlocksOut     int64   // ru_oublock
	MessagesSent  int64   // ru_msgsnd
	MessagesRecvd int64   // ru_msgrcv
	Signals       int64   // ru_nsignals
	VoluntaryCS   int64   // ru_nvcsw
	InvoluntaryCS int64   // ru_nivcsw
	CPU           float64 // cpu, seconds of the whole job
	Mem           float64 // mem, GiB times seconds of CPU
	IO            float64 // io, GiB moved
	IOWait        float64 // iow, seconds
	MaxVmem       int64   // maxvmem, bytes
}
