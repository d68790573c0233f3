package launcher

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/passed"
)

// conn is one end of the socket pair, of type SOCK_SEQPACKET: a message comes as a whole, with its
// descriptors.
type conn struct {
	file *os.File
	send sync.Mutex
}

// mostDescriptors is the maximum number of descriptors in a message: a content, and a script or a
// directory.
const mostDescriptors = 2

// newConn takes over the descriptor of one end.
func newConn(fd int) (*conn, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_SEQPACKET {
		err = errors.New("it is not a socket for messages")
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use descriptor %d as the connection with the launcher: %w", fd, err)
	}
	unix.CloseOnExec(fd)
	return &conn{file: os.NewFile(uintptr(fd), "launcher")}, nil
}

// pair makes the two ends. The first is a conn, the other one is for a process to be started.
func pair() (*conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	other := os.NewFile(uintptr(fds[1]), "front")
	c, err := newConn(fds[0])
	if err != nil {
		unix.Close(fds[0])
		other.Close()
	}
	return c, other, err
}

func (c *conn) close() {
	passed.HangUpConn(c.file)
	_ = c.file.Close()
}

// finish ends the connection for further messages of the other side. Those that it has sent can be read, so that orders
// that want no answer are carried out.
func (c *conn) finish() {
	if raw, err := c.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) })
	}
}

// write sends a message. The descriptors stay the caller's.
func (c *conn) write(text []byte, fds ...int) error {
	if len(text) > mostMessage {
		return fmt.Errorf("a message has %d bytes, at most %d are possible", len(text), mostMessage)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	c.send.Lock()
	defer c.send.Unlock()
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for {
			failed = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err == nil {
		err = os.NewSyscallError("sendmsg", failed)
	}
	return err
}

// messageError is an invalid message. Valid messages may follow it.
type messageError struct{ text string }

func (e *messageError) Error() string { return e.text }

// read receives a message into buffer, which has room for more than the largest one. No text and no
// error are the end. The descriptors are the caller's, also with an *messageError.
func (c *conn) read(buffer []byte) (text []byte, fds []int, err error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	control := make([]byte, unix.CmsgSpace(4*(mostDescriptors+1)))
	var n, controls, flags int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, controls, flags, _, failed = unix.Recvmsg(int(fd), buffer, control, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err == nil {
		err = os.NewSyscallError("recvmsg", failed)
	}
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	for i := range messages {
		if more, e := unix.ParseUnixRights(&messages[i]); e == nil {
			fds = append(fds, more...)
		}
	}
	switch {
	case err != nil:
		return nil, fds, &messageError{err.Error()}
	case flags&unix.MSG_CTRUNC != 0 || len(fds) > mostDescriptors:
		return nil, fds, &messageError{"it has too many descriptors"}
	case flags&unix.MSG_TRUNC != 0 || n > mostMessage:
		return nil, fds, &messageError{fmt.Sprintf("it is longer than %d bytes", mostMessage)}
	}
	return buffer[:n], fds, nil
}

func closeAll(fds []int) { passed.Close(fds) }

// seals are the seals of a content: neither its bytes nor its length can change any more.
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// memory writes a content to a sealed file in memory.
func memory(name string, content []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	for rest := content; len(rest) > 0 && err == nil; {
		var n int
		if n, err = unix.Write(fd, rest); errors.Is(err, unix.EINTR) {
			err = nil
		}
		rest = rest[max(n, 0):]
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot put %d bytes into memory for the other process: %w", len(content), err)
	}
	return fd, nil
}

// sizeOf returns the size of a sealed file in memory, and refuses all other files: a pipe could block the
// reader, and an ordinary file could change meanwhile, or be one that the sender may not read.
func sizeOf(fd, most int) (int64, error) {
	// First, because no other file has seals, and fstat of a file of FUSE waits for its server.
	has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || has&seals != seals {
		return 0, errors.New("a descriptor is not a sealed file in memory")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	if st.Size > int64(most) {
		return 0, fmt.Errorf("a file in memory has %d bytes, at most %d are possible", st.Size, most)
	}
	return st.Size, nil
}

// contentOf reads a sealed file in memory: see sizeOf.
func contentOf(fd, most int) ([]byte, error) {
	size, err := sizeOf(fd, most)
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	for done := 0; done < len(b); {
		n, err := unix.Pread(fd, b[done:], int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, os.NewSyscallError("pread", err)
		case n == 0:
			return nil, errors.New("a file in memory is shorter than it was")
		}
		done += max(n, 0)
	}
	return b, nil
}

// descriptorUser owns the descriptor that is sent with an answer: a directory, or a connection.
type descriptorUser interface {
	Use(func(fd int) error) error
}

// connection is a descriptor that is used once.
type connection int

// Use calls f, and closes the descriptor.
func (c connection) Use(f func(fd int) error) error {
	defer func() { _ = unix.Close(int(c)) }()
	return f(int(c))
}
