package terminal

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keys reads the input in such a way that it can be stopped: it takes nothing from the terminal
// that is meant for a later reader.
type keys struct {
	file       *os.File
	wake, stop *os.File   // a pipe: wake is readable when stop is closed
	reading    sync.Mutex // serialises readers
}

func newKeys(file *os.File) (*keys, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &keys{file: file, wake: r, stop: w}, nil
}

// errStopped is the error of read after end.
var errStopped = errors.New("nothing more is read")

// read waits for input. It returns io.EOF at the end of the file.
func (k *keys) read(p []byte) (int, error) {
	k.reading.Lock()
	defer k.reading.Unlock()
	n := 0
	_, err := control(k.file, func(fd int) (_ *struct{}, err error) {
		_, err = control(k.wake, func(wake int) (*struct{}, error) {
			var err error
			n, err = readOrWake(fd, wake, p)
			return nil, err
		})
		return nil, err
	})
	return n, err
}

func readOrWake(fd, wake int, p []byte) (int, error) {
	for {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return 0, err
		}
		if polled[1].Revents != 0 {
			return 0, errStopped
		}
		n, err := unix.Read(fd, p)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// stopped waits for end, at most for the given time, and reports whether it was called.
func (k *keys) stopped(limit time.Duration) bool {
	k.reading.Lock()
	defer k.reading.Unlock()
	until := time.Now().Add(limit)
	stopped, _ := control(k.wake, func(wake int) (*bool, error) {
		for {
			polled := []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}
			n, err := unix.Poll(polled, max(0, int(time.Until(until).Milliseconds())))
			if !errors.Is(err, unix.EINTR) {
				ended := n > 0 || err != nil
				return &ended, nil
			}
		}
	})
	return stopped == nil || *stopped
}

// end makes the pending call of read and all later ones return errStopped, and stopped true.
func (k *keys) end() {
	k.stop.Close()
	k.reading.Lock()
	defer k.reading.Unlock()
}

// close releases the descriptors. Call it after the last read.
func (k *keys) close() { k.wake.Close() }
