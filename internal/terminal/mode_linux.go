package terminal

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool {
	is, err := control(f, func(fd int) (bool, error) { return term.IsTerminal(fd), nil })
	return err == nil && is
}

// Size returns the size of the window, or an error if there is none.
func Size(f *os.File) (rows, cols uint16, err error) {
	w, err := control(f, func(fd int) (*unix.Winsize, error) { return unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ) })
	if err != nil {
		return 0, 0, err
	}
	return w.Row, w.Col, nil
}

// control calls do with the descriptor of a file. Unlike Fd, it does not switch the file to
// blocking mode.
func control[T any](f *os.File, do func(fd int) (T, error)) (v T, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return v, err
	}
	var e error
	if err := raw.Control(func(fd uintptr) { v, e = do(int(fd)) }); err != nil {
		return v, err
	}
	return v, e
}

// mode is the mode of a terminal, which is changed and restored.
type mode struct {
	file   *os.File
	before *term.State // nil while it is not changed
}

// raw makes the terminal pass on each key, and show each character, unchanged. It may be
// called again after a shell has changed the terminal in between.
func (m *mode) raw() error {
	before, err := control(m.file, term.MakeRaw)
	if err != nil {
		return err
	}
	if m.before == nil {
		m.before = before
	}
	return nil
}

// restore undoes the changes of raw.
func (m *mode) restore() {
	if m.before == nil {
		return
	}
	// A closed terminal needs nothing.
	_, _ = control(m.file, func(fd int) (struct{}, error) { return struct{}{}, term.Restore(fd, m.before) })
	m.before = nil
}

// inForeground reports whether this process may use the terminal now: a shell's job that was
// stopped and continues in the background must not. If it is not the controlling terminal of the
// session, no shell manages it.
func (m *mode) inForeground() bool {
	group, err := control(m.file, func(fd int) (int, error) {
		return unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	})
	return err != nil || group == unix.Getpgrp()
}
