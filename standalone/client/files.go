package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// mostOfFile bounds what is sent of a file.
const mostOfFile = 32 << 20

var errInterrupted = errors.New("interrupted")

// read reads a file that a command line names, or that has default options.
func (c *Command) read(ctx context.Context, name, dir, home string) ([]byte, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	inHome := isDefaults(name, home)
	if !inHome && !isDefaults(name, dir) {
		return interruptible(ctx, func() ([]byte, error) { return readFile(path, 0) })
	}
	flags := syscall.O_NONBLOCK
	if !inHome { // where links are the user's own
		flags |= syscall.O_NOFOLLOW
	}
	text, err := readFile(path, flags, regular, trusted)
	if e, ok := errors.AsType[*plantedError](err); ok {
		fmt.Fprintf(c.Stderr, "warning: %s is not read: %s\n", name, e.reason)
	}
	if _, there := os.Lstat(path); errors.Is(err, os.ErrPermission) && there == nil {
		fmt.Fprintf(c.Stderr, "warning: error opening %s: %s\n", name, reason(err))
	}
	return text, err
}

// isDefaults reports whether a file has the default options of a directory. In one like
// /tmp anybody could leave a file, and with it decide what runs in everybody else's jobs, and
// with -jsv even at once; or a named pipe, for which everybody would wait.
func isDefaults(name, dir string) bool {
	base := filepath.Base(name)
	return dir != "" && name == filepath.Join(dir, base) && strings.HasPrefix(base, ".sge_")
}

// plantedError is that default options are not where the user would have put them.
type plantedError struct{ reason string }

// Error is the reason, without the file.
func (e *plantedError) Error() string { return e.reason }

func regular(info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return &plantedError{"it is no regular file"}
	}
	return nil
}

func trusted(info os.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Getuid() {
		return &plantedError{fmt.Sprintf("it belongs to user id %d", s.Uid)}
	}
	return nil
}

// readFile reads a file that passes tests, which see what was opened and not what may have
// come in its place since.
func readFile(path string, flags int, tests ...func(os.FileInfo) error) (text []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	if errors.Is(err, syscall.ELOOP) && flags&syscall.O_NOFOLLOW != 0 {
		return nil, &plantedError{"it is a symbolic link"}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for _, test := range tests {
		if err := test(info); err != nil {
			return nil, err
		}
	}
	text, err = io.ReadAll(io.LimitReader(f, mostOfFile+1))
	if err == nil && len(text) > mostOfFile {
		err = fmt.Errorf("it has more than %d bytes", mostOfFile)
	}
	if text == nil {
		text = []byte{}
	}
	return text, err
}

// interruptible reads what may not come for long, such as from a named pipe, until it is not
// wanted any more.
func interruptible(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := read()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}

// reason is an error without the operation and the path.
func reason(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*os.PathError](err); ok {
		text = e.Err.Error()
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		text = strings.ToUpper(e.Error()[:1]) + e.Error()[1:] // as the C library has it
	}
	return text
}
