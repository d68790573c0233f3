package starter

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/group"
)

// request is an action on the job.
type request int

const (
	requestNone request = iota
	requestKill
	requestStop
	requestContinue
	requestMigrate
	requestSignal // and above: requestSignal + the number of the signal
)

// killPause is how long repeated requests to end the job are ignored: a master repeats them every
// few seconds, and a terminate method should run once.
const killPause = 10 * time.Second

// receiveAll handles the signals that have arrived.
func (s *Shepherd) receiveAll() {
	for {
		sig, ok := s.events.Take()
		if !ok {
			return
		}
		s.receive(sig)
	}
}

// receive translates a signal from the daemon into a request. The daemon cannot send the supervisor
// the signals that are meant for the job. Like the original's execd it sends other signals in their
// place, and writes the number of any other signal to a file.
func (s *Shepherd) receive(sig syscall.Signal) {
	var r request
	switch sig {
	case unix.SIGTSTP:
		r = requestKill
	case unix.SIGTERM:
		// execd does not send it. An administrator who ends the supervisor wants the job to end.
		r = requestKill
	case unix.SIGTTIN:
		n, err := s.dir.ReadNumber(jobdir.FileSignal)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.trace(err.Error())
			}
			return
		}
		r = requestFor(syscall.Signal(n))
	case unix.SIGCONT:
		r = requestContinue
	case unix.SIGUSR1:
		r = requestSignal + request(unix.SIGUSR1)
	case unix.SIGUSR2:
		r = requestSignal + request(unix.SIGXCPU)
	case unix.SIGTTOU:
		r = requestMigrate
	case unix.SIGWINCH:
		r = requestStop
	default:
		return // SIGCHLD, and signals of a terminal
	}
	if r == requestNone {
		return
	}
	s.trace("asked to " + r.String())
	if s.active == nil || s.ended != nil {
		// Prolog and epilog are not disturbed; the job gets the request when it starts. A job that has
		// ended, but has methods left, needs no request.
		if r == requestKill || r == requestMigrate {
			s.killed = true
			s.elsewhere = r == requestMigrate // the last request counts
		}
		s.pending = append(s.pending, r)
		return
	}
	s.apply(r)
}

// requestFor returns the request that delivering a signal to a job stands for.
func requestFor(sig syscall.Signal) request {
	switch {
	case sig == unix.SIGKILL:
		return requestKill
	case sig == unix.SIGSTOP:
		return requestStop
	case sig == unix.SIGCONT:
		return requestContinue
	case sig > 0 && sig <= 64:
		return requestSignal + request(sig)
	}
	return requestNone
}

// String returns the name of the request.
func (r request) String() string {
	switch r {
	case requestKill:
		return "end the job"
	case requestStop:
		return "suspend the job"
	case requestContinue:
		return "resume the job"
	case requestMigrate:
		return "migrate the job"
	}
	return "deliver signal " + job.SignalName(syscall.Signal(r-requestSignal))
}

// jobIsWanted reports whether the job is still to be started, given the requests that arrived
// before it. A job that is to end is not started, and the steps before it are skipped.
func (s *Shepherd) jobIsWanted() bool {
	s.reap()
	s.receiveAll()
	if !s.killed {
		return true
	}
	s.trace("the job is to end: it is not started")
	if s.elsewhere && s.d.Ckpt != nil {
		s.reportMigration(false)
	}
	return false
}

// deliverPending applies the requests that arrived before the job started.
func (s *Shepherd) deliverPending() {
	pending := s.pending
	s.pending = nil
	for _, r := range pending {
		s.apply(r)
	}
}

// apply carries out a request, after the notification that the job may have asked for
// (sge_submit(1), -notify).
func (s *Shepherd) apply(r request) {
	a := s.active
	switch r {
	case requestKill:
		s.killed = true
		a.migrating = false // the job no longer migrates
		if time.Since(s.lastKill) < killPause && !s.lastKill.IsZero() {
			return
		}
	case requestContinue:
		if a.pending == requestStop {
			a.pending = requestNone
			s.clear(dueNotified)
		}
	}
	if a.pending == r {
		return // announced already; the deadline stays
	}
	if a.pending == requestKill && r == requestStop {
		return
	}
	if sig := s.notification(r); sig != 0 {
		s.trace("notify the job by signal " + job.SignalName(sig) + ", " + s.d.Notify.String() + " before it is to " + r.verb())
		s.signalJob(sig)
		a.pending = r
		s.set(dueNotified, time.Now().Add(s.d.Notify))
		return
	}
	if r == requestKill {
		a.pending = requestNone
		s.clear(dueNotified)
	}
	s.carryOut(r)
}

func (r request) verb() string {
	if r == requestStop {
		return "stop"
	}
	return "end"
}

// notification returns the signal that announces a request, 0 for none.
func (s *Shepherd) notification(r request) syscall.Signal {
	if s.d.Notify <= 0 {
		return 0
	}
	n, sig := s.d.NotifyKill, unix.SIGUSR2
	switch r {
	case requestKill:
	case requestStop:
		n, sig = s.d.NotifySusp, unix.SIGUSR1
	default:
		return 0
	}
	switch n.Kind {
	case job.NotifyNone:
		return 0
	case job.NotifySignal:
		if named, ok := job.ParseSignal(n.Signal); ok {
			return named
		}
	}
	return sig
}

