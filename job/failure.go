package job

import "strconv"

// Failed is a failure code: the field "failed" of accounting(5), listed in sge_status(5). It names
// the phase of the job in which the failure happened, and is independent of the job's exit status.
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
	FailedLimit           Failed = 37 // killed by a limit: h_rt, h_cpu, h_vmem, …
	FailedAddGroup        Failed = 38
	FailedAfterJob        Failed = 100 // killed by a signal
)

// Class is the object to which a failure is attributed: job, queue instance or host. It determines
// what a master does with the job and the queue (sge_status(5), sge_shepherd(8)).
type Class int

// The classes of failures.
const (
	// ClassNone means that no object failed. Effect says whether the job is finished or requeued.
	ClassNone Class = iota
	// ClassJob is a failure of the job. The job enters the error state Eqw.
	ClassJob
	// ClassQueue is a failure of the queue instance. It enters the error state, and the job is
	// requeued.
	ClassQueue
	// ClassQueueFinished is a failure of the queue instance after the job has run. The queue
	// instance enters the error state, and the job is finished.
	ClassQueueFinished
	// ClassHost is a failure of the host. All its queue instances enter the error state, and the
	// job is requeued.
	ClassHost
)

var classNames = [...]string{"none", "job error", "queue error", "queue error, job finished", "host error"}

// String returns the class in words.
func (c Class) String() string { return classNames[c] }

// Effect is the next state of a batch job that ended with a failure code.
type Effect int

// The effects of failures on a batch job.
const (
	Finished   Effect = iota // the job leaves the system
	Requeued                 // the job is pending again, as if it had never run
	Restarts                 // the job is pending again and then runs with RESTARTED=1 (Rq)
	ErrorState               // the job stays, in the error state (Eqw)
	// IfRerunnable is Requeued for a job with -r y or in a queue with rerun TRUE, and Finished for
	// all others.
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

// failures is the table of sge_status(5), with the classes and effects of the original master.
// FailedInJobChild and FailedShell have the class of their most frequent cause here; ClassOf
// distinguishes their other causes.
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

// FailureOf returns the row of a code. A code that is not in the table finishes the job, as in the
// original.
func FailureOf(code Failed) Failure {
	for _, f := range failures {
		if f.Code == code {
			return f
		}
	}
	return Failure{code, "invalid execution state " + strconv.Itoa(int(code)), ClassNone, Finished}
}

// ShellRequest holds a job's options about its shell and command. The class of two failure codes
// depends on them.
type ShellRequest struct {
	OwnShell    bool // -S
	Binary      bool // -b y
	NoShell     bool // -shell n
	StartMode   ShellStartMode
	FileMissing bool // Binary, and the command is not a file
	// OwnersCause says that the kernel did not execute the shell because of the arguments and variables of the job, or
	// because of the number of processes that its owner has (execve(2), E2BIG and EAGAIN).
	OwnersCause bool
}

// ClassOf returns the row of FailureOf, with the right class for the two codes that depend on the
// job's options. A shell that cannot be run is a failure of the job if the job chose the shell or is
// the cause, and of the queue otherwise. A failure before exec is a failure of the job if its command is not a
// file.
func ClassOf(code Failed, r ShellRequest) Failure {
	f := FailureOf(code)
	switch code {
	case FailedShell:
		own := r.OwnersCause || r.OwnShell || (r.Binary && r.NoShell) || r.StartMode == UnixBehavior || r.StartMode == RawExec
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

// The exit codes with a special meaning for a job, a prolog, an epilog or a PE procedure
// (queue_conf(5), sge_shepherd(8)).
const (
	ExitReschedule = 99
	ExitAppError   = 100
)
