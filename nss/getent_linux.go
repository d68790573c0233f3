package nss

import (
	"errors"
	"io/fs"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// getentNotFound is getent's exit status for a key that is not there.
const getentNotFound = 2

// getent returns what getent(1) prints for a key; nothing when it has none.
func getent(path, database, key string) ([]byte, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer unix.Close(pipe[0])
	const closed = ^uintptr(0)
	pid, err := syscall.ForkExec(path, []string{"getent", database, key}, &syscall.ProcAttr{
		Files: []uintptr{closed, uintptr(pipe[1]), closed},
		Env:   []string{},
	})
	_ = unix.Close(pipe[1])
	if err != nil {
		return nil, &fs.PathError{Op: "start", Path: path, Err: err}
	}
	out, readErr := oslite.ReadAll(pipe[0])
	var status unix.WaitStatus
	_, err = unix.Wait4(pid, &status, 0, nil)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(pid, &status, 0, nil)
	}
	if err != nil {
		return nil, err
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
