package launcher

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
)

// Variable is the variable of the environment that tells a front the descriptor of its launcher.
const Variable = "EXECD_LAUNCHER_DESCRIPTOR"

// descriptor is that of the launcher in a front.
const descriptor = 3

// Front says how fronts are started.
type Front struct {
	User *userdb.User
	Path string   // of execd
	Args []string // its command and options
	Env  []string // Variable is added
}

// The pause before a front is started again that has ended by itself. One that has lived for steady is
// started again after the first pause.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	steady     = time.Minute
)

// statusFailed is the exit status of a daemon that something has ended, which may go better the next
// time; the others say that it was told to end, or cannot begin.
const statusFailed = 1

// Run starts fronts, one after the other, and serves each, until one ends that is not to be started
// again; it returns that one's exit status. Signals are passed on to the front. say is told what
// happens to fronts.
func (s *Server) Run(f *Front, signals <-chan os.Signal, say func(string)) (status int, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		begun := time.Now()
		state, told, err := s.runFront(f, signals)
		if err != nil {
			return statusFailed, err
		}
		w, _ := state.Sys().(syscall.WaitStatus)
		if w.Exited() && (told || w.ExitStatus() != statusFailed) {
			return w.ExitStatus(), nil
		}
		if told {
			return statusFailed, nil
		}
		if time.Since(begun) > steady {
			pause = firstPause
		}
		say(fmt.Sprintf("the front has ended (%s); jobs go on, and it is started again in %s", state, pause))
		timer := time.NewTimer(pause)
		select {
		case sig := <-signals:
			if sig != unix.SIGHUP {
				return 0, nil
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

// runFront starts a front and serves it until it has ended. told says that it was told to end.
func (s *Server) runFront(f *Front, signals <-chan os.Signal) (state *os.ProcessState, told bool, err error) {
	c, other, err := pair()
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	p, err := f.start(other)
	other.Close()
	if err != nil {
		return nil, false, fmt.Errorf("cannot start the front %q: %w", f.Path, err)
	}
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := p.Wait()
		ended <- state
	}()
	served := make(chan error, 1)
	go func() { served <- s.Serve(c) }()
	for {
		select {
		case sig := <-signals:
			told = told || sig != unix.SIGHUP
			_ = p.Signal(sig)
		case err := <-served:
			// It has closed its end, or sent something that is no message: it is of no use any more.
			if served = nil; err != nil {
				_ = p.Kill()
			}
		case state := <-ended:
			if served != nil {
				<-served //nolint:errcheck // the end of the front says more
			}
			if state == nil {
				return nil, told, errors.New("cannot wait for the front")
			}
			return state, told, nil
		}
	}
}

// start starts a front with the other end of the connection, as its user and without any capability.
func (f *Front) start(other *os.File) (*os.Process, error) {
	type result struct {
		process *os.Process
		err     error
	}
	done := make(chan result)
	go func() {
		// What is set here is that of one thread, which ends with this goroutine.
		runtime.LockOSThread()
		err := renounce()
		if err != nil {
			done <- result{nil, err}
			return
		}
		p, err := os.StartProcess(f.Path, append([]string{f.Path}, f.Args...), &os.ProcAttr{
			Dir: "/", Env: append(slices.Clone(f.Env), Variable+"="+strconv.Itoa(descriptor)), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, other},
			// A session of its own has no terminal, into which it could type for root (TIOCSTI).
			Sys: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: f.User.UID, Gid: f.User.GID}},
		})
		done <- result{p, err}
	}()
	r := <-done
	return r.process, r.err
}

// renounce takes from the calling thread, and all that it starts, what a program could get more rights
// by: the bounding set of capabilities, those that are inherited, and programs with set-user-ID bits.
func renounce() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	for c := range uintptr(64) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			if errors.Is(err, unix.EINVAL) {
				break // the kernel has no more
			}
			return os.NewSyscallError("prctl", err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	if err == nil {
		data[0].Inheritable, data[1].Inheritable = 0, 0
		err = unix.Capset(&header, &data[0])
	}
	return os.NewSyscallError("capset", err)
}
