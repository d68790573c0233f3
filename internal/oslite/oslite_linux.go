// Package oslite contains the functions of package os that the supervisor of a job needs, implemented
// with as few system calls as possible.
//
// Package os starts a poller for the first file that it opens, and makes several system calls to
// find out whether the file can be polled; for a small file of /etc or /proc that takes most of the
// time. It also makes up a tenth of the size of the supervisor, which runs once per job.
//
// Errors about files are those of package os: fs.PathError, with errors.Is for fs.ErrNotExist and
// the like. All functions may be called by several goroutines.
package oslite

import (
	"errors"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// Read returns the content of a file.
func Read(path string) ([]byte, error) {
	fd, err := open(path, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b, err := ReadAll(fd)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return b, nil
}

func open(path string, flags int) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0) })
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// ReadAll reads a descriptor to its end.
func ReadAll(fd int) ([]byte, error) {
	const room = 2048 // more than most files of /proc have
	b := make([]byte, 0, room)
	for {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, 4*cap(b)), b...)
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return b, nil
		}
		b = b[:len(b)+n]
	}
}

// Kept is a file of /proc or /sys that is read again and again: to find and open it takes
// longer than to read it. Its zero value with a path is ready to be used, by one goroutine at
// a time; Close gives the descriptor back.
type Kept struct {
	Path string

	file int // one more than the descriptor; 0 for none
	b    [512]byte
}

// Read returns the current contents of the file. They are valid until the next call.
func (k *Kept) Read() ([]byte, error) {
	if k.file == 0 {
		fd, err := open(k.Path, 0)
		if err != nil {
			return nil, err
		}
		k.file = fd + 1
	}
	n, err := retry(func() (int, error) { return unix.Pread(k.file-1, k.b[:], 0) })
	switch {
	case err != nil:
		k.Close()
		return nil, &fs.PathError{Op: "read", Path: k.Path, Err: err}
	case n == len(k.b): // there may be more
		return Read(k.Path)
	}
	return k.b[:n], nil
}

// Close closes the file, which the next Read opens again.
func (k *Kept) Close() {
	if k.file != 0 {
		unix.Close(k.file - 1)
		k.file = 0
	}
}

// Names returns the names in a directory, without "." and "..", in no order.
func Names(path string) ([]string, error) {
	fd, err := open(path, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 4<<10)
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buf) })
		if err != nil {
			return names, &fs.PathError{Op: "readdir", Path: path, Err: err}
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// FirstName returns one of the names in an open directory; "" if it is empty. It reads from the
// current position of the descriptor.
func FirstName(fd int) (string, error) {
	var buf [512]byte // room for one entry with the longest possible name
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buf[:]) })
		if err != nil || n == 0 {
			return "", err
		}
		if _, _, names := unix.ParseDirent(buf[:n], 1, nil); len(names) > 0 {
			return names[0], nil
		}
	}
}

// Numbers returns the names in a directory that are positive numbers: the
// processes of /proc, the descriptors of /proc/self/fd but for 0.
func Numbers(path string) ([]int, error) {
	names, err := Names(path)
	var list []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n > 0 {
			list = append(list, n)
		}
	}
	return list, err
}

// Readlink returns the target of a link.
func Readlink(path string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := retry(func() (int, error) { return unix.Readlink(path, buf) })
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	return string(buf[:n]), nil
}

// CallError is a system call that has failed.
type CallError struct {
	Call string
	Err  error
}

// Error returns "call: reason".
func (e *CallError) Error() string { return e.Call + ": " + e.Err.Error() }

// Unwrap returns the errno.
func (e *CallError) Unwrap() error { return e.Err }

// retry repeats a system call that a signal has interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
