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

// pread reads a small file of the kernel's from its beginning into b and returns
// what it holds: the kernel prints such a file at once, and gives as much of it as
// there is room for (seq_file). Reading also rearms poll(2) for the descriptor.
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

// readAll reads a file of any size that was just opened.
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

// gone reports whether an error says that the group itself has been removed:
// files cannot be opened any more, and open ones not be read.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

// pause waits for a descriptor to have something, or without one just waits.
func pause(fd int, events int16, d time.Duration) {
	ts := unix.NsecToTimespec(int64(max(d, 0)))
	var fds []unix.PollFd
	if fd >= 0 {
		fds = []unix.PollFd{{Fd: int32(fd), Events: events}}
	}
	_, _ = unix.Ppoll(fds, &ts, nil) // on EINTR the caller looks, and comes back
}

// number reads a file that holds one number. "max" is the largest.
func number(text string) (uint64, error) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return 1<<64 - 1, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

// value finds a key in lines of "key value". What else there is, is none of its
// business: files of the kernel's grow lines.
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
