package jobdir

import (
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// Flags for opening files: never follow a link, never let a child inherit the descriptor, and never
// block on a fifo that has the name of the expected file.
const (
	openFlags    = unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// retry repeats a system call that a signal has interrupted. The Go runtime installs its handlers
// with SA_RESTART, but network file systems still return EINTR.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func openat(dirfd int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dirfd, name, flags, mode)
		return err
	})
	return fd, err
}

// writeAll writes all of data to a descriptor.
func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Write(fd, data)
			return err
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		data = data[n:]
	}
	return nil
}

// readAll reads a descriptor to its end, at most most bytes.
func readAll(fd, size, most int) ([]byte, error) {
	b := make([]byte, 0, min(size, most)+1)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		var n int
		err := retry(func() (err error) {
			n, err = unix.Read(fd, b[len(b):cap(b)])
			return err
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) > most {
			return nil, unix.EFBIG
		}
	}
}

func isDir(mode uint32) bool     { return mode&unix.S_IFMT == unix.S_IFDIR }
func isRegular(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFREG }

// plainName reports whether name is a plain name of a directory entry, without a slash, and neither
// "." nor "..".
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
