package qclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/submit"
)

var errInterrupted = errors.New("interrupted")

// read reads a file that a command line needs. Only a file that the user has named may be a pipe or
// a device: the name of another file can come from a user who wants the command to hang.
func (c *Command) read(ctx context.Context, needed command.NeededFile, dir, home string) ([]byte, error) {
	name := needed.Name
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	inHome := isDefaults(name, home)
	switch {
	case inHome || isDefaults(name, dir):
		return c.defaults(name, path, inHome)
	case needed.Nested:
		return readFile(userfile.Open(path, 0))
	}
	return interruptible(ctx, func() ([]byte, error) { return readFile(os.Open(path)) })
}

// defaults reads a file of default options.
func (c *Command) defaults(name, path string, inHome bool) ([]byte, error) {
	flags := userfile.NoFollow
	if inHome { // where links are the user's own
		flags = 0
	}
	f, err := userfile.Open(path, flags)
	if err == nil {
		if err = trusted(f, inHome); err != nil {
			f.Close()
		}
	}
	if err == nil {
		defer f.Close()
		text, err := textfile.ReadAll(f, submit.MaxOptionFiles)
		if err == nil && bytes.IndexByte(text, 0) >= 0 {
			err = errNoText
		}
		if err != nil {
			return nil, &defaultsError{path, err}
		}
		return append([]byte{}, text...), nil
	}
	_, there := os.Lstat(path)
	switch {
	case isPlanted(err):
		printer.Fprintf(c.Stderr, "warning: %s is not read: %s\n", name, reason(err))
	case errors.Is(err, os.ErrPermission) && there == nil:
		printer.Fprintf(c.Stderr, "warning: error opening %s: %s\n", name, reason(err))
	case there == nil:
		return nil, &defaultsError{path, err}
	}
	return nil, err
}

// defaultsError means that default options of the user exist and cannot be read. Without them the
// command would do something else than the user wants.
type defaultsError struct {
	path string
	err  error
}

// Error names the file.
func (e *defaultsError) Error() string {
	return fmt.Sprintf("cannot read the default options in %q: %s", e.path, reason(e.err))
}

// Unwrap returns the cause.
func (e *defaultsError) Unwrap() error { return e.err }

var errNoText = errors.New("it contains a zero byte: it is not a text file")

// isDefaults reports whether a file contains the default options of a directory. In a directory like
// /tmp any user could make such a file, and decide with it what runs in the jobs of other users, with
// -jsv even in their commands. With a named pipe the user could make their commands hang.
func isDefaults(name, dir string) bool {
	base := filepath.Base(name)
	return dir != "" && name == filepath.Join(dir, base) && strings.HasPrefix(base, ".sge_")
}

// ownerError means that default options belong to another user.
type ownerError struct{ uid uint32 }

// Error names the owner.
func (e *ownerError) Error() string { return fmt.Sprintf("it belongs to user ID %d", e.uid) }

// isPlanted reports whether default options are not what the user would have put there.
func isPlanted(err error) bool {
	return errors.As(err, new(*userfile.KindError)) || errors.As(err, new(*ownerError)) || errors.Is(err, errNames)
}

// errNames means that another user could have given a file of the user another name (link(2)).
var errNames = errors.New("it has several hard links")

func trusted(f *os.File, inHome bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Getuid() {
		return &ownerError{s.Uid}
	} else if ok && !inHome && s.Nlink > 1 {
		return errNames
	}
	return nil
}

// readFile reads and closes a file, unless there was an error when it was opened.
func readFile(f *os.File, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := textfile.ReadAll(f, textfile.MaxScript)
	if text == nil {
		text = []byte{}
	}
	return text, err
}

// interruptible calls a function that may read for a long time, for example from a named pipe, and
// returns early if the context ends.
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

// reason returns an error without the operation and the path.
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
