package job

import "strconv"

// Failed is a failure code: the field "failed" of accounting(5), listed in
// sge_status(5). It says in which phase of a job something went wrong; the
// exit status of the job is another number.
type Failed int

// The failure codes of sge_status(5).
const (
	FailedNone            Failed = 0
	FailedBeforeJob       Failed = 1 // the host could not even start the shepherd
	FailedExecShepherd    Failed = 2
	FailedWriteConfig     Failed = 3
	FailedWritePID        Failed = 4
	FailedReadConfig      Failed = 5
	FailedProcessorSet    Failed = 6
	FailedBeforeProlog    Failed = 7
	FailedProlog          Failed = 8
	FailedBeforePEStart   Failed = 9
	FailedPEStart         Failed = 10
	FailedInJobChild      Failed = 11 // between fork and exec of the job
	FailedBeforePEStop    Failed = 12
	FailedPEStop          Failed = 13
	FailedBeforeEpilog    Failed = 14
	FailedEpilog          Failed = 15
	FailedReleaseSet      Failed = 16
	FailedShepherdSignal  Failed = 17
	FailedShepherd        Failed = 18
	FailedNoExitStatus    Failed = 19
	FailedErrorFile       Failed = 20
	FailedUnknownJob      Failed = 21
	FailedRemoved         Failed = 22
	FailedMigrate         Failed = 24
	FailedReschedule      Failed = 25
	FailedOpenOutput      Failed = 26
	FailedShell           Failed = 27
	FailedCwd             Failed = 28
	FailedAFS             Failed = 29
	FailedAppError        Failed = 30
	FailedSgepasswd       Failed = 31
	FailedNoPassword      Failed = 32
	FailedWrongPassword   Failed = 33
	FailedHelperService   Failed = 34
	FailedBeforeJobHelper Failed = 35
	FailedDaemonCheck     Failed = 36
	FailedLimit           Failed = 37 // ended by a limit: h_rt, h_cpu, h_vmem, …
	FailedAddGroup        Failed = 38
	FailedAfterJob        Failed = 100 // died through a signal
)

// Class says whom a failure is held against, and with that what a master does
// with the job and the queue (sge_status(5), sge_shepherd(8)).
type Class int

// The classes of failures.
const (
	// ClassNone: nobody; the job is finished (or requeued, see Effect).
	ClassNone Class = iota
	// ClassJob: the job itself. It goes into the error state Eqw.
	ClassJob
	// ClassQueue: the queue instance goes into the error state, the job is
	// requeued.
	ClassQueue
	// ClassQueueFinished: the queue instance goes into the error state, but
	// the job has run and is finished.
	ClassQueueFinished
	// ClassHost: all queue instances of the host go into the error state, the
	// job is requeued.
	ClassHost
)

var classNames = [...]string{"none", "job error", "queue error", "queue error, job finished", "host error"}

// String returns the class in words.
func (c Class) String() string { return classNames[c] }

// Effect is what becomes of a batch job that ended with a failure code.
type Effect int

// The effects of failures on a batch job.
const (
	Finished   Effect = iota // it leaves the system
	Requeued                 // it becomes pending again, as if it had never run
	Restarts                 // it becomes pending again and then runs with RESTARTED=1 (Rq)
	ErrorState               // it stays, in error state (Eqw)
	// IfRerunnable is Requeued for a job submitted with -r y, or in a queue
	// with rerun TRUE; Finished for every other.
	IfRerunnable
)

var effectNames = [...]string{"finished", "requeued", "restarts", "error state", "requeued if rerunnable"}

// String returns the effect in words.
func (e Effect) String() string { return effectNames[e] }

// Failure is one row of the table of failure codes.
type Failure struct {
	Code   Failed
	Text   string // as in the messages of the daemons and in qacct
	Class  Class
	Effect Effect
}

