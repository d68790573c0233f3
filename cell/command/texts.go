package command

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// EventText returns Grid Engine's text for an event. The text is not escaped: it contains names that
// users have chosen.
func EventText(e cell.Event) string {
	text, ok := eventTexts[e.Kind]
	if !ok {
		return e.String()
	}
	return text(&e)
}

// ErrorText returns Grid Engine's text for an error of package cell, and the text of any other error.
func ErrorText(err error) string {
	if d, ok := errors.AsType[*cell.DeniedError](err); ok {
		return EventText(d.Event)
	}
	return err.Error()
}

// refusalParts returns the texts of the report and the reason of a refusal, in this order, for
// output. An error of another package is itself the only part.
func refusalParts(err error) []any {
	d, ok := errors.AsType[*cell.DeniedError](err)
	if !ok {
		return []any{err}
	}
	var parts []any
	for _, e := range d.Report {
		parts = append(parts, EventText(e))
	}
	return append(parts, EventText(d.Event))
}

// ImmediateText returns the output of qsub about a job with -now y after the scheduler has decided.
func ImmediateText(i cell.Immediate) (stderr, stdout string) {
	stderr = "\n"
	for _, e := range i.Events {
		if line := EventText(e) + "\n"; e.Kind == cell.JobSubmitted {
			stdout += line
		} else {
			stderr += line
		}
	}
	return stderr, stdout
}

// field returns a value of an event for a format.
type field func(*cell.Event) any

// form returns the text of a kind: a format and the fields for its verbs.
func form(format string, fields ...field) func(*cell.Event) string {
	return func(e *cell.Event) string {
		args := make([]any, len(fields))
		for i, f := range fields {
			args[i] = f(e)
		}
		return printer.Message(format, args...)
	}
}

// forced returns a text for events with -f, and another one for all other events.
func forced(with, without func(*cell.Event) string) func(*cell.Event) string {
	return func(e *cell.Event) string {
		if e.Force {
			return with(e)
		}
		return without(e)
	}
}

// The fields of the formats below.
func userOf(e *cell.Event) any      { return e.User }
func hostOf(e *cell.Event) any      { return e.Host }
func nameOf(e *cell.Event) any      { return e.Name }
func numberOf(e *cell.Event) any    { return e.Number }
func limitOf(e *cell.Event) any     { return e.Limit }
func usedOf(e *cell.Event) any      { return e.Used }
func jobOf(e *cell.Event) any       { return e.Job }
func causeOf(e *cell.Event) any     { return e.Err.Error() }
func namesOf(e *cell.Event) any     { return strings.Join(e.Names, ", ") }
func jobsOf(e *cell.Event) any      { return cmp.Or(strings.Join(e.Names, ","), "NONE") }
func sizeOf(e *cell.Event) any      { return sizeText(e.Number) }
func limitSizeOf(e *cell.Event) any { return sizeText(e.Limit) }
func usedSizeOf(e *cell.Event) any  { return sizeText(e.Used) }
func stateOf(e *cell.Event) any     { return operationStates[e.Operation] }
func partOf(e *cell.Event) any      { return alteredText(e) }
func valueOf(e *cell.Event) any     { return valueNames[e.Option] }
func rejectionOf(e *cell.Event) any { return rejections[e.Subject] }
func subjectOf(e *cell.Event) any   { return subjects[e.Subject] }

// labelOf names a job, or one task of an array job.
func labelOf(e *cell.Event) any {
	if e.Task != 0 {
		return "job-array task " + number(e.Job) + "." + number(e.Task)
	}
	return "job " + number(e.Job)
}

// verbOf returns the verb of the refused operation on a hold: "set" or "remove".
func verbOf(e *cell.Event) any {
	if e.Remove {
		return "remove"
	}
	return "set"
}

