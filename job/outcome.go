package job

import (
	"strconv"
	"strings"
	"time"
)

// Outcome is the result of a job, for the accounting record and for the user.
type Outcome struct {
	ID         ID
	Failed     Failed
	FailedText string // the first line of the error file, or the text of the table
	// Stamp precedes FailedText in the error file: "MM/DD/YYYY HH:MM:SS [uid:pid]: " with the time
	// and the process of the entry. It is empty if no shepherd wrote an entry.
	Stamp  string `json:",omitempty"`
	Class  Class
	Effect Effect
	// ByOwner says that a procedure has failed that ran as the owner of the job, and that the failure does not
	// count against the queue, because the owner may have caused it.
	ByOwner bool `json:",omitempty"`
	// Ran is true if the job itself was started. Otherwise there is neither an exit status nor
	// usage.
	Ran        bool
	ExitStatus int // of the job: 0-255, 128+n after signal n
	Signal     int // that terminated the job, 0 for none
	CoreDumped bool
	Reason     string // one sentence for people; empty after a normal exit
	Limit      *LimitExceeded
	// Notice is one sentence of one of two kinds, and empty if neither applies. It names a request
	// that the host refused while the job ran, even if the job succeeded. Or it names a part of a
	// script that shells do not understand, if the job did not exit with 0.
	Notice     string    `json:",omitempty"`
	Start, End time.Time // of the job itself
	// Restart says how a job that migrates runs again; 0 for other jobs. With RestartedFromCkpt the
	// job continues from a checkpoint of process CheckpointPID.
	Restart       Restart `json:",omitempty"`
	CheckpointPID int     `json:",omitempty"`
	Usage         Usage
}

// diedThrough is the beginning of Reason after a signal.
const diedThrough = "died through signal "

// Because returns the reason of a failure in the words of Grid Engine's mails, of the error reason
// in qstat -j and of messages to its master. It contains either the shepherd's stamp and text, or
// the job, its task (1 for a job that is not an array job) and the signal. It is empty if neither
// is known.
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

// LimitExceeded names the limit that ended a job. Values are in the unit of the resource.
type LimitExceeded struct {
	Name            string // "h_rt"
	Value, Measured float64
}

// Usage is the resource usage of a job. The comments give the names of accounting(5).
type Usage struct {
	Wallclock     float64 // ru_wallclock, seconds
	UserTime      float64 // ru_utime, seconds
	SystemTime    float64 // ru_stime, seconds
	MaxRSS        int64   // ru_maxrss, bytes (accounting(5) has it in KiB); of the largest process
	PeakRSS       int64   // maxrss, bytes of RAM of the whole job; 0 if only MaxRSS is known
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
	IO            float64 // io, GiB transferred
	IOOps         int64   // ioops, the number of reads and writes
	IOWait        float64 // iow, seconds
	MaxVmem       int64   // maxvmem, bytes
	GPU           GPUUsage
}

// GPUUsage is the usage of a job's GPUs. The zero value is for a job without GPUs.
type GPUUsage struct {
	Count     int     // GPUs of the job on this host
	Seconds   float64 // for which the job had them, times their number
	Measured  float64 // the part of Seconds of which the utilisation is known
	Busy      float64 // the part of Measured in which the GPUs computed
	MaxMemory int64   // largest measured memory of all GPUs of the job together, bytes; 0 if it is not known
}

// Utilisation returns the part of the measured time in which the GPUs computed, 0 to 1; -1 if it was
// not measured.
func (u *GPUUsage) Utilisation() float64 {
	if u.Measured <= 0 {
		return -1
	}
	return u.Busy / u.Measured
}
