package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/vm/plan"
)

// openLine opens the serial line to the host, so that bytes arrive as they are:
// a terminal would make CR LF of each end of a line.
func openLine() (*os.File, error) {
	// It must not become the terminal that controls us and our children.
	line, err := os.OpenFile(plan.Frames, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the line to the host: %w", err)
	}
	fd := int(line.Fd())
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("cannot set up the line to the host: %w", err)
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("cannot set up the line to the host: %w", err)
	}
	return line, nil
}

// drain waits until all bytes have left.
func drain(line *os.File) error {
	return unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1) // as tcdrain(3)
}
