package starter

import (
	"errors"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/limits/process"
)

// ending describes the end of a child.
type ending struct {
	status   syscall.WaitStatus
	rusage   syscall.Rusage
	at       time.Time
	timedOut bool
	unwanted bool        // it was ended because the job is to end
	stopped  bool        // one of its processes was stopped when it timed out
	waiting  spawn.Stage // the stage that it was at then, if it had not executed its program
}

// The deadlines of a supervisor. There is at most one of each kind.
type deadline int

const (
	dueTimeout     deadline = iota // script_timeout of a procedure: SIGTERM
	dueTimeoutKill                 // and SIGKILL
	dueUnwanted                    // a procedure before a job that is to end: SIGTERM
	dueNotified                    // the time after a notification has passed
	dueSoftRT
	dueHardRT
	dueSoftRTEnd // s_rt and the time granted after it
	dueForce     // a job over a limit has not ended on its terminate method
	dueCheckpoint
	dueLook     // measure the usage of the job
	dueNews     // events of the job's control group
	dueTerminal // no process has taken the terminal of a finished job
	dueUndead   // the job was killed and still has processes
	dueOutput   // a writer of output makes no progress
	numDue
)

// timeoutGrace is the time that a procedure has between SIGTERM and SIGKILL.
const timeoutGrace = 5 * time.Second

// unwantedGrace is how long a procedure before the job may continue if the job is to end.
const unwantedGrace = 10 * time.Second

func (s *Shepherd) set(k deadline, at time.Time) { s.due[k] = at }
func (s *Shepherd) clear(kinds ...deadline) {
	for _, k := range kinds {
		s.due[k] = time.Time{}
	}
}