// eventTexts are the texts of all kinds of events, in Grid Engine's words; execd's own refusals are in the
// same style.
var eventTexts = map[cell.EventKind]func(*cell.Event) string{
	cell.Failed:              form("%s", causeOf),
	cell.NoSuchJob:           form("denied: job %q does not exist", nameOf),
	cell.NoSuchJobOfUsers:    form("The job %s of user(s) %s does not exist", nameOf, namesOf),
	cell.NoJobsOfUsers:       form("There is no job registered for the following users: %s", namesOf),
	cell.NoSuchTasks:         noSuchTasks,
	cell.JobsRepeated:        form("denied: the same jobs are named too often"),
	cell.TooManyLookups:      form("denied: %d jobs of %d users are too many to be looked for at once", numberOf, usedOf),
	cell.TooManyPatterns:     form("denied: %d expressions for names of jobs and users are too many, at most %d are looked for at once", numberOf, limitOf),
	cell.TooManyDependencies: form("denied: the command changes too many dependencies at once: name fewer jobs in each command"),
	cell.NoTasksSelected:     form(notOfTasks),

	// qdel
	cell.AllJobsNeedManager: form("denied: %q must be manager to modify all jobs", userOf),
	cell.MayNotDelete:       form("%s - you do not have the necessary privileges to delete the job \"%d\"", userOf, jobOf),
	cell.AlreadyInDeletion:  form("job %d is already in deletion", jobOf),
	cell.DeletionRegistered: form("%s has registered the %s for deletion", userOf, labelOf),
	cell.DeletionForced:     form("%s forced the deletion of %s", userOf, labelOf),
	cell.JobDeleted:         form("%s has deleted %s", userOf, labelOf),
	cell.TasksDeleted:       form("%s has deleted job-array tasks %s of job %d", userOf, tasksOf, jobOf),

	// qmod, jobs
	cell.NoSuchQueueOrJob:   form("invalid queue or job %q", nameOf),
	cell.MayNotModify:       form("%s - you have no permission to modify job \"%d\"", userOf, jobOf),
	cell.TaskPending:        form("Modify operation can not be applied on %s in pending/hold state", labelOf),
	cell.JobSuspended:       forced(form("%s - forced suspension of %s", userOf, labelOf), form("%s - suspended %s", userOf, labelOf)),
	cell.AlreadySuspended:   form("%s - %s is already suspended", userOf, labelOf),
	cell.JobUnsuspended:     forced(form("%s@%s forced unsuspension of %s", userOf, hostOf, labelOf), form("%s - unsuspended %s", userOf, labelOf)),
	cell.AlreadyUnsuspended: form("%s - %s is already unsuspended", userOf, labelOf),
	cell.EnablingForced:     form("%s - forced enabling of %s", userOf, labelOf),
	cell.NotInErrorState: func(e *cell.Event) string {
		text, _ := strings.CutPrefix(printer.Message("%s is not in error state", labelOf(e)), "j")
		return "J" + text
	},
	cell.ErrorStateCleared: form("%s@%s cleared error state of %s", userOf, hostOf, labelOf),
	cell.Rescheduled:       forced(form("Forced rescheduling of %s on host %s", labelOf, hostOf), form("Pushed rescheduling of %s on host %s", labelOf, hostOf)),
	// The original always names the queue "none" (tested).
	cell.NotRerunnable: form("The %s is running in queue none where jobs are not rerunable.", labelOf),

	// qmod, queues
	cell.NoSuchQueue:       form("invalid queue %q", nameOf),
	cell.MayNotModifyQueue: form("%s - you have no permission to modify queue %q", userOf, nameOf),
	cell.MayNotReschedule:  form("%s - you have no permission to reschedule jobs of queue instance %q", userOf, nameOf),
	cell.QueueUnchanged:    form("Queue instance %q is already in the specified state: %s", nameOf, stateOf),
	cell.QueueChanged: forced(
		form("%s@%s forced state change of %q (%s)", userOf, hostOf, nameOf, stateOf),
		form("%s@%s changed state of %q (%s)", userOf, hostOf, nameOf, stateOf)),

	// qhold, qrls
	cell.HoldNeedsManager:  form("denied: %q must be manager to %s manager hold", userOf, verbOf),
	cell.HoldNeedsOperator: form("denied: %q must be operator to %s operator hold", userOf, verbOf),
	cell.HoldModified:      form("modified hold of %s", labelOf),

	// qalter
	cell.AlterationDisallowed: alterationDisallowed,
	cell.MayNotAlter:          form("denied: %q must be at least owner of job %d to change job attributes", userOf, jobOf),
	cell.OptionNeedsOperator: func(e *cell.Event) string {
		return printer.Message("denied: %q must be operator to %s", e.User, map[string]string{"-p": "increase job priority", "-ot": "change amount of override tickets"}[e.Option])
	},
	cell.JobAltered:          form("modified %s of job %d", partOf, jobOf),
	cell.SlotRangeAltered:    form("modified slot range of job %d", jobOf),
	cell.ValueSet:            form("%s@%s sets %s of job %d to %d", userOf, hostOf, valueOf, jobOf, numberOf),
	cell.BlockingJobs:        form("   blocking jobs: %s", jobsOf),
	cell.ExitedJobs:          form("   exited jobs:   %s", jobsOf),
	cell.ConsumableAdded:     form("denied: resource request on consumable %q of running job was not contained in former resource request", nameOf),
	cell.ConsumableChanged:   form("denied: can't change consumable resource request %q of running job", nameOf),
	cell.ProjectOfRunningJob: form("job %d can't modify running jobs", jobOf),
	cell.ConsumableRemoved:   form("denied: former resource request on consumable %q of running job missing in new resource request", nameOf),
	cell.NotAnArray:          form(`invalid option argument "task concurrency"`),
	cell.NoSuchPE:            form("denied: parallel environment %q does not exist", nameOf),
	cell.OtherPE: func(e *cell.Event) string {
		return printer.Message("denied: -l slots means the parallel environment %q, and the job has %q: use -pe", e.Names[0], e.Names[1])
	},
	cell.DependencyCycle: form("job %d dependency change would generate a dependency cycle with job %d", jobOf, numberOf),

	// -w
	cell.NoSuitableQueues: noSuitableQueues,
	cell.QueuesFound:      form("verification: found suitable queue(s)"),
	cell.SlotsFound:       form("verification: found possible assignment with %d slots", numberOf),
	cell.JobCannotStart:   func(e *cell.Event) string { return "Job " + number(e.Job) + " " + e.Reason.Text() },
	cell.NotPending:       form("verification: job is already running or is held"),
	cell.QueueClosed:      form("queue %q is calendar disabled in selected time frame", nameOf),

	// qsub
	cell.JobSubmitted:        jobSubmitted,
	cell.SchedulingAwaited:   form("Waiting for immediate job to be scheduled."),
	cell.ImmediateStarted:    form("Your immediate job %s has been successfully scheduled.", numberWithTasks),
	cell.ImmediateNotStarted: form("Your qsub request could not be scheduled; try again later."),
	cell.PriorityTooHigh:     form("job rejected: positive submission priority requires operator privileges"),
	cell.MasterQueueOfSerial: form("job rejected: specification of master queue is not allowed for non-parallel jobs"),
	cell.NeverCheckpointed:   form("job rejected: checkpointing with \"-c n\" requested"),
	cell.NoCheckpointing:     form("checkpointing denied"),
	cell.NoSuchCheckpoint: func(e *cell.Event) string {
		if e.Subject == cell.AlteredJob {
			return printer.Message("denied: checkpointing environment %q does not exist", e.Name)
		}
		return printer.Message("job rejected: the requested checkpointing environment %q does not exist", e.Name)
	},
	cell.NotDeadlineUser:    form("job rejected: the user %q is not a deadline initiation user", userOf),
	cell.TaskLimitOfSingle:  form("invalid \"task concurrency\" value in job request"),
	cell.TooManyTasks:       form("job rejected: you tried to submit a job with more than %d tasks", limitOf),
	cell.UnknownHost:        form("can't resolve hostname %q", nameOf),
	cell.HostRepeated:       form("ERROR! two files are specified for the same host"),
	cell.NoProject:          form("job rejected: no project assigned to job"),
	cell.NoSuchProject:      form("job rejected: the requested project %q does not exist", nameOf),
	cell.ProjectExcluded:    form("job rejected: project %q is not allowed to submit jobs", nameOf),
	cell.NoProjectAccess:    form("job rejected: no access to project %q for user %q", nameOf, userOf),
	cell.UserIDTooLow:       form("job rejected: your user id %d is lower than minimum user id %d of cluster configuration", numberOf, limitOf),
	cell.GroupIDTooLow:      form("job rejected: your group id %d is lower than minimum group id %d of cluster configuration", numberOf, limitOf),
	cell.NoSuchUser:         form("job rejected: the user %q does not exist", userOf),
	cell.NoAccess:           form("job rejected: %s@%s is not allowed to submit jobs", userOf, hostOf),
	cell.TooManyJobs:        form("job rejected: only %d jobs are allowed per cluster", limitOf),
	cell.TooManyJobsOfUser:  form("job rejected: only %d jobs are allowed per user (current job count: %d)", limitOf, usedOf),
	cell.TooManySubmissions: tooManySubmissions,
	cell.RequestRefused:     requestRefused,
	cell.SlotsRefused:       form("job rejected: %s", causeOf),
	cell.NoSuchElements:     form("no host can ever give the job the GPUs that it requests, or other elements with such attributes; there are: %s", nameOf),
	cell.OwnPredecessor:     form("denied: job %q may not be its own jobnet predecessor", nameOf),
	cell.ArrayHoldOfSingle:  form("Can only specify \"-hold_jid_ad\" option with an array job (using \"-t\" option)"),
	cell.ArrayHoldOfRange:   form("This array job must have the same range of sub-tasks as the dependent array job specified with -hold_jid_ad"),

	// Limits of the daemon, which the original does not have.
	cell.ScriptTooLarge:     form("%s: the script has %s, and at most %s are allowed", rejectionOf, sizeOf, limitSizeOf),
	cell.RequestTooLarge:    form("%s: environment, arguments and other requests take %s, and at most %s are allowed", rejectionOf, sizeOf, limitSizeOf),
	cell.UserSpaceExceeded:  form("%s: %s needs %s in the spool directory, and of the %s that user %q may have there %s are in use", rejectionOf, subjectOf, sizeOf, limitSizeOf, userOf, usedSizeOf),
	cell.UserMemoryExceeded: form("%s: %s needs %s in the memory of the daemon, and of the %s that user %q may have there %s are in use", rejectionOf, subjectOf, sizeOf, limitSizeOf, userOf, usedSizeOf),
	cell.UserFilesExceeded:  form("%s: the script of %s needs a file in the spool directory, and of the %d that user %q may have there %d are in use", rejectionOf, subjectOf, limitOf, userOf, usedOf),
	cell.SpoolSpaceExceeded: form("%s: %s needs %s, and the file system of the spool directory has %s left, of which %s are reserved", rejectionOf, subjectOf, sizeOf, limitSizeOf, usedSizeOf),
	cell.ReserveExceeded:    form("denied: the file system of the spool directory has %s left, of which %s are reserved; until there is more, jobs can only be released and deleted", limitSizeOf, usedSizeOf),
	cell.SpoolFilesExceeded: form("%s: the script of %s needs a file, and the file system of the spool directory has %d files (inodes) left, of which %d are reserved", rejectionOf, subjectOf, limitOf, usedOf),

	// qresub
	cell.NoJobToCopy: form("job \"%d\" does not exist", jobOf),
	cell.MayNotCopy:  form("job rejected: %s@%s is not allowed to resubmit jobs of user %s", userOf, hostOf, nameOf),

	// qrsub, qrdel
	cell.NotReservationUser:            form("denied: %q must be manager or in userset %q", userOf, func(*cell.Event) any { return qconf.ARUsers }),
	cell.TooManyReservations:           form("denied: only %d advance reservations are allowed per cluster (current count: %d)", limitOf, usedOf),
	cell.NoSuchUserSet:                 form("Userset %q does not exist", nameOf),
	cell.NoDuration:                    form("missing value for \"end time or duration\" in advance reservation request"),
	cell.DurationDiffers:               form("difference between end and start time does not correspond to duration"),
	cell.EndBeforeStart:                form("start time is later than end time"),
	cell.StartInPast:                   form("start time is in the past"),
	cell.ReservationGranted:            form("Your advance reservation %d has been granted", jobOf),
	cell.AllReservationsNeedManager:    form("denied: %q must be manager to modify all advance reservations", userOf),
	cell.NoReservationsOfUsers:         form("There is no advance_reservation registered for the following users: %s", namesOf),
	cell.NoSuchReservation:             form("denied: advance_reservation %q does not exist", nameOf),
	cell.MayNotDeleteReservation:       form("%s - you do not have the necessary privileges to delete the advance_reservation \"%d\"", userOf, jobOf),
	cell.ReservationDeletionRegistered: form("%s has registered the advance_reservation %d for deletion", userOf, jobOf),
	cell.ReservationDeleted:            form("%s has deleted advance_reservation %d", userOf, jobOf),
	cell.ReservationInvalid:            form("the advance reservation id %d is invalid", numberOf),
	cell.LongerThanReservation:         form("the job duration is longer than duration of the advance reservation id %d", numberOf),
	cell.BeyondReservation:             form("the job duration exceeds the end time of the advance reservation id %d", numberOf),

	// qconf -clearusage
	cell.UsageNeedsManager: form("denied: %q must be manager for this operation", userOf),
	cell.UserCleared:       form("%s@%s modified %q in user list", userOf, hostOf, nameOf),
	cell.ProjectCleared:    form("%s@%s modified %q in project list", userOf, hostOf, nameOf),
}

