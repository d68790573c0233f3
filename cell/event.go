package cell

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// Event is one result of a command: what the command did to an object, or why it did not. The kind
// says which fields are set. Package cell/command has Grid Engine's text for each kind.
type Event struct {
	Kind EventKind
	// Denied is set if the command refused the object of the event.
	Denied bool
	// User and Host are the caller and its host, unless the kind says otherwise.
	User, Host string
	// Job is the number of a job, or of an advance reservation.
	Job uint32
	// Task is the number of one task of an array job; 0 stands for the whole job.
	Task uint32
	// Name is the name of the object, or the reference to it that the caller has typed.
	Name  string
	Names []string
	// Array is a range of tasks; Tasks is a set of tasks.
	Array *submit.Array
	Tasks rangelist.List
	// Option is an option of qalter(1), such as "-N". Soft is set for the soft requests of -l and -q.
	Option string
	Soft   bool
	// Operation is an operation of qmod(1) on a queue instance.
	Operation QueueOperation
	// Remove is set if the command removes holds, and not if it sets them.
	Remove bool
	// Force is set if -f changes what the command does.
	Force bool
	// Subject is the new data that the command would store.
	Subject Subject
	// Validation is the level of -w.
	Validation submit.Validation
	// Number is the amount or value that the caller asks for, Limit the largest permitted one, and
	// Used how much of the limit is in use. Sizes are in bytes.
	Number, Limit, Used int64
	// Rate describes a limit on the number of submissions in a period.
	Rate Rate
	// Reason is the scheduler's reason.
	Reason *scheduler.Reason
	// Err is the cause that another package has found.
	Err error
}

// Rate is a limit on the number of submissions in a period, for a user who has reached it.
type Rate struct {
	Period time.Duration
	// Wait is the time until the next submission is permitted, and Until the end of that time.
	Wait  time.Duration
	Until time.Time
}

// Subject is the new data of a command.
type Subject uint8

// The subjects.
const (
	NewJob Subject = iota
	AlteredJob
	TaskHolds // holds of single tasks
	NewReservation
)

// EventKind is the kind of an event. Its value describes the kind for logs.
type EventKind string

// The kinds of several commands, with the fields that they set. Kinds of refusals set Denied as
// well.
const (
	Failed              EventKind = "failed"                                           // Err
	NoSuchJob           EventKind = "no such job"                                      // Name
	NoSuchJobOfUsers    EventKind = "the users have no such job"                       // Name, Names
	NoJobsOfUsers       EventKind = "the users have no jobs"                           // Names
	NoSuchTasks         EventKind = "no such tasks"                                    // Array; Job, or the typed Name and the owner as User
	JobsRepeated        EventKind = "the same jobs are named too often"                // no fields
	TooManyLookups      EventKind = "too many jobs and users are named"                // Number of jobs, Used for the number of users
	TooManyPatterns     EventKind = "too many patterns are named"                      // Number, Limit
	TooManyDependencies EventKind = "the dependencies of too many jobs change at once" // no fields
	NoTasksSelected     EventKind = "the option applies to jobs, not to tasks"         // no fields
)

// The kinds of qdel(1).
const (
	AllJobsNeedManager EventKind = "only managers modify all jobs"        // User
	MayNotDelete       EventKind = "job may not be deleted"               // User, Job
	AlreadyInDeletion  EventKind = "running job is being deleted already" // User, Job, Task
	DeletionRegistered EventKind = "running job will be deleted"          // User, Job, Task
	DeletionForced     EventKind = "deletion of job forced"               // User, Job, Task
	JobDeleted         EventKind = "job deleted"                          // User, Job, Task
	TasksDeleted       EventKind = "tasks deleted"                        // User, Job, Tasks
)

// The kinds of qmod(1) for jobs. For Rescheduled, Host is the host on which the task runs.
const (
	NoSuchQueueOrJob   EventKind = "no such queue or job"        // Name
	MayNotModify       EventKind = "job may not be modified"     // User, Job
	TaskPending        EventKind = "task is pending or held"     // Job, Task
	JobSuspended       EventKind = "job suspended"               // User, Job, Task, Force
	AlreadySuspended   EventKind = "job is suspended already"    // User, Job, Task
	JobUnsuspended     EventKind = "job unsuspended"             // User, Host, Job, Task, Force
	AlreadyUnsuspended EventKind = "job is not suspended"        // User, Job, Task
	EnablingForced     EventKind = "enabling of job forced"      // User, Job, Task
	NotInErrorState    EventKind = "job is not in error state"   // Job, Task
	ErrorStateCleared  EventKind = "error state of job cleared"  // User, Host, Job, Task
	Rescheduled        EventKind = "job rescheduled"             // Host, Job, Task, Force
	NotRerunnable      EventKind = "job is not rerunnable there" // Job, Task
)

