package userdb

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/spawn"
)

// getentNotFound is getent's exit status for a key that is not there.
const getentNotFound = 2

// getent returns the output of getent(1) for a key; it is empty if the database has no such key.
func (db Database) getent(database, key string) ([]byte, error) {
	path, patience := db.Getent, db.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	end := time.Now().Add(patience)
	if !enter(patience) {
		return nil, ErrNoAnswer
	}
	left := leave // unless the process is left behind
	defer func() { left() }()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer unix.Close(pipe[0])
	p := &spawn.Program{}
	p.OpenRead(spawn.StageStdin, 0, "/dev/null")
	p.Dup(spawn.StageStdout, pipe[1], 1)
	p.Exec([]string{path}, []string{"getent", database, key})
	child, err := p.Start()
	_ = unix.Close(pipe[1])
	if err != nil {
		return nil, err
	}
	abandon := func() error {
		_ = unix.Kill(child.PID, unix.SIGKILL)
		// A process in an uninterruptible call, such as on a file server that does not answer, does
		// not end by that, and waiting for it takes as long.
		left = func() {}
		collect(child.PID, collectPatience)
		return ErrNoAnswer
	}
	out, readErr := readInTime(pipe[0], end)
	if errors.Is(readErr, ErrNoAnswer) {
		return nil, abandon()
	}
	status, ended, err := reap(child.PID, end)
	if err != nil {
		return nil, err
	}
	if !ended { // its output is complete, but its exit status is unknown
		return nil, abandon()
	}
	if failure := child.Failed(); failure != nil {
		return nil, failure
	}
	switch {
	case status.Signaled():
		return nil, errors.New(path + ": ended by signal " + strconv.Itoa(int(status.Signal())))
	case status.ExitStatus() == getentNotFound:
		return nil, nil
	case status.ExitStatus() != 0:
		return nil, errors.New(path + ": exit status " + strconv.Itoa(status.ExitStatus()))
	}
	return out, readErr
}

// collectPatience is how long a process may take to end that was killed.
const collectPatience = time.Second

// collect waits for a killed process, and then calls leave. It returns after patience, and
// continues to wait in the background, so that a long-lived process does not accumulate zombies.
func collect(pid int, patience time.Duration) {
	if _, ended, err := reap(pid, time.Now().Add(patience)); ended || err != nil {
		leave()
		return
	}
	go func() {
		defer leave()
		_, err := unix.Wait4(pid, nil, 0, nil)
		for errors.Is(err, unix.EINTR) {
			_, err = unix.Wait4(pid, nil, 0, nil)
		}
	}()
}

// reap waits for the end of a process, until a time at most.
func reap(pid int, deadline time.Time) (status unix.WaitStatus, ended bool, err error) {
	for nap := 50 * time.Microsecond; ; nap = min(2*nap, 2*time.Millisecond) {
		switch who, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); {
		case err != nil && !errors.Is(err, unix.EINTR):
			return 0, false, err
		case who == pid:
			return status, true, nil
		case time.Now().After(deadline):
			return 0, false, nil
		}
		time.Sleep(nap)
	}
}

// maxAsking is the maximum number of concurrent getent processes, including those that cannot be
// ended: each of these occupies a thread that waits for it.
const maxAsking = 32

var asking = make(chan struct{}, maxAsking)

// enter waits until another getent(1) may be started. It returns false if that takes longer than
// patience.
func enter(patience time.Duration) bool {
	select {
	case asking <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case asking <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func leave() { <-asking }

// readInTime reads a descriptor to its end.
func readInTime(fd int, deadline time.Time) ([]byte, error) {
	var out []byte
	buffer := make([]byte, 4<<10)
	for {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, ErrNoAnswer
		}
		n, err := unix.Poll(polled, int(left/time.Millisecond)+1)
		if n > 0 {
			n, err = unix.Read(fd, buffer)
			if n == 0 && err == nil {
				return out, nil
			}
			out = append(out, buffer[:max(n, 0)]...)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}
