package foreground

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
)

// terminal passes on what a person does with the keyboard: Ctrl-C ends the job
// as qdel does, Ctrl-Z suspends it.
type terminal struct {
	signals chan os.Signal
	ended   bool // the person wants no more
}

func listen() *terminal {
	t := &terminal{signals: make(chan os.Signal, 8)}
	signal.Notify(t.signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT)
	return t
}

func (t *terminal) stop() { signal.Stop(t.signals) }

// supervise starts the shepherd of a job and waits for its end.
func (s *session) supervise(j *launch.Job, t *terminal) (syscall.WaitStatus, error) {
	done, err := j.Start(launch.ShepherdPath(s.Executable))
	if err != nil {
		return 0, err
	}
	for {
		select {
		case status := <-done:
			return status, nil
		case sig := <-t.signals:
			s.pass(j, t, sig)
		}
	}
}

// pass translates a signal of the terminal into what a master would ask of the
// shepherd.
func (s *session) pass(j *launch.Job, t *terminal, sig os.Signal) {
	switch sig {
	case unix.SIGTSTP:
		if err := j.Suspend(); err != nil {
			s.say(err.Error())
		}
		s.say("the job is suspended; fg resumes it")
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	case unix.SIGCONT:
		if err := j.Resume(); err != nil {
			s.say(err.Error())
		}
	default:
		if t.ended {
			s.say("ending the job at once")
			j.Destroy()
			return
		}
		t.ended = true
		if err := j.Terminate(); err != nil {
			s.say(err.Error())
		}
		if j.Description.Notify > 0 {
			s.say("the job has been notified and has " + j.Description.Notify.String() + "; Ctrl-C ends it at once")
		}
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