// The kinds of qmod(1) for queues. Name is the queue instance, or the reference that matches none.
const (
	NoSuchQueue       EventKind = "no such queue"                              // Name
	MayNotModifyQueue EventKind = "queue may not be modified"                  // User, Name
	MayNotReschedule  EventKind = "jobs of the queue may not be rescheduled"   // User, Name
	QueueUnchanged    EventKind = "queue instance is in the requested state"   // Name, Operation
	QueueChanged      EventKind = "state of queue instance changed as ordered" // User, Host, Name, Operation, Force
)

// The kinds of qhold(1), qrls(1) and -h of other commands.
const (
	HoldNeedsManager  EventKind = "only managers change system holds"    // User, Remove
	HoldNeedsOperator EventKind = "only operators change operator holds" // User, Remove
	HoldModified      EventKind = "hold modified"                        // Job, Task
)

// The kinds of qalter(1). ValueSet is for the options -p, -ot, -js and -ar, and JobAltered for the
// other ones. The names of BlockingJobs and ExitedJobs are job numbers.
const (
	AlterationDisallowed EventKind = "the site's verifier must see all changes"     // Names of parameters; none if nothing may be altered
	MayNotAlter          EventKind = "job may not be altered"                       // User, Job
	OptionNeedsOperator  EventKind = "only operators may use the option"            // User, Option
	JobAltered           EventKind = "job altered"                                  // Job, Option, Soft
	SlotRangeAltered     EventKind = "slot range of job altered"                    // Job
	ValueSet             EventKind = "value of job set"                             // User, Host, Job, Option, Number
	BlockingJobs         EventKind = "jobs on which the job depends"                // Names
	ExitedJobs           EventKind = "jobs of -hold_jid that have finished"         // Names
	ConsumableAdded      EventKind = "running job has not requested the consumable" // Name
	ConsumableChanged    EventKind = "running job requests another amount"          // Name
	ConsumableRemoved    EventKind = "running job has requested the consumable"     // Name
	ProjectOfRunningJob  EventKind = "running job keeps its project"                // Job
	NotAnArray           EventKind = "job without tasks has no task concurrency"    // no fields
	NoSuchPE             EventKind = "no such parallel environment"                 // Name
	OtherPE              EventKind = "job has another parallel environment"         // Names: of -l slots, and of the job
	DependencyCycle      EventKind = "dependency would be a cycle"                  // Job, Number of the other job
)

// The kinds of -w. For an advance reservation Subject is NewReservation.
const (
	NoSuitableQueues EventKind = "no suitable queues"           // Validation, Subject
	QueuesFound      EventKind = "suitable queues found"        // no fields
	SlotsFound       EventKind = "possible assignment found"    // Number of slots
	JobCannotStart   EventKind = "reason why job cannot start"  // Job, Reason
	NotPending       EventKind = "job is running or held"       // no fields
	QueueClosed      EventKind = "queue is closed in that time" // Name
)

// The kinds of qsub(1) and of the other commands that submit jobs. In RequestRefused and
// SlotsRefused, Err has the text.
const (
	JobSubmitted        EventKind = "job submitted"                                           // Job, Name, Array
	SchedulingAwaited   EventKind = "waiting for the decision about the job"                  // no fields
	ImmediateStarted    EventKind = "immediate job scheduled"                                 // Job, Array
	ImmediateNotStarted EventKind = "immediate job not scheduled"                             // no fields
	PriorityTooHigh     EventKind = "only operators submit with a positive priority"          // User
	MasterQueueOfSerial EventKind = "master queue of a job that is not parallel"              // no fields
	NeverCheckpointed   EventKind = "checkpointing environment with -c n"                     // no fields
	NoCheckpointing     EventKind = "-c without checkpointing environment"                    // no fields
	NoSuchCheckpoint    EventKind = "no such checkpointing environment"                       // Name, Subject
	NotDeadlineUser     EventKind = "user may not set deadlines"                              // User
	TaskLimitOfSingle   EventKind = "-tc of a job without tasks"                              // no fields
	TooManyTasks        EventKind = "too many tasks"                                          // Limit
	UnknownHost         EventKind = "no such host"                                            // Name
	HostRepeated        EventKind = "two files for the same host"                             // no fields
	NoProject           EventKind = "job needs a project"                                     // no fields
	NoSuchProject       EventKind = "no such project"                                         // Name
	ProjectExcluded     EventKind = "project may not submit jobs"                             // Name
	NoProjectAccess     EventKind = "user may not use the project"                            // User, Name
	UserIDTooLow        EventKind = "user ID is too low"                                      // Number, Limit
	GroupIDTooLow       EventKind = "group ID is too low"                                     // Number, Limit
	NoSuchUser          EventKind = "no such user"                                            // User
	NoAccess            EventKind = "user may not submit jobs"                                // User, Host
	TooManyJobs         EventKind = "the cluster has too many jobs"                           // Limit
	TooManyJobsOfUser   EventKind = "the user has too many jobs"                              // Limit, Used
	TooManySubmissions  EventKind = "the user has submitted too many jobs in a period"        // Limit, Rate
	RequestRefused      EventKind = "invalid request"                                         // Subject, Err
	SlotsRefused        EventKind = "invalid request for slots"                               // Err
	NoSuchElements      EventKind = "no host has resources with the requested attributes"     // Name: the attributes that exist
	OwnPredecessor      EventKind = "job would depend on itself"                              // Name: the job's number
	ArrayHoldOfSingle   EventKind = "-hold_jid_ad needs array jobs"                           // no fields
	ArrayHoldOfRange    EventKind = "-hold_jid_ad needs arrays of the same range"             // no fields
	ScriptTooLarge      EventKind = "script is too large"                                     // Number, Limit
	RequestTooLarge     EventKind = "request is too large"                                    // Subject, Number, Limit
	UserSpaceExceeded   EventKind = "the user's part of the spool directory is full"          // Subject, User, Number, Limit, Used
	UserMemoryExceeded  EventKind = "the user's part of the daemon's memory is full"          // Subject, User, Number, Limit, Used
	UserFilesExceeded   EventKind = "the user has too many files in the spool directory"      // Subject, User, Limit, Used
	SpoolSpaceExceeded  EventKind = "the file system of the spool directory is full"          // Subject, Number; Limit: free bytes; Used: reserved bytes
	ReserveExceeded     EventKind = "the reserved space of the spool directory is in use"     // Limit: free bytes; Used: reserved bytes
	SpoolFilesExceeded  EventKind = "the file system of the spool directory has no free file" // Subject; Limit: free files; Used: reserved files
)

