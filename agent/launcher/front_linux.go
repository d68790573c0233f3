package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/keyring"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/jobdir"
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
	// Apart says that the service manager starts the fronts, which connect to the FrontSocket.
	Apart bool
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

// Run serves fronts, one after another, until one ends that must not be restarted, or a signal comes; it returns the exit
// status. It starts each front, unless f.Apart, and passes signals on to it. A front that an earlier launcher has started
// connects to the socket; Run starts no other front while that one is running. say receives messages about fronts.
func (s *Server) Run(f *Front, socket *FrontSocket, signals <-chan os.Signal, say func(string)) (status int, err error) {
	if _, err := s.groups(); err != nil {
		return statusFailed, err
	}
	stop := make(chan struct{})
	defer close(stop)
	s.reap(stop)
	if f.Apart {
		return 0, s.serveCallers(socket, signals)
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		old, told, err := s.awaitOld(socket, signals, say)
		if err != nil {
			return statusFailed, err
		}
		if told {
			return 0, nil
		}
		if old != nil {
			if told, err := s.serveCaller(old, socket, signals, true); told || err != nil {
				return 0, err
			}
			if s.Configuration.startsLater() {
				return 0, ErrRestart
			}
		}
		begun := time.Now()
		state, told, err := s.runFront(f, socket, signals)
		if err != nil {
			return statusFailed, err
		}
		if !told && s.Configuration.startsLater() {
			return 0, ErrRestart // the front has ended to use the change
		}
		w, _ := state.Sys().(syscall.WaitStatus)
		// A front that an earlier launcher was about to start may have taken the spool directory from this one.
		if lives, _ := frontLives(s.Spool); w.Exited() && (told || w.ExitStatus() != statusFailed && !lives) {
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
		case <-s.Restarts:
			return 0, ErrRestart
		}
		timer.Stop()
	}
}

// lookPause is the interval at which a launcher checks whether the front of an earlier launcher is running.
const lookPause = 200 * time.Millisecond

// awaitOld waits until the front of an earlier launcher connects to the socket. It does not wait if no such front is
// running: a front holds the lock on its directory. told says that a signal has ended the wait.
func (s *Server) awaitOld(socket *FrontSocket, signals <-chan os.Signal, say func(string)) (old *caller, told bool, err error) {
	for n := 0; ; n++ {
		lives, err := frontLives(s.Spool)
		if err != nil || !lives {
			return nil, false, err
		}
		if n == int(firstPause/lookPause) {
			say("waits for the front of an earlier launcher, which uses the spool directory " + s.Spool.Path())
		}
		timer := time.NewTimer(lookPause)
		select {
		case old = <-socket.callers:
			timer.Stop()
			return old, false, nil
		case sig := <-signals:
			timer.Stop()
			if sig != unix.SIGHUP {
				return nil, true, nil
			}
		case <-timer.C:
		}
	}
}

// FrontDir is the directory below the spool directory that belongs to the front. A front holds a lock on it.
const FrontDir = "front"

// frontLives reports whether a front uses the spool area.
func frontLives(spool *jobdir.Spool) (bool, error) {
	var lives bool
	err := spool.Dir().Use(func(fd int) error {
		dir, err := unix.Openat(fd, FrontDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return &fs.PathError{Op: "open", Path: spool.Path() + "/" + FrontDir, Err: err}
		}
		defer unix.Close(dir)
		err = unix.Flock(dir, unix.LOCK_SH|unix.LOCK_NB)
		lives = errors.Is(err, unix.EWOULDBLOCK)
		if lives {
			return nil
		}
		return os.NewSyscallError("flock", err)
	})
	return lives, err
}

// frontPatience is how long a front may continue after a signal to end: a captured front could ignore it. The units of the
// packages allow 60 seconds. endPatience is how long the launcher waits for the orders of a front that has ended.
const (
	frontPatience = 50 * time.Second
	endPatience   = 5 * time.Second
)

