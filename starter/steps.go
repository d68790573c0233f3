package starter

import (
	"errors"
	"strconv"
	"syscall"
	"time"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// step is one of the site's procedures around a job. The codes are those of sge_status(5): one for
// a procedure that could not be started, one for a procedure that failed, and one for a procedure
// that the user may have ended. The last is the job's failure, and does not change the result of a
// job that has already run.
type step struct {
	name       string
	command    func(d *job.Description) string
	notStarted job.Failed
	inStep     job.Failed
	signalled  job.Failed
	pe         bool // output goes to the .po and .pe files
	prepares   bool // precedes the job, and is not needed without the job
}

var (
	// The original has 7, "before prolog", for a prolog that cannot be started, which takes every
	// queue of the host out of service. The prolog belongs to one queue, so it is an error of that
	// queue here.
	stepProlog = step{
		"prolog", func(d *job.Description) string { return d.Prolog },
		job.FailedProlog, job.FailedProlog, job.FailedAppError, false, true,
	}
	stepPEStart = step{
		"pe_start", func(d *job.Description) string { return d.PE.Start },
		job.FailedBeforePEStart, job.FailedPEStart, job.FailedAppError, true, true,
	}
	stepPEStop = step{
		"pe_stop", func(d *job.Description) string { return d.PE.Stop },
		job.FailedBeforePEStop, job.FailedPEStop, job.FailedBeforePEStop, true, false,
	}
	stepEpilog = step{
		"epilog", func(d *job.Description) string { return d.Epilog },
		job.FailedBeforeEpilog, job.FailedEpilog, job.FailedBeforeEpilog, false, false,
	}
)

// result is the result of a step.
type result int

const (
	stepDone       result = iota // exit status 0, or nothing to do
	stepFailed                   // ran, with another exit status than 0
	stepNotStarted               // could not be started
)

// steps runs all steps in the order of sge_shepherd(8), as the picture in doc.go shows it.
func (s *Shepherd) steps() {
	prolog := s.procedure(stepProlog)
	if prolog == stepNotStarted {
		return
	}
	if prolog == stepDone && s.jobIsWanted() {
		s.parallelSteps()
	}
	s.procedure(stepEpilog)
}

// parallelSteps runs the job, and the start and stop procedures of its parallel environment around it.
func (s *Shepherd) parallelSteps() {
	if s.d.PE == nil {
		s.job()
		return
	}
	start := s.procedure(stepPEStart)
	if start == stepNotStarted {
		return
	}
	if start == stepDone && s.jobIsWanted() {
		s.job()
	}
	s.procedure(stepPEStop)
}

// procedure runs one of the site's procedures and interprets its exit status (queue_conf(5),
// prolog): 0 continues, 99 reschedules the job, 100 puts the job into error state, and any other
// puts the queue into error state.
func (s *Shepherd) procedure(st step) result {
	command := st.command(s.d)
	if command == "" {
		return stepDone
	}
	as, err := s.procedureUser(command)
	if err != nil {
		words := ""
		if errors.Is(err, userdb.ErrUnknown) {
			user, _ := job.Procedure(command)
			words = `can't get passwd entry for user "` + user + `"`
		}
		s.fail(st.notStarted, explained(words, st.name+": "+err.Error()))
		return stepNotStarted
	}
	s.beginStep(as.UID != s.owner.UID)
	f := procedureFiles(s.d, st.pe)
	failure, err := s.openOutlets(&f, st.name, as)
	defer func() { s.closeOutlets(st.name, as) }()
	p := parseProcedure(command, procedureVariables(s.d, s.common, [3]string{f.path(0), f.path(1), f.path(2)}))
	a := procedureAttempt(st.name, p.argv, s.d.Command)
	if failure != nil {
		s.failStart(startFailure(failure, st.notStarted), st.name, failure, a, as)
		return stepNotStarted
	}
	if as.Name != s.owner.Name {
		if err := s.checkProgram(p, as); err != nil {
			s.fail(st.notStarted, st.name+": not run as user "+as.Name+": "+err.Error())
			return stepNotStarted
		}
	}
	s.trace(st.name + " starts as user " + as.Name + ": " + p.argv[0])
	failpoint.AtOf("shepherd-before", st.name)
	var child *spawn.Child
	if err == nil {
		child, err = s.procedureProgram(f, p, a, as).Start()
	}
	if err != nil {
		s.fail(st.notStarted, st.name+": "+err.Error())
		return stepNotStarted
	}
	s.started()
	failpoint.AtOf("shepherd-during", st.name)
	// A procedure that runs as the owner may be ended for the owner. One of another user may have
	// begun something that it has to finish.
	end := s.waitProcedure(child, st.name, st.prepares && as.UID == s.owner.UID)
	failpoint.AtOf("shepherd-after", st.name)
	if failure := child.Failed(); failure != nil {
		otherwise := st.notStarted
		if failure.Errno == syscall.E2BIG { // caused by the user's variables, which procedures of the owner get
			otherwise = st.signalled
		}
		s.failStart(startFailure(failure, otherwise), st.name, failure, a, as)
		return stepNotStarted
	}
	s.trace(st.name + " " + describeEnd(end.status))
	if end.unwanted {
		return stepDone // not a failure: the job was deleted before its start
	}
	if end.timedOut && end.waiting != 0 {
		// The time went into opening the job's files, for example on a file server, not into the
		// procedure.
		failure := &spawn.StartError{Stage: end.waiting, What: p.argv[0], Errno: syscall.ETIMEDOUT}
		if i := int(end.waiting - spawn.StageStdin); i < len(f.inherit) {
			failure.What = f.path(i)
		}
		s.failStart(startFailure(failure, st.notStarted), st.name, failure, a, as)
		return stepNotStarted
	}
	r := s.applyEnd(st, as, end)
	if err := s.heedEnvironment(st.name); err != nil && r == stepDone {
		s.fail(st.inStep, st.name+": "+err.Error())
		return stepFailed
	}
	return r
}

// procedureUser returns the user that a procedure runs as: the one before its @, or the owner of
// the job.
func (s *Shepherd) procedureUser(command string) (account, error) {
	name, _ := job.Procedure(command)
	if name == "" || name == s.owner.Name {
		return s.owner, nil
	}
	as, err := lookup(s.db, name)
	if err == nil && !s.privileged {
		err = errors.New("cannot run as user " + name + ": not root")
	}
	return as, err
}

// applyEnd evaluates the end of a procedure.
func (s *Shepherd) applyEnd(st step, as account, end ending) result {
	status := exitStatus(end.status)
	// The owner of the job can send signals to processes of the owner. Shells exit with these
	// statuses if a signal has ended a command.
	const firstSignal, lastSignal = 129, 128 + 64
	if as.UID == s.owner.UID && (end.stopped || !end.timedOut && status >= firstSignal && status <= lastSignal) {
		text := st.name + " " + describeEnd(end.status)
		if end.stopped {
			text = st.name + " was stopped, and ended after " + s.d.ScriptTimeout.String() + " (script_timeout)"
		}
		s.fail(st.signalled, exitWords(st.name, status, text+"; it ran as the owner of the job, who may have done so"))
		return stepFailed
	}
	if end.timedOut {
		s.fail(st.inStep, st.name+" was ended after "+s.d.ScriptTimeout.String()+" (script_timeout)")
		return stepFailed
	}
	switch status {
	case 0:
		return stepDone
	case job.ExitReschedule:
		s.fail(job.FailedReschedule, exitWords(st.name, status, rescheduled))
	case job.ExitAppError:
		s.fail(job.FailedAppError, exitWords(st.name, status, intoErrorState))
	default:
		more := ""
		if end.status.Signaled() {
			more = st.name + " " + describeEnd(end.status)
		}
		s.fail(st.inStep, exitWords(st.name, status, more))
	}
	return stepFailed
}

// The meanings of the exit statuses 99 and 100, for the reason of a failure.
const (
	rescheduled    = "the job is to be run again"
	intoErrorState = "the job goes into the error state"
)

// heedEnvironment reads the changes that a procedure has made to the file environment. They apply
// from the next step on, as in the original. Only procedures of root and of the file's owner can
// write to the file. Their changes still apply to the job's environment only, and procedures of
// other users get them with the prefix SGE_JOB_ENV_: a prolog may write a value that the user
// chose, and such a value can contain newlines.
func (s *Shepherd) heedEnvironment(name string) error {
	b, err := s.dir.ReadFile(jobdir.FileEnvironment)
	if err != nil {
		return err
	}
	vars, skipped := jobdir.ParseEditedEnvironment(b, s.d.Daemon)
	for _, line := range skipped {
		s.trace(jobdir.FileEnvironment + ":" + itoa(line) + ": expected NAME=value; " + name + " may have written it, it is skipped")
	}
	if n := s.jobEnv.change(s.d.Environment, vars); n > 0 {
		s.trace(name + " has changed " + itoa(n) + " variables of the job")
	}
	s.jobEnv.unset(exitStatusVariable)
	s.d.Environment = vars
	return nil
}

// startFailure returns the failure code for a child that could not execute its program. Requests of
// the job (files, directory, groups) are the job's failure in every step; for other causes it
// returns otherwise.
func startFailure(f *spawn.StartError, otherwise job.Failed) job.Failed {
	switch f.Stage {
	case spawn.StageStdin, spawn.StageStdout, spawn.StageStderr:
		return job.FailedOpenOutput
	case spawn.StageChdir:
		return job.FailedCwd
	case spawn.StageIdentity:
		if f.Errno == syscall.EINVAL {
			return job.FailedAddGroup
		}
	}
	return otherwise
}

func explain(f *spawn.StartError) string {
	what := map[spawn.Stage]string{
		spawn.StageSetup:    "cannot prepare the process: ",
		spawn.StageLimit:    "cannot set limit ",
		spawn.StageIdentity: "cannot change identity: ",
		spawn.StageStdin:    "cannot open standard input ",
		spawn.StageStdout:   "cannot open standard output ",
		spawn.StageStderr:   "cannot open standard error ",
		spawn.StageChdir:    "cannot change into working directory ",
		spawn.StageExec:     "cannot execute ",
	}[f.Stage]
	if i := indexBlank(f.What); f.Stage == spawn.StageExec && i >= 0 {
		// All users can read the reason. A program name with blanks is a command line that was
		// meant for a shell (qsub -shell n), and may contain arguments.
		return what + f.What[:i] + " ... (the command has blanks, and no shell splits it): " + f.Errno.Error()
	}
	text := what + f.Error()
	if f.Stage == spawn.StageExec && f.Errno == syscall.ENOENT {
		text += " (or its interpreter is missing)"
	}
	return text
}

// indexBlank returns the index of the first blank or control character, -1 without one.
func indexBlank(s string) int {
	for i := range len(s) {
		if s[i] <= ' ' {
			return i
		}
	}
	return -1
}

// exitStatus returns the exit status as a shell reports it: 128+n after signal n.
func exitStatus(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func describeEnd(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		text := "was ended by signal " + job.SignalName(ws.Signal())
		if ws.CoreDump() {
			text += " (core dumped)"
		}
		return text
	}
	return "ended with exit status " + strconv.Itoa(ws.ExitStatus())
}

// jobStep is the original's name for the job in messages about exit statuses.
const jobStep = "job start"

// job runs the job itself, from its start to the end of its last process.
func (s *Shepherd) job() {
	if s.d.Terminal != nil {
		if err := s.openTerminal(); err != nil {
			s.fail(job.FailedOpenOutput, "cannot make the terminal of the job: "+err.Error())
			return
		}
		defer s.closeTerminal()
	}
	inv := s.jobInvocation()
	a := jobAttempt(s.d.Command, inv)
	child, start, err := s.startJob(inv, a)
	if s.terminal != nil {
		s.terminal.begun()
	}
	if err != nil {
		s.dir.Release(jobdir.FileUsage)
		s.fail(job.FailedInJobChild, "job: "+err.Error())
		return
	}
	end := s.waitJob(child, start)
	failpoint.At("shepherd-job-ended")
	s.killAll(false)
	s.waitMethods()
	failpoint.At("shepherd-all-ended")
	if failure := child.Failed(); failure != nil {
		code := startFailure(failure, job.FailedInJobChild)
		if failure.Stage == spawn.StageExec {
			code = job.FailedShell
		}
		s.dir.Release(jobdir.FileUsage)
		s.failStart(code, "job", failure, a, s.owner)
		s.active = nil
		return
	}
	s.trace("job " + describeEnd(end.status))
	s.afterJob(end, start)
	s.active = nil
}

// afterJob records what the job used and how it ended.
func (s *Shepherd) afterJob(end ending, start time.Time) {
	u := jobdir.NewUsage(end.status, &s.reaped, start, end.at)
	s.finalUsage(u)
	s.watchScratch(end.at)
	for _, notice := range []string{s.refusals(end.at), s.scratchNotice(end)} {
		if notice == "" {
			continue
		}
		s.trace(notice)
		if u.Notice != "" {
			u.Notice += "; "
		}
		u.Notice += notice
	}
	s.awaitSpool()
	limit := s.active.exceeded
	if limit == nil {
		limit = s.limitBehind(end)
	}
	switch {
	case limit != nil:
		// With a signal in the usage file a real execd would report failure 100, and hide that a
		// limit was the reason. The exit status still contains the signal.
		u.Signal = 0
		u.Limit, u.Reason = record(limit), s.ranOut(limit)
		if limit.Unit == job.Bytes {
			u.MaxVmem = max(u.MaxVmem, int64(limit.Measured))
		}
		s.fail(job.FailedLimit, u.Reason)
	case s.hostKills > 0 && end.status.Signaled():
		u.Reason = "the kernel has ended a process of the job: the host had no memory left" + s.largestText()
		s.trace(u.Reason)
	case end.status.ExitStatus() == job.ExitReschedule && !s.d.ForbidReschedule:
		s.fail(job.FailedReschedule, exitWords(jobStep, job.ExitReschedule, rescheduled))
	case end.status.ExitStatus() == job.ExitAppError && !s.d.ForbidAppError:
		s.fail(job.FailedAppError, exitWords(jobStep, job.ExitAppError, intoErrorState))
	}
	// This precedes the usage file: with it a real execd takes the job as finished.
	s.decideMigration()
	failpoint.At("shepherd-before-usage")
	u.Micros = s.d.Daemon.Micros()
	if err := s.dir.WriteUsage(u); err != nil {
		s.fail(job.FailedNoExitStatus, err.Error())
	}
	failpoint.At("shepherd-usage")
	_ = s.dir.Remove(jobdir.FileOnline) // replaced by the usage file
	s.trusted.set(exitStatusVariable, strconv.Itoa(u.ExitStatus))
	s.cleanCheckpoints()
	failpoint.At("shepherd-after-job")
}
