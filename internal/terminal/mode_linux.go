package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool {
	_, err := control(f, func(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TCGETS) })
	return err == nil
}

// Size returns the size of the window; an error where there is none.
func Size(f *os.File) (rows, cols uint16, err error) {
	w, err := control(f, func(fd int) (*unix.Winsize, error) { return unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ) })
	if err != nil {
		return 0, 0, err
	}
	return w.Row, w.Col, nil
}

// control does something with the descriptor of a file, and leaves the file as it is:
// Fd makes it one that cannot be waited for.
func control[T any](f *os.File, do func(fd int) (*T, error)) (*T, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var v *T
	var e error
	if err := raw.Control(func(fd uintptr) { v, e = do(int(fd)) }); err != nil {
		return nil, err
	}
	return v, e
}

// mode is that of a terminal, which is changed and put back.
type mode struct {
	file   *os.File
	before *unix.Termios // nil while it is not changed
}

// raw has the terminal pass on each key, and show each character, as it is (termios(3),
// cfmakeraw). It may be called again, after a shell has changed the terminal meanwhile.
func (m *mode) raw() error {
	now, err := control(m.file, func(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TCGETS) })
	if err != nil {
		return err
	}
	t := *now
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := m.set(&t); err != nil {
		return err
	}
	if m.before == nil {
		m.before = now
	}
	return nil
}

// restore puts back what raw has changed.
func (m *mode) restore() {
	if m.before == nil {
		return
	}
	_ = m.set(m.before) // a terminal that is gone needs nothing
	m.before = nil
}

func (m *mode) set(t *unix.Termios) error {
	_, err := control(m.file, func(fd int) (*struct{}, error) { return nil, unix.IoctlSetTermios(fd, unix.TCSETS, t) })
	return err
}

// inForeground reports whether the terminal is ours at the moment: a job of a shell that
// was stopped and goes on in the background must not touch it. One that is not the
// terminal of our session is no shell's to give.
func (m *mode) inForeground() bool {
	group, err := control(m.file, func(fd int) (*int, error) {
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return &n, err
	})
	return err != nil || *group == unix.Getpgrp()
}