// operationStates are the states of queue instances after operations of qmod.
var operationStates = map[cell.QueueOperation]string{
	cell.DisableQueue: "disabled", cell.EnableQueue: "enabled", cell.SuspendQueue: "suspended",
	cell.UnsuspendQueue: "unsuspended", cell.ClearQueueError: "no error",
}

// attributes are the parts of a job that options of qalter change.
var attributes = map[string]string{
	"-a": "start time", "-A": "account", "-ac": "context", "-binding": "binding", "-c": "checkpoint attributes",
	"-ckpt": "checkpointing environment", "-cwd": "working directory", "-dc": "context", "-dl": "deadline initiation",
	"-e": "stderr path list", "-hold_jid": "job id hold list", "-hold_jid_ad": "job id hold array list",
	"-i": "stdin path list", "-j": "output merge behaviour", "-l": "resource list", "-m": "mail options", "-M": "mail list",
	"-masterq": "master hard queue list", "-N": "job name", "-notify": "notify behaviour", "-o": "stdout path list",
	"-P": "project", "-pe": "parallel environment", "-q": "queue list", "-r": "restart behaviour",
	"-R": "reservation behaviour", "-S": "shell list", "-sc": "context", "-tc": "task concurrency", "-v": "environment",
	"-V": "environment", "-wd": "working directory",
}

