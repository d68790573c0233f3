package group

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// retry repeats a system call that a signal has interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func open(path string, flags int) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	})
	if err != nil {
		return -1, &Error{"open", path, err}
	}
	return fd, nil
}

// pread reads a small file of the kernel from its beginning into b and returns its content. The
// kernel generates such a file at once, and returns as much as fits into b (seq_file). Reading also
// rearms poll(2) for the descriptor.
func pread(fd int, b []byte) (string, error) {
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Pread(fd, b, 0)
		return err
	})
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// readAll reads a file of any size from its current position.
func readAll(fd int) (string, error) {
	var text strings.Builder
	b := make([]byte, 4096)
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Read(fd, b)
			return err
		})
		if err != nil {
			return "", err
		}
		if n == 0 {
			return text.String(), nil
		}
		text.Write(b[:n])
	}
}

func readFile(path string) (string, error) {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	text, err := readAll(fd)
	if err != nil {
		return "", &Error{"read", path, err}
	}
	return text, nil
}

func writeFile(path, value string) error {
	fd, err := open(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = retry(func() error {
		_, err := unix.Write(fd, []byte(value))
		return err
	})
	if err != nil {
		return &Error{"write " + strconv.Quote(value) + " to", path, err}
	}
	return nil
}

// gone reports whether the error means that the group was removed: its files can no longer be
// opened, or open files can no longer be read.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

// pause waits until a descriptor is ready or the time is over; without a descriptor it waits the
// whole time.
func pause(fd int, events int16, d time.Duration) {
	ts := unix.NsecToTimespec(int64(max(d, 0)))
	var fds []unix.PollFd
	if fd >= 0 {
		fds = []unix.PollFd{{Fd: int32(fd), Events: events}}
	}
	_, _ = unix.Ppoll(fds, &ts, nil) // after EINTR the caller checks its condition and calls pause again
}

// number parses a file that contains one number. "max" is the largest number.
func number(text string) (uint64, error) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return 1<<64 - 1, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

// value finds a key in lines of "key value". It ignores all other lines: newer kernels add some.
func value(text, key string) (uint64, bool) {
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		k, v, _ := strings.Cut(line, " ")
		if k != key {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}
