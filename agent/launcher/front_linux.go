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

// descriptor is the descriptor of the launcher's connection in a front.
const descriptor = 3

// Front says how fronts are started.
type Front struct {
	User *userdb.User
	Path string   // of execd
	Args []string // its command and options
	Env  []string // Variable is added
}

// The pause before a front that has ended is restarted. After a run of at least steady, the pause
// is the first one again.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	steady     = time.Minute
)

// statusFailed is the exit status of a daemon that an error has ended, so that a restart may help.
// With the other statuses the daemon ended on a signal, or could not start.
const statusFailed = 1

// Run starts fronts, one after another, and serves each, until one ends that must not be restarted;
// it returns its exit status. Run passes signals on to the front. say receives messages about
// fronts.
func (s *Server) Run(f *Front, signals <-chan os.Signal, say func(string)) (status int, err error) {
	if _, err := s.groups(); err != nil {
		return statusFailed, err
	}
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

// runFront starts a front and serves it until it has ended. told says that a signal has told it to
// end.
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
			// The front has closed its end, or sent invalid data: it is useless now.
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
		// These settings belong to one thread, which ends with this goroutine.
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

// renounce prevents the calling thread, and all processes that it starts, from getting more rights:
// it drops the bounding set of capabilities and the inheritable ones, and disables set-user-ID
// bits.
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