// The kinds of qresub(1).
const (
	NoJobToCopy EventKind = "no such job to copy"   // Job
	MayNotCopy  EventKind = "job may not be copied" // User, Host; Name: the owner
)

// The kinds of qrsub(1) and qrdel(1). Job is the number of the reservation.
const (
	NotReservationUser            EventKind = "user may not reserve"                       // User
	TooManyReservations           EventKind = "the cluster has too many reservations"      // Limit, Used
	NoSuchUserSet                 EventKind = "no such user set"                           // Name
	NoDuration                    EventKind = "reservation has neither end nor duration"   // no fields
	DurationDiffers               EventKind = "duration is not the time from start to end" // no fields
	EndBeforeStart                EventKind = "reservation ends before it starts"          // no fields
	StartInPast                   EventKind = "reservation starts in the past"             // no fields
	ReservationGranted            EventKind = "reservation granted"                        // Job
	AllReservationsNeedManager    EventKind = "only managers modify all reservations"      // User
	NoReservationsOfUsers         EventKind = "the users have no reservations"             // Names
	NoSuchReservation             EventKind = "no such reservation"                        // Name
	MayNotDeleteReservation       EventKind = "reservation may not be deleted"             // User, Job
	ReservationDeletionRegistered EventKind = "reservation will be deleted"                // User, Job
	ReservationDeleted            EventKind = "reservation deleted"                        // User, Job
	ReservationInvalid            EventKind = "reservation of -ar is invalid"              // Number
	LongerThanReservation         EventKind = "job is longer than the reservation of -ar"  // Number
	BeyondReservation             EventKind = "job ends after the reservation of -ar"      // Number
)

// The kinds of qconf(1), -clearusage.
const (
	UsageNeedsManager EventKind = "only managers clear usage" // User
	UserCleared       EventKind = "usage of user cleared"     // User, Host, Name
	ProjectCleared    EventKind = "usage of project cleared"  // User, Host, Name
)

// String describes the event for logs: its kind, and what it is about.
func (e Event) String() string {
	if e.Kind == Failed {
		return fmt.Sprint(e.Err)
	}
	var parts []string
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(e.Name != "", "%q", e.Name)
	add(len(e.Names) > 0, "%q", e.Names)
	add(e.Option != "", "%s", e.Option)
	add(e.Job != 0, "number %d", e.Job)
	add(e.Task != 0, "task %d", e.Task)
	add(e.Array != nil, "tasks %v", e.Array)
	add(!e.Tasks.IsEmpty(), "tasks %v", e.Tasks)
	add(e.Number != 0, "requested %d", e.Number)
	add(e.Limit != 0, "limit %d", e.Limit)
	add(e.Used != 0, "used %d", e.Used)
	add(e.User != "", "user %q", e.User)
	add(e.Host != "", "host %q", e.Host)
	if e.Reason != nil {
		add(true, "%s", e.Reason.Text())
	}
	add(e.Err != nil, "%v", e.Err)
	if len(parts) == 0 {
		return string(e.Kind)
	}
	return string(e.Kind) + ": " + strings.Join(parts, ", ")
}

// eventOf returns the event of an error.
func eventOf(err error) Event {
	if d, ok := errors.AsType[*DeniedError](err); ok {
		return d.Event
	}
	return Event{Kind: Failed, Denied: true, Err: err}
}

// about returns an event with the number of the task's job, and of the task if the job is an array
// job.
func (t *Task) about(e Event) Event {
	e.Job = t.Job.ID()
	if t.Job.IsArray() {
		e.Task = t.Number
	}
	return e
}