// valueNames are the values that other options of qalter set.
var valueNames = map[string]string{
	"-ar": "job advance reservation", "-js": "job share", "-ot": "override tickets", "-p": "scheduling priority",
}

// rejections begin the refusals of data for which there is no room, and subjects name the data.
var (
	rejections = map[cell.Subject]string{
		cell.NewJob: "job rejected", cell.AlteredJob: "denied", cell.TaskHolds: "denied",
		cell.NewReservation: "advance_reservation rejected",
	}
	subjects = map[cell.Subject]string{
		cell.NewJob: "the job", cell.AlteredJob: "the altered job", cell.TaskHolds: "holding tasks by themselves",
		cell.NewReservation: "the reservation",
	}
)

func noSuchTasks(e *cell.Event) string {
	job, of := number(e.Job), ""
	if e.Name != "" {
		job, of = e.Name, "user(s) "+e.User
	}
	text := printer.Message("job %q task \"%d\" does not exist", job, e.Array.First)
	preposition := " for "
	if e.Array.Len() > 1 {
		text = printer.Message("job %q task id range %q comprises no tasks", job, e.Array.String())
		preposition = " under "
	}
	if of != "" {
		text += preposition + of
	}
	return text
}

// tasksOf returns the tasks of an event with the step of each range.
func tasksOf(e *cell.Event) any { return rangesText(e.Tasks) }

