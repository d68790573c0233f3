package run

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/mail"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/process"
)

// keyboard handles the signals of a terminal: Ctrl-C deletes the job like qdel, Ctrl-Z suspends it.
type keyboard struct {
	signals   chan os.Signal
	suspended bool // this command has suspended the job
	asked     int  // number of requests to end the job
	destroyed bool // this command has killed the shepherd of the current job
}

// listen begins to receive signals. Terminal signals that were ignored when this process started
// stay ignored: nohup(1), and shells without job control, ignore them for background processes.
func listen() *keyboard {
	t := &keyboard{signals: make(chan os.Signal, 8)}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP} {
		if !signal.Ignored(sig) {
			signal.Notify(t.signals, sig)
		}
	}
	signal.Notify(t.signals, unix.SIGTERM, unix.SIGCONT)
	// If the reader of the output exits, this process must not be killed before it has cleaned up
	// the job. The signal is not ignored, because the mailer would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	return t
}

func (t *keyboard) stop() { signal.Stop(t.signals) }

// endRequested reports whether the end of the job was requested, even if no job was running at that
// time.
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

// supervise starts the shepherd of a job, waits for its end, and returns the outcome of the job.
// The error says that the shepherd could not be started.
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

// explainEnd adds to an outcome that the end was requested.
func explainEnd(j *launch.Job, o *job.Outcome, destroyed bool) {
	if destroyed && !o.Ran && begun(j.Dir) {
		// The shepherd was killed before it could write the usage.
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

// begun reports whether the job has begun. The shepherd writes the process ID after the start, so a
// job without it may be running. Right before the start the shepherd reserves space for the usage.
func begun(d *jobdir.Dir) bool {
	if _, err := d.ReadNumber(jobdir.FileJobPID); err == nil {
		return true
	}
	reserved, err := d.Reserved(jobdir.FileUsage)
	return err == nil && reserved
}

// pass translates a terminal signal into the request that a master would send to the shepherd.
func (s *session) pass(j *launch.Job, sig os.Signal) {
	t := s.keyboard
	var err error
	switch sig {
	case unix.SIGTSTP:
		err = s.suspend(j)
	case unix.SIGCONT:
		// Not if the job is being ended: the shepherd gets both requests as signals, and the kernel
		// drops a pending SIGTSTP when a SIGCONT arrives.
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

// end ends the job. The first request acts like qdel, the second kills the job at once, and the
// third also kills the site's procedures.
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

// suspend suspends the job and this process, until the shell resumes them.
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

// canBeResumed reports whether a shell controls this process group. Otherwise the group is orphaned
// (setpgid(2)), and nothing would ever resume it.
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
		if p := process.Read(pid); p.State != 0 && p.Group == group {
			if parent := process.Read(p.Parent); parent.State != 0 && parent.Session == p.Session && parent.Group != group {
				return true
			}
		}
	}
	return false
}