// next returns the earliest deadline; zero for none.
func (s *Shepherd) next() time.Time {
	var first time.Time
	for _, at := range s.due {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// take returns the deadline of kind k if it has passed, and clears it.
func (s *Shepherd) take(k deadline, now time.Time) bool {
	if s.due[k].IsZero() || now.Before(s.due[k]) {
		return false
	}
	s.clear(k)
	return true
}

// pause waits for a signal, which it handles, for the end of a child, which it reaps, or for a
// deadline, which the caller handles.
func (s *Shepherd) pause() {
	fds := s.groupEvents()
	ofGroup := len(fds)
	if s.terminal != nil {
		of := s.terminal.poll()
		fds = append(fds, of[:]...)
	}
	others := len(fds)
	fds = s.pollOutlets(fds)
	if fds = s.events.Wait(s.next(), fds...); len(fds) > 0 {
		s.groupNews(fds[:ofGroup])
		s.terminalNews(fds[ofGroup:others])
		s.outletNews(fds[others:])
	}
	s.receiveAll()
	s.reap()
	s.watchWriters(time.Now())
}

// spoolPeriod is how often a read-only job directory is tried again.
const spoolPeriod = time.Second

// awaitSpool waits while the job directory is read-only: the kernel makes a file system read-only
// after an error. The result of the job would be lost if the supervisor ended. Space on a full disk
// was reserved before (reserved).
func (s *Shepherd) awaitSpool() {
	for s.dir.ReadOnly() {
		s.events.Wait(time.Now().Add(spoolPeriod))
		s.receiveAll()
		s.reap()
	}
}

// waitChild waits for a child. It calls tick after each event.
func (s *Shepherd) waitChild(pid int, tick func(now time.Time)) ending {
	s.awaited, s.ended = pid, nil
	s.reap()
	for {
		if s.ended != nil {
			return *s.ended
		}
		s.pause()
		if s.ended == nil { // otherwise the deadline came too late
			tick(time.Now())
		}
	}
}

// waitProcedure waits for one of the site's procedures, and ends it after script_timeout
// (execd-conf(5), SCRIPT_TIMEOUT). If the job is to end, unwanted procedures are ended shortly after
// that request.
func (s *Shepherd) waitProcedure(c *spawn.Child, name string, unneeded bool) ending {
	timedOut, unwanted, stopped, waiting := false, false, false, spawn.Stage(0)
	if s.d.ScriptTimeout > 0 {
		s.set(dueTimeout, time.Now().Add(s.d.ScriptTimeout))
	}
	e := s.waitChild(c.PID, func(now time.Time) {
		if unneeded && s.killed && s.due[dueUnwanted].IsZero() && !unwanted && !timedOut {
			s.set(dueUnwanted, now.Add(unwantedGrace))
		}
		if s.take(dueUnwanted, now) && !timedOut {
			unwanted = true
			s.clear(dueTimeout)
			s.trace(name + " still runs " + unwantedGrace.String() + " after the request to end the job: it is ended")
			s.signalJob(unix.SIGTERM)
			s.set(dueTimeoutKill, now.Add(timeoutGrace))
		}
		if s.take(dueTimeout, now) {
			timedOut = true
			waiting, _ = c.Waiting()
			stopped = s.isStopped()
			s.trace(name + " has run for " + s.d.ScriptTimeout.String() + " (script_timeout): it is ended")
			s.signalJob(unix.SIGTERM)
			s.set(dueTimeoutKill, now.Add(timeoutGrace))
		}
		if s.take(dueTimeoutKill, now) {
			s.endStep()
		}
	})
	if timedOut || unwanted {
		s.endStep() // also if it has caught the SIGTERM
	}
	s.clear(dueTimeout, dueTimeoutKill, dueUnwanted)
	e.timedOut, e.unwanted, e.stopped, e.waiting = timedOut, unwanted, stopped, waiting
	return e
}

// isStopped reports whether a process of the step is stopped, by a signal or by a tracer.
func (s *Shepherd) isStopped() bool {
	return slices.ContainsFunc(s.stepProcesses(false), func(pid int) bool {
		state := process.Read(pid).State
		return state == 'T' || state == 't'
	})
}

// The values of si_code for a child that a signal has killed (sigaction(2)).
const (
	cldKilled = 2
	cldDumped = 3
)

// dead is a child that has exited and was not reaped yet. pid is 0 if there is none.
type dead struct {
	pid    int
	signal syscall.Signal // that killed it; 0 for none
}

// deadChild returns a child that has exited and was not reaped yet, among those that waitid(2)
// selects.
func deadChild(idType, id int) dead {
	for {
		var info unix.Siginfo
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Signo == 0 {
			return dead{}
		}
		// The first members of the union, after three ints and aligned to a pointer: process ID,
		// user ID, status.
		const at = 8 + unsafe.Sizeof(uintptr(0))
		of := (*[3]int32)(unsafe.Add(unsafe.Pointer(&info), at))
		d := dead{pid: int(of[0])}
		if info.Code == cldKilled || info.Code == cldDumped {
			d.signal = syscall.Signal(of[2])
		}
		return d
	}
}

// reap reaps every child that has exited.
func (s *Shepherd) reap() {
	for {
		child := deadChild(unix.P_ALL, 0)
		pid := child.pid
		if pid == 0 {
			return
		}
		s.keepOrphans(pid)
		name := s.killedName(child)
		stray := s.strays.has(pid) // before its ID can be reused
		var e ending
		for {
			_, err := syscall.Wait4(pid, &e.status, 0, &e.rusage)
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EINTR) {
				return
			}
		}
		e.at = time.Now()
		if name, ok := s.methods[pid]; ok {
			if s.active != nil {
				addRusage(&s.reaped, &e.rusage)
			}
			delete(s.methods, pid)
			s.methodEnded(pid, name, e.status)
			continue
		}
		if stray {
			delete(s.strays, pid)
			s.writerEnded(pid, e.status)
			continue
		}
		if s.active != nil {
			addRusage(&s.reaped, &e.rusage)
			if name != "" {
				s.noteKilled(pid, name, &e.rusage)
			}
		}
		if pid == s.awaited {
			s.ended = &e
		}
	}
}

// addRusage adds up the usage of the job's processes. wait4(2) reports it for a process together
// with the children that it has waited for itself; its orphans become children of the supervisor.
func addRusage(sum, r *syscall.Rusage) {
	sum.Utime = addTime(sum.Utime, r.Utime)
	sum.Stime = addTime(sum.Stime, r.Stime)
	sum.Maxrss = max(sum.Maxrss, r.Maxrss)
	sum.Minflt += r.Minflt
	sum.Majflt += r.Majflt
	sum.Nswap += r.Nswap
	sum.Inblock += r.Inblock
	sum.Oublock += r.Oublock
	sum.Nsignals += r.Nsignals
	sum.Nvcsw += r.Nvcsw
	sum.Nivcsw += r.Nivcsw
}

func rusageTime(r *syscall.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func addTime(a, b syscall.Timeval) syscall.Timeval {
	return syscall.NsecToTimeval(a.Nano() + b.Nano())
}
