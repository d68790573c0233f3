package nss

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/starter/spawn"
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
	p := &spawn.Program{}
	p.OpenRead(spawn.StageStdin, 0, "/dev/null")
	p.Dup(spawn.StageStdout, pipe[1], 1)
	p.Exec([]string{path}, []string{"getent", database, key})
	child, err := p.Start()
	_ = unix.Close(pipe[1])
	if err != nil {
		return nil, err
	}
	out, readErr := oslite.ReadAll(pipe[0])
	var status unix.WaitStatus
	_, err = unix.Wait4(child.PID, &status, 0, nil)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(child.PID, &status, 0, nil)
	}
	if err != nil {
		return nil, err
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
