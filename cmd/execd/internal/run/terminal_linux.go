package run

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/mail"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// keyboard handles the signals of a terminal: Ctrl-C ends the job as qdel does, Ctrl-Z suspends it.
type keyboard struct {
	signals   chan os.Signal
	suspended bool // the job, by us
	asked     int  // how often the end was asked for
	destroyed bool // the shepherd of the current job, by us
}

// listen begins to receive signals. Those of a terminal that were ignored when
// we were started stay so: nohup(1), and shells without job control, do it for
// what runs in the background.
func listen() *keyboard {
	t := &keyboard{signals: make(chan os.Signal, 8)}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP} {
		if !signal.Ignored(sig) {
			signal.Notify(t.signals, sig)
		}
	}
	signal.Notify(t.signals, unix.SIGTERM, unix.SIGCONT)
	// A reader of our output who goes away must not end us before the job
	// has been cleaned up behind. Not ignored, which the mailer would inherit.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	return t
}

func (t *keyboard) stop() { signal.Stop(t.signals) }

// endRequested reports whether the end was asked for, also while no job was
// there to be ended.
func (t *keyboard) endRequested() bool {
	for {
		select {
		case sig := <-t.signals:
			if sig != unix.SIGTSTP && sig != unix.SIGCONT {
				t.asked++
			}
			continue
		default:
		}
		return t.asked > 0
	}
}

// supervise starts the shepherd of a job, waits for its end, and returns what
// became of the job. The error says that it could not be started.
func (s *session) supervise(j *launch.Job) (*job.Outcome, error) {
	out, err := s.streams()
	if err != nil {
		return nil, err
	}
	done, err := j.Start(s.shepherd, out.stdout, out.stderr)
	out.started()
	if err != nil {
		out.finish(s)
		return nil, err
	}
	t := s.keyboard
	for {
		select {
		case sig := <-t.signals:
			s.pass(j, sig)
			continue
		case status := <-done:
			outcome := j.Collect(status)
			out.finish(s)
			if t.asked > 0 {
				explainEnd(j, outcome, t.destroyed)
			}
			return outcome, nil
		}
	}
}

// explainEnd puts into an outcome that the end was asked for.
func explainEnd(j *launch.Job, o *job.Outcome, destroyed bool) {
	if destroyed && !o.Ran && begun(j.Dir) {
		// The shepherd was ended before it could write the usage.
		o.Ran, o.Signal, o.ExitStatus = true, int(unix.SIGKILL), 128+int(unix.SIGKILL)
	}
	switch {
	case o.Limit != nil:
	case !o.Ran:
		o.Reason = "was ended on request before it began"
	case o.Signal != 0:
		o.Reason = "was ended on request, by signal " + job.SignalName(syscall.Signal(o.Signal))
	case o.Reason == "":
		o.Reason = "ended after a request to end"
	}
}

// begun reports whether the job has begun. The shepherd writes the process id after the start, so
// the job can run without it; right before the start it reserves room for the usage.
func begun(d *jobdir.Dir) bool {
	if _, err := d.ReadNumber(jobdir.FileJobPID); err == nil {
		return true
	}
	reserved, err := d.Reserved(jobdir.FileUsage)
	return err == nil && reserved
}

// pass translates a signal of the terminal into what a master would ask of the
// shepherd.
func (s *session) pass(j *launch.Job, sig os.Signal) {
	t := s.keyboard
	var err error
	switch sig {
	case unix.SIGTSTP:
		err = s.suspend(j)
	case unix.SIGCONT:
		// Not when the job is to end: to the shepherd both are signals, and the
		// kernel drops a SIGTSTP that has not been taken when a SIGCONT comes.
		if t.suspended && t.asked == 0 {
			err = j.Resume()
		}
		t.suspended = false
	default:
		err = s.end(j)
	}
	if err != nil {
		s.complain(err)
	}
}

// end ends the job: first as qdel does, at a second request at once, and what
// then is left of the site's procedures at a third.
func (s *session) end(j *launch.Job) error {
	t, d := s.keyboard, j.Description
	if t.asked++; t.asked > 1 {
		if !j.Kill() {
			s.say("ending the procedures of the site, too")
			t.destroyed = true
			j.Destroy()
		}
		return nil
	}
	const again = "; another Ctrl-C ends it at once"
	switch procedures := d.Prolog != "" || d.Epilog != "" || d.PE != nil; {
	case procedures && !j.Running():
		s.say("waiting for the procedures of the site; another Ctrl-C ends them")
	case d.Notify > 0 && d.NotifyKill.Kind != job.NotifyNone:
		s.say("the job is notified and has " + d.Notify.String() + " to end" + again)
	case d.TerminateMethod != "":
		s.say("the job is ended by its terminate_method, " + d.TerminateMethod + again)
	}
	return j.Terminate()
}

// suspend suspends the job and ourselves, until the shell resumes us.
func (s *session) suspend(j *launch.Job) error {
	switch {
	case !canBeResumed():
		s.say("not suspended: there is no shell with job control that could resume the job")
		return nil
	case j.Migrates():
		s.say("the job is checkpointed and ended: so its checkpointing environment says of suspension")
		return j.Suspend()
	}
	if err := j.Suspend(); err != nil {
		return err
	}
	s.keyboard.suspended = true
	s.say("the job is suspended; fg resumes it")
	s.mail(mail.AtSuspension(j.Description, s.began, false))
	return unix.Kill(unix.Getpid(), unix.SIGSTOP)
}

// canBeResumed reports whether some shell watches our process group. Without
// one the group is orphaned (setpgid(2)), and nobody would ever continue it.
func canBeResumed() bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	group := unix.Getpgrp()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := statOf(pid); ok && p.group == group {
			if parent, ok := statOf(p.parent); ok && parent.session == p.session && parent.group != group {
				return true
			}
		}
	}
	return false
}

type processStat struct{ parent, group, session int }

// statOf reads /proc/PID/stat (proc(5)).
func statOf(pid int) (processStat, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// The name is in parentheses and may hold anything, these included.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if err != nil || len(f) < 4 {
		return processStat{}, false
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(f[i+1]))
	}
	return processStat{n[0], n[1], n[2]}, true
}
