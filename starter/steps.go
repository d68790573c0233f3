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

// step is one of the site's procedures around a job. The codes are those of
// sge_status(5): one for a procedure that could not be started, one for a
// procedure that failed, and one for a procedure that the user may have ended:
// this is the job's failure, and leaves a job that has run as it is.
type step struct {
	name       string
	command    func(d *job.Description) string
	notStarted job.Failed
	inStep     job.Failed
	signalled  job.Failed
	pe         bool // output goes to the .po and .pe files
	prepares   bool // it comes before the job, and is not needed without the job
}

var (
	// The original has 7, "before prolog", for a prolog that cannot be started,
	// and with that takes every queue of the host out of service. It is one
	// queue's procedure, so it is that queue's error.
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

// result is how a step went.
type result int

const (
	stepDone       result = iota // exit status 0, or nothing to do
	stepFailed                   // it ran and did not end with 0
	stepNotStarted               // it could not be run
)

// steps is the order of sge_shepherd(8): the picture in doc.go.
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

// procedure runs one of the site's procedures and applies the meaning of its
// exit status (queue_conf(5), prolog): 0 goes on, 99 reschedules the job, 100
// puts it into the error state, everything else is the queue's error.
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
	s.beginStep()
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
	// The owner may end what runs as the owner. What another user's procedure has begun may need
	// its end.
	end := s.waitProcedure(child, st.name, st.prepares && as.UID == s.owner.UID)
	failpoint.AtOf("shepherd-after", st.name)
	if failure := child.Failed(); failure != nil {
		otherwise := st.notStarted
		if failure.Errno == syscall.E2BIG { // by the user's variables, which the owner's procedures all get
			otherwise = st.signalled
		}
		s.failStart(startFailure(failure, otherwise), st.name, failure, a, as)
		return stepNotStarted
	}
	s.trace(st.name + " " + describeEnd(end.status))
	if end.unwanted {
		return stepDone // nothing has failed: the job is not started, as it was asked
	}
	if end.timedOut && end.waiting != 0 {
		// A file server: what the job has asked for, and not the procedure, has taken
		// the time.
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

// procedureUser returns the user as whom a procedure runs: the one before its @, or the owner
// of the job.
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

// applyEnd applies the end of a procedure.
func (s *Shepherd) applyEnd(st step, as account, end ending) result {
	status := exitStatus(end.status)
	// The owner of the job can send signals to what runs as the owner. Shells report so of
	// a command that a signal has ended.
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

// What the exit statuses 99 and 100 lead to.
const (
	rescheduled    = "the job is to be run again"
	intoErrorState = "the job goes into the error state"
)

// heedEnvironment takes what a procedure has changed in the file environment: it counts from
// the next step on, as in the original. Only the site's procedures can write there, those of
// root and of the user whose file it is. What they write is for the job all the same, and
// procedures of other users have it under SGE_JOB_ENV_: a line may be made of a value of the
// user's, and a value may have lines.
func (s *Shepherd) heedEnvironment(name string) error {
	b, err := s.dir.ReadFile(jobdir.FileEnvironment)
	if err != nil {
		return err
	}
	vars, skipped := jobdir.ParseEditedEnvironment(b)
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

// startFailure is the code for a child that did not become its program. What
// the job asked for (files, directory, groups) is held against the job whatever
// step met it first; the rest is for the caller to say.
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
		// Everybody reads the reason. What is one word here was meant as a line for a shell
		// (qsub -shell n), and has arguments behind the program.
		return what + f.What[:i] + " ... (the command has blanks, and no shell splits it): " + f.Errno.Error()
	}
	text := what + f.Error()
	if f.Stage == spawn.StageExec && f.Errno == syscall.ENOENT {
		text += " (or its interpreter is missing)"
	}
	return text
}

// indexBlank is where the first blank or control character is, -1 without one.
func indexBlank(s string) int {
	for i := range len(s) {
		if s[i] <= ' ' {
			return i
		}
	}
	return -1
}

// exitStatus is the exit status as shells have it: 128+n after signal n.
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

// jobStep is what the original calls the job where it tells its exit status.
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

// afterJob writes what the job used and how it ended.
func (s *Shepherd) afterJob(end ending, start time.Time) {
	u := jobdir.NewUsage(end.status, &s.reaped, start, end.at)
	s.finalUsage(u)
	if u.Notice = s.refusals(end.at); u.Notice != "" {
		s.trace(u.Notice)
	}
	s.awaitSpool()
	limit := s.active.exceeded
	if limit == nil {
		limit = s.limitBehind(end)
	}
	switch {
	case limit != nil:
		// A signal in the usage would make a real execd report 100, and hide
		// that a limit was the reason; the exit status keeps it.
		u.Signal = 0
		u.Limit, u.Reason = record(limit), crossed(limit)
		s.fail(job.FailedLimit, u.Reason)
	case s.hostOOM && end.status.Signaled():
		u.Reason = "the kernel has ended a process of the job: the host had no memory left"
		s.trace(u.Reason)
	case end.status.ExitStatus() == job.ExitReschedule && !s.d.ForbidReschedule:
		s.fail(job.FailedReschedule, exitWords(jobStep, job.ExitReschedule, rescheduled))
	case end.status.ExitStatus() == job.ExitAppError && !s.d.ForbidAppError:
		s.fail(job.FailedAppError, exitWords(jobStep, job.ExitAppError, intoErrorState))
	}
	// Before the usage, after which the job would be one that has died.
	s.decideMigration()
	failpoint.At("shepherd-before-usage")
	if err := s.dir.WriteUsage(u); err != nil {
		s.fail(job.FailedNoExitStatus, err.Error())
	}
	failpoint.At("shepherd-usage")
	_ = s.dir.Remove(jobdir.FileOnline) // usage says it better
	s.trusted.set(exitStatusVariable, strconv.Itoa(u.ExitStatus))
	s.cleanCheckpoints()
	failpoint.At("shepherd-after-job")
}