// endService ends the service of a front, and waits for it. The orders that the front has sent before are carried out, unless
// that takes too long: a captured front may not read the answers, and leave a process that holds its end of the connection.
// Then the connection is closed, and orders that are being carried out are left alone, as if the launcher were killed.
func endService[T any](s *Server, c *conn, served <-chan T) {
	c.finish()
	for _, next := range []func(){func() { go c.close() }, func() {}} { // the close waits for a read, which can wait for the front
		timer := time.NewTimer(cmp.Or(s.patience, endPatience))
		select {
		case <-served:
			timer.Stop()
			return
		case <-timer.C:
			next()
		}
	}
}

// serveCallers serves the fronts that connect to the socket until a signal comes, or returns ErrRestart.
func (s *Server) serveCallers(socket *FrontSocket, signals <-chan os.Signal) error {
	for {
		select {
		case sig := <-signals:
			if sig != unix.SIGHUP {
				return nil
			}
		case <-s.Restarts:
			return ErrRestart
		case c := <-socket.callers:
			if told, err := s.serveCaller(c, socket, signals, false); told || err != nil {
				return err
			}
			if s.Configuration.startsLater() {
				return ErrRestart
			}
		}
	}
}

// serveCaller serves a front that has connected to the socket. told says that a signal has ended the service. With pass, the
// front gets the signals, and the service lasts until the front has ended. The error is ErrRestart: the front continues.
func (s *Server) serveCaller(c *caller, socket *FrontSocket, signals <-chan os.Signal, pass bool) (told bool, err error) {
	defer c.close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		if s.Serve(c.conn) != nil {
			c.signal(unix.SIGKILL) // it has sent invalid data: it is useless now
		}
	}()
	var late <-chan time.Time
	ended := make(chan struct{})
	if pass {
		go func() {
			defer close(ended)
			c.ended()
		}()
	}
	for {
		over := served
		if pass {
			over = ended
		}
		select {
		case sig := <-signals:
			told = told || sig != unix.SIGHUP
			number, ok := sig.(unix.Signal)
			switch {
			case pass && ok:
				if told && late == nil {
					late = time.After(cmp.Or(s.patience, frontPatience))
				}
				c.signal(number)
			case told:
				endService(s, c.conn, served)
				return true, nil
			}
		case <-late:
			c.signal(unix.SIGKILL)
		case other := <-socket.callers:
			other.close() // there is a front
		case <-s.Restarts:
			if told { // the end comes first
				continue
			}
			endService(s, c.conn, served)
			return told, ErrRestart
		case <-over:
			endService(s, c.conn, served)
			return told, nil
		}
	}
}

// runFront starts a front and serves it until it has ended. told says that a signal has told it to
// end.
func (s *Server) runFront(f *Front, socket *FrontSocket, signals <-chan os.Signal) (state *os.ProcessState, told bool, err error) {
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
	var late <-chan time.Time
	for {
		select {
		case sig := <-signals:
			if told = told || sig != unix.SIGHUP; told && late == nil {
				late = time.After(cmp.Or(s.patience, frontPatience))
			}
			_ = p.Signal(sig)
		case <-late:
			_ = p.Kill()
		case other := <-socket.callers:
			other.close() // there is a front
		case <-s.Restarts:
			if told { // the end comes first
				continue
			}
			if served != nil {
				endService(s, c, served) // the front continues
			}
			return nil, told, ErrRestart
		case err := <-served:
			// The front has closed its end, or sent invalid data: it is useless now.
			if served = nil; err != nil {
				_ = p.Kill()
			}
		case state := <-ended:
			if served != nil {
				endService(s, c, served) // another process of the same user may hold the other end
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
		keyring.Join()
		err := renounce()
		if err != nil {
			done <- result{nil, err}
			return
		}
		p, err := os.StartProcess(f.Path, append([]string{f.Path}, f.Args...), &os.ProcAttr{
			Dir: "/", Env: append(f.environment(), Variable+"="+strconv.Itoa(descriptor)), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, other},
			// A session of its own has no terminal, into which it could type for root (TIOCSTI).
			Sys: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: f.User.UID, Gid: f.User.GID}},
		})
		done <- result{p, err}
	}()
	r := <-done
	return r.process, r.err
}

// environment returns the environment of the front: it notifies the watchdog of the service manager in the launcher's
// place (sd_watchdog_enabled(3)).
func (f *Front) environment() []string {
	return slices.DeleteFunc(slices.Clone(f.Env), func(v string) bool { return strings.HasPrefix(v, "WATCHDOG_PID=") })
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
