// Package passed protects processes from descriptors that others pass to them over a Unix socket (unix(7), SCM_RIGHTS).
//
// The process that receives a descriptor closes it, also if it has never asked for any and closes the socket unread. The close
// of a TCP connection with SO_LINGER (socket(7)) takes as long as the sender likes. So a user could stop a thread of a daemon for
// days, for example the one that accepts connections.
package passed

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// soPassRights is SO_PASSRIGHTS of Linux 6.16.
const soPassRights = 83

// mostPassed is the maximum number of descriptors in a message (SCM_MAX_FD).
const mostPassed = 253

// Refuse makes the kernel refuse descriptors on a socket, and on all connections that a listening socket accepts from then
// on. Before Linux 6.16 it does nothing.
func Refuse(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, soPassRights, 0) }

// Close closes descriptors that another process has passed, without waiting for the other side of a connection.
func Close(fds []int) {
	for _, fd := range fds {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}) // it may be no socket
		_ = unix.Close(fd)
	}
}

// HangUp ends the receipt on a connected Unix socket, and drops what it has received, so that a close of the socket does not
// wait.
func HangUp(fd int) {
	_ = unix.Shutdown(fd, unix.SHUT_RD) // nothing follows
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil && kind != unix.SOCK_STREAM {
		// Each message then has a control message: an empty one differs from the end.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}
	data, control := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(4*mostPassed)+unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, controls, _, _, err := unix.Recvmsg(fd, data, control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0 && controls == 0:
			return
		default:
			Close(of(control[:controls]))
		}
	}
}

// HangUpConn calls HangUp for a connection.
func HangUpConn(c syscall.Conn) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { HangUp(int(fd)) })
	}
}

// of returns the descriptors of control messages.
func of(control []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for i := range messages {
		if more, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, more...)
		}
	}
	return fds
}

// Conn is a connection whose Read and Close do not wait for descriptors that the other side passes. All of them are closed.
type Conn struct {
	*net.UnixConn
	refuses bool // the kernel does not let any descriptor through
}

// NewConn returns a Conn. If Refuse has had an effect on its socket, it is as fast as the connection itself.
func NewConn(c *net.UnixConn) Conn {
	refuses := false
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			lets, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soPassRights)
			refuses = err == nil && lets == 0
		})
	}
	return Conn{c, refuses}
}

var controls = sync.Pool{New: func() any { b := make([]byte, unix.CmsgSpace(4*mostPassed)); return &b }}

// Read reads data.
func (c Conn) Read(b []byte) (int, error) {
	if len(b) == 0 || c.refuses {
		return c.UnixConn.Read(b)
	}
	control := controls.Get().(*[]byte)
	defer controls.Put(control)
	n, controls, _, _, err := c.ReadMsgUnix(b, *control)
	if controls > 0 {
		Close(of((*control)[:controls]))
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // as of all connections
	}
	return max(n, 0), err // it is -1 with an error
}

// Close closes the connection.
func (c Conn) Close() error {
	if !c.refuses {
		HangUpConn(c.UnixConn)
	}
	return c.UnixConn.Close()
}