// rangesText returns a list of tasks as commands print it: with the step of each range. Tasks at equal
// distances are one range.
func rangesText(l rangelist.List) string {
	if all := slices.Collect(l.All()); len(all) > 2 {
		step := all[1] - all[0]
		even := true
		for i, n := range all {
			even = even && n == all[0]+i*step
		}
		if even {
			return strconv.Itoa(all[0]) + "-" + strconv.Itoa(all[len(all)-1]) + ":" + strconv.Itoa(step)
		}
	}
	text := ""
	for r := range l.Ranges() {
		if text != "" {
			text += ","
		}
		text += strconv.Itoa(r.First)
		switch n := (r.Last-r.First)/r.Step + 1; {
		case n == 2:
			text += "," + strconv.Itoa(r.Last)
		case n > 2:
			text += "-" + strconv.Itoa(r.Last) + ":" + strconv.Itoa(r.Step)
		}
	}
	return text
}

func alterationDisallowed(e *cell.Event) string {
	if len(e.Names) == 0 {
		return "No job modification allowed due to jsv_allowed_mod configuration"
	}
	return "rejected due to jsv_allowed_mod configuration which does not allow: " + strings.Join(e.Names, ",")
}

func alteredText(e *cell.Event) string {
	text, ok := attributes[e.Option]
	switch {
	case !ok:
		return strings.TrimPrefix(e.Option, "-")
	case e.Option != "-l" && e.Option != "-q":
		return text
	case e.Soft:
		return "soft " + text
	}
	return "hard " + text
}