// carryOut carries out a request at once.
func (s *Shepherd) carryOut(r request) {
	failpoint.At("shepherd-request")
	a := s.active
	switch r {
	case requestKill:
		s.lastKill = time.Now()
		s.method(terminateMethod, s.d.TerminateMethod, unix.SIGKILL)
		if a.suspended && s.d.TerminateMethod != "" {
			// A stopped process would see the signal only after it is resumed.
			s.thaw()
			s.signalJob(unix.SIGCONT)
		}
	case requestStop:
		a.suspended = true
		s.method("suspend_method", s.d.SuspendMethod, unix.SIGSTOP)
		if s.d.SuspendMethod == "" {
			s.freeze()
		}
	case requestContinue:
		a.suspended = false
		s.thaw()
		s.method("resume_method", s.d.ResumeMethod, unix.SIGCONT)
	case requestMigrate:
		s.migrate()
	default:
		s.signalJob(syscall.Signal(r - requestSignal))
	}
}

// freeze freezes the job's control group if suspension uses the default signal: then SIGSTOP and
// SIGCONT that the job's processes send each other make no difference. It does not wait until all
// processes are frozen.
//
// A command that ends the job is in the group as well, and has to continue: the group is not frozen while
// it may run.
func (s *Shepherd) freeze() {
	if s.group == nil || !s.d.AddGroupKill || s.killed || s.methodRuns(migrationMethod) {
		return
	}
	var busy *group.BusyError
	var none *group.NotSupportedError
	if err := s.group.Freeze(0); err != nil && !errors.As(err, &busy) && !errors.As(err, &none) {
		s.trace(err.Error())
	}
}

// thaw undoes freeze.
func (s *Shepherd) thaw() {
	if s.group == nil || !s.d.AddGroupKill {
		return
	}
	var none *group.NotSupportedError
	if err := s.group.Thaw(); err != nil && !errors.As(err, &none) {
		s.trace(err.Error())
	}
}

// method applies suspend_method, resume_method or terminate_method (queue_conf(5)): a signal, a
// command line that begins with a slash, or the default signal.
func (s *Shepherd) method(name, value string, byDefault syscall.Signal) {
	switch {
	case value == "":
		s.signalJob(byDefault)
	case strings.HasPrefix(value, "/"):
		s.command(name, value)
	default:
		sig, ok := job.ParseSignal(value)
		if !ok {
			s.trace(name + " " + value + " is neither a signal nor an absolute path: the default is used")
			sig = byDefault
		}
		s.signalJob(sig)
	}
}

// terminateMethod is the name under which terminate_method runs.
const terminateMethod = "terminate_method"

// command starts a method command, unless the same one is still running.
func (s *Shepherd) command(name, line string) {
	if s.methodRuns(name) {
		s.trace(name + " is still running: not started again")
		return
	}
	refused := s.refused().Forks
	child, err := s.startMethod(name, line)
	if err != nil {
		s.trace(name + ": " + err.Error())
		s.methodStopped(name)
		s.freezeAgain()
		return
	}
	s.methods[child.PID] = name
	s.methodChildren[child.PID] = method{child, refused}
}

// method is a method command that has been started.
type method struct {
	*spawn.Child
	refused uint64 // forks that the group had refused to the job before
}

// methodStopped ends the job if its terminate method could not do that: the owner of the job could have
// caused this, for example by a job that uses all of its memory or processes, in which the method has no room.
func (s *Shepherd) methodStopped(name string) {
	if name == terminateMethod && s.active != nil && s.ended == nil {
		s.trace("terminate_method could not run to its end: SIGKILL")
		s.signalJob(unix.SIGKILL)
	}
}

func (s *Shepherd) methodRuns(name string) bool {
	for _, running := range s.methods {
		if running == name {
			return true
		}
	}
	return false
}

// methodTimeout is how long a method command may continue after the job has finished, if there is
// no script_timeout.
const methodTimeout = 2 * time.Minute

// waitMethods waits for method commands that are still running after the job, and then ends all processes
// that they have left. No other step begins before: afterwards the supervisor could not distinguish these
// processes from those that a procedure leaves running. A command that hangs does not keep the job from
// being reported.
func (s *Shepherd) waitMethods() {
	if len(s.methods) == 0 {
		return
	}
	timeout := methodTimeout
	if s.d.ScriptTimeout > 0 {
		timeout = s.d.ScriptTimeout
	}
	if !s.d.AddGroupKill {
		s.beginStep(false) // the job's own processes may continue
	}
	for _, name := range s.methods {
		s.trace(name + " still runs: the next step waits for it")
	}
	s.set(dueTimeout, time.Now().Add(timeout))
	for len(s.methods) > 0 {
		s.pause()
		if s.take(dueTimeout, time.Now()) {
			for _, name := range s.methods {
				s.trace(name + " has run for " + timeout.String() + " since the end of the job: it is ended")
			}
			break
		}
	}
	s.clear(dueTimeout)
	s.killAll(true)
}

func (s *Shepherd) methodEnded(pid int, name string, status syscall.WaitStatus) {
	m := s.methodChildren[pid]
	delete(s.methodChildren, pid)
	failure := m.Failed()
	if failure != nil {
		s.trace(name + ": " + explain(failure))
	} else {
		s.trace(name + " " + describeEnd(status))
		s.checkpointEnded(name, exitStatus(status))
	}
	if failure != nil || status.Signaled() || status != 0 && s.refused().Forks > m.refused {
		s.methodStopped(name)
	}
	s.freezeAgain()
}

// freezeAgain freezes the group of a suspended job, which was thawed for a command.
func (s *Shepherd) freezeAgain() {
	if a := s.active; a != nil && s.ended == nil && a.suspended && s.d.SuspendMethod == "" {
		s.freeze()
	}
}