// failures is the table of sge_status(5), with the classes and effects that
// the original master gives them. FailedInJobChild and FailedShell have the
// class of their usual cause here; ClassOf knows the rest.
var failures = []Failure{
	{FailedNone, "", ClassNone, Finished},
	{FailedBeforeJob, "assumedly before job", ClassNone, Requeued},
	{FailedExecShepherd, "on executing shepherd", ClassNone, Requeued},
	{FailedWriteConfig, "before writing config", ClassNone, Requeued},
	{FailedWritePID, "before writing pid", ClassNone, Requeued},
	{FailedReadConfig, "on reading config file", ClassQueue, Requeued},
	{FailedProcessorSet, "setting processor set", ClassQueue, Requeued},
	{FailedBeforeProlog, "before prolog", ClassHost, Requeued},
	{FailedProlog, "in prolog", ClassQueue, Requeued},
	{FailedBeforePEStart, "before pestart", ClassQueue, Requeued},
	{FailedPEStart, "in pestart", ClassQueue, Requeued},
	{FailedInJobChild, "before job", ClassQueue, Requeued},
	{FailedBeforePEStop, "before pestop", ClassNone, Finished},
	{FailedPEStop, "in pestop", ClassQueueFinished, Finished},
	{FailedBeforeEpilog, "before epilog", ClassNone, Finished},
	{FailedEpilog, "in epilog", ClassQueue, Requeued},
	{FailedReleaseSet, "releasing processor set", ClassNone, Finished},
	{FailedShepherdSignal, "through signal", ClassNone, IfRerunnable},
	{FailedShepherd, "shepherd returned error", ClassNone, Finished},
	{FailedNoExitStatus, "before writing exit_status", ClassNone, IfRerunnable},
	{FailedErrorFile, "found unexpected error file", ClassNone, Finished},
	{FailedUnknownJob, "in recognizing job", ClassNone, Finished},
	{FailedRemoved, "removed manually", ClassNone, Finished},
	{FailedMigrate, "migrating", ClassNone, Restarts},
	{FailedReschedule, "rescheduling", ClassNone, Restarts},
	{FailedOpenOutput, "opening input/output file", ClassJob, ErrorState},
	{FailedShell, "searching requested shell", ClassJob, ErrorState},
	{FailedCwd, "changing into working directory", ClassJob, ErrorState},
	{FailedAFS, "setting up AFS", ClassJob, ErrorState},
	{FailedAppError, "application error returned", ClassJob, ErrorState},
	{FailedSgepasswd, "accessing sgepasswd file", ClassNone, Finished},
	{FailedNoPassword, "entry is missing in password file", ClassJob, ErrorState},
	{FailedWrongPassword, "wrong password", ClassJob, ErrorState},
	{FailedHelperService, "communicating with helper service", ClassHost, Requeued},
	{FailedBeforeJobHelper, "before job in helper service", ClassJob, ErrorState},
	{FailedDaemonCheck, "checking configured daemons", ClassHost, Requeued},
	{FailedLimit, "enforced a limit", ClassNone, Finished},
	{FailedAddGroup, "adding supplementary group", ClassJob, ErrorState},
	{FailedAfterJob, "assumedly after job", ClassNone, Finished},
}

// FailureOf returns the row of a code. Codes outside of the table finish the
// job, as they do in the original.
func FailureOf(code Failed) Failure {
	for _, f := range failures {
		if f.Code == code {
			return f
		}
	}
	return Failure{code, "invalid execution state " + strconv.Itoa(int(code)), ClassNone, Finished}
}

// ShellRequest says what a job asked for about its start; two failure codes
// are held against the job or the queue depending on it.
type ShellRequest struct {
	OwnShell    bool // -S
	Binary      bool // -b y
	NoShell     bool // -shell n
	StartMode   ShellStartMode
	FileMissing bool // Binary, and the command is not a file
}

// ClassOf is FailureOf with the two codes resolved whose class depends on what
// the job asked for: a shell that cannot be run is the job's fault where the
// job chose it, and the queue's where the queue did; a failure in the job's
// child is the job's where it named a command that is not a file.
func ClassOf(code Failed, r ShellRequest) Failure {
	f := FailureOf(code)
	switch code {
	case FailedShell:
		own := r.OwnShell || (r.Binary && r.NoShell) || r.StartMode == UnixBehavior || r.StartMode == RawExec
		if !own {
			f.Class, f.Effect = ClassQueue, Requeued
		}
	case FailedInJobChild:
		if r.Binary && r.FileMissing {
			f.Class, f.Effect = ClassJob, ErrorState
		}
	}
	return f
}

// The exit codes that have a meaning of their own when a job, a prolog, an
// epilog or a PE procedure ends with them (queue_conf(5), sge_shepherd(8)).
const (
	ExitReschedule = 99
	ExitAppError   = 100
)