func noSuitableQueues(e *cell.Event) string {
	prefix := "error"
	switch {
	case e.Validation == submit.ValidateVerify || e.Validation == submit.ValidatePoke:
		prefix = "verification"
	case e.Subject == cell.NewReservation:
		prefix = "advance_reservation"
	case e.Validation == submit.ValidateWarn:
		prefix = "warning"
	}
	return prefix + ": no suitable queues"
}

func jobSubmitted(e *cell.Event) string {
	kind := "job"
	if e.Array != nil {
		kind = "job-array"
	}
	return printer.Message("Your %s %s (%q) has been submitted", kind, numberWithTasks(e), e.Name)
}

// numberWithTasks returns the number of a job, with its tasks if it is an array job.
func numberWithTasks(e *cell.Event) any {
	if e.Array != nil {
		return number(e.Job) + "." + e.Array.String()
	}
	return number(e.Job)
}

func tooManySubmissions(e *cell.Event) string {
	return printer.Message("job rejected: only %d jobs are allowed per user and %s (max_u_submissions): try again in %s, at %s",
		e.Limit, secondsText(e.Rate.Period), secondsText(e.Rate.Wait), e.Rate.Until.Format("15:04:05"))
}

// requestRefused returns the scheduler's text, which names a job, for the subject of the event.
func requestRefused(e *cell.Event) string {
	text := e.Err.Error()
	if refused, ok := errors.AsType[*scheduler.RequestError](e.Err); ok {
		text = refused.Text
	}
	if rest, ok := strings.CutPrefix(text, `"job" denied`); ok && e.Subject == cell.NewReservation {
		return `"advance_reservation" denied` + rest
	}
	return text
}

func secondsText(d time.Duration) string {
	n := int64(d / time.Second)
	if n == 1 {
		return "1 second"
	}
	return strconv.FormatInt(n, 10) + " seconds"
}

// sizeText returns a number of bytes for people.
func sizeText(n int64) string {
	const step = 1024
	if n < 10*step {
		return printer.Sprintf("%d bytes", n)
	}
	size, letters := float64(n)/step, "KMGT"
	for ; size >= step && len(letters) > 1; letters = letters[1:] {
		size /= step
	}
	return printer.Sprintf("%.1f%c", size, letters[0])
}
