package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/process"
)

// supervisor is a process that supervises a job. After it was reaped, its process ID may be reused,
// but its descriptor still refers to it.
type supervisor struct {
	pid   int
	child bool
	file  *os.File // its pidfd, in the runtime's poller; nil before Linux 5.3
	start uint64   // process.Start, if there is no descriptor
}

// newSupervisor takes over a descriptor of a process; -1 for none.
func newSupervisor(pid, pidfd int) *supervisor {
	s := &supervisor{pid: pid}
	if pidfd < 0 {
		s.start = process.Start(pid)
		return s
	}
	// Only for descriptors that do not block is a file waited for without a thread.
	_ = unix.SetNonblock(pidfd, true)
	s.file = os.NewFile(uintptr(pidfd), "supervisor")
	return s
}

// findSupervisor returns the process with a number if it is a supervisor.
func findSupervisor(pid int) (*supervisor, bool) {
	if pid <= 1 {
		return nil, false
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil && !errors.Is(err, unix.ENOSYS) {
		return nil, false
	}
	if err != nil {
		pidfd = -1
	}
	// The values read now belong to the process of the descriptor if it still exists afterwards.
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	s := newSupervisor(pid, pidfd)
	if err != nil || !strings.HasPrefix(string(name), namePrefix) || s.signal(0) != nil {
		s.close()
		return nil, false
	}
	return s, true
}

// namePrefix begins the names of supervisors: see ShepherdName.
const namePrefix = "sge_shep"

// signal sends a signal. The error is os.ErrProcessDone if the process has ended.
func (s *supervisor) signal(sig syscall.Signal) error {
	var err error
	if s.file == nil {
		if err = unix.ESRCH; process.Start(s.pid) == s.start {
			err = unix.Kill(s.pid, sig)
		}
	} else {
		c, e := s.file.SyscallConn()
		if e == nil {
			e = c.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
		}
		if errors.Is(e, os.ErrClosed) {
			return os.ErrProcessDone
		}
		err = errors.Join(e, err)
	}
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func (s *supervisor) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// ended reports whether the process has ended, without waiting, and reaps it if it is a child.
func (s *supervisor) ended(fd int) (status syscall.WaitStatus, ended bool, err error) {
	if s.child {
		for {
			pid, err := syscall.Wait4(s.pid, &status, syscall.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if errors.Is(err, unix.ECHILD) { // another part of this process has reaped it
				return 0, true, nil
			}
			return status, pid == s.pid, err
		}
	}
	if fd < 0 {
		state, start := process.Read(s.pid).State, process.Start(s.pid)
		return 0, state == 0 || state == 'Z' || start != 0 && start != s.start, nil
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	if errors.Is(err, unix.EINTR) {
		n, err = 0, nil
	}
	return 0, n > 0, err
}

// lookPause is the time between two checks of a process without a descriptor.
const lookPause = 100 * time.Millisecond

// wait waits for the end of the process. It takes no thread while it does.
func (s *supervisor) wait(ctx context.Context) (status syscall.WaitStatus, err error) {
	if s.file == nil {
		return s.look(ctx)
	}
	conn, err := s.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			var ended bool
			status, ended, failed = s.ended(int(fd))
			return ended || failed != nil
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			// An earlier wait was given up, and its result arrived late.
			_ = s.file.SetReadDeadline(time.Time{})
			continue
		}
		return status, errors.Join(err, failed)
	}
}

// look waits for the end of a process without a descriptor.
func (s *supervisor) look(ctx context.Context) (syscall.WaitStatus, error) {
	t := time.NewTicker(lookPause)
	defer t.Stop()
	for {
		status, ended, err := s.ended(-1)
		if ended || err != nil {
			return status, err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// PID returns the process ID of the supervisor; 0 while it is unknown, and after its end.
func (j *Job) PID() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.shepherd == nil || j.over {
		return 0
	}
	return j.shepherd.pid
}

// Ended reports whether the supervisor of the job has ended according to Wait or Open, and returns its wait status: see Wait.
func (j *Job) Ended() (status syscall.WaitStatus, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status, j.over
}

// errNotLaunched is returned by operations that need a supervisor.
var errNotLaunched = errors.New("the job has not been launched")

// Wait waits for the end of the job's supervisor and returns its wait status, for Collect. The
// status is 0 if the supervisor is not a child of this process; Collect then relies on the files of
// the job directory. Further calls return the same. The error is the context's, or says that there
// is no supervisor. Wait may be called concurrently with all methods except Remove and Close.
//
// Wait reaps a child by its process ID, and no other child. It takes no thread, so any number of jobs can
// be waited for.
func (j *Job) Wait(ctx context.Context) (syscall.WaitStatus, error) {
	if j.remote != nil {
		return j.waitRemotely(ctx)
	}
	// One at a time: a second one could not be interrupted.
	select {
	case j.turn() <- struct{}{}:
		defer func() { <-j.turn() }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for {
		j.mu.Lock()
		s, over, status := j.shepherd, j.over, j.status
		j.mu.Unlock()
		if over {
			return status, nil
		}
		if s == nil {
			return 0, errNotLaunched
		}
		if s.pid == 0 {
			if err := j.await(ctx); err != nil {
				return 0, err
			}
			continue
		}
		status, err := s.wait(ctx)
		if err != nil {
			return 0, err
		}
		j.mu.Lock()
		j.over, j.status = true, status
		j.mu.Unlock()
		children.Delete(s.pid)
		s.close()
	}
}

func (j *Job) turn() chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting == nil {
		j.waiting = make(chan struct{}, 1)
	}
	return j.waiting
}

// await waits for a supervisor that holds the lock and has not written its process ID yet.
func (j *Job) await(ctx context.Context) error {
	t := time.NewTicker(lookPause)
	defer t.Stop()
	for {
		lock, err := j.lock(0)
		if err == nil {
			lock.Close()
			j.mu.Lock()
			j.over = true
			j.mu.Unlock()
			return nil
		}
		if !errors.Is(err, ErrSupervised) {
			return err
		}
		if j.findShepherd() {
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
