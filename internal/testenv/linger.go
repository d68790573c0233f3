package testenv

import (
	"errors"
	"math"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Lingering returns the descriptor of a TCP connection of the loopback interface whose last close takes until the end of the
// test: it has data that the other side does not read, and SO_LINGER (socket(7)). Pass it to another process before closing it.
func Lingering(t testing.TB) (fd int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // it returns at once
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.(*net.TCPConn).SetLinger(0) // a reset ends the wait
		other.Close()
	})
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	for data := make([]byte, 64<<10); failed == nil; {
		_, failed = unix.Write(fd, data) // the descriptor does not block
	}
	if !errors.Is(failed, unix.EAGAIN) {
		t.Fatal(failed)
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: math.MaxInt16}); err != nil {
		t.Fatal(err)
	}
	return fd
}
