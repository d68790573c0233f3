package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/jobdir"
)

// listen makes a socket for messages. Its directory belongs to root, so no other user can replace the socket. It gets
// its name last: a process that connects before finds the socket of the previous launcher or none, and tries again.
func listen(path string, owner, mode, queue int) (*os.File, error) {
	next := path + ".new"
	if err := unix.Unlink(next); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, &fs.PathError{Op: "unlink", Path: next, Err: err}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	listener := os.NewFile(uintptr(fd), path)
	err = claim.At(next, func(short string) error {
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: short}); err != nil {
			return os.NewSyscallError("bind", err)
		}
		if err := unix.Lchown(next, owner, -1); err != nil {
			return os.NewSyscallError("lchown", err)
		}
		if err := unix.Chmod(next, uint32(mode)); err != nil { //nolint:gosec // a constant
			return os.NewSyscallError("chmod", err)
		}
		if err := unix.Listen(fd, queue); err != nil {
			return os.NewSyscallError("listen", err)
		}
		return os.NewSyscallError("rename", unix.Rename(next, path))
	})
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("cannot listen on %q: %w", path, err)
	}
	return listener, nil
}

// FrontSocket is the socket on which a launcher waits for fronts that it has not started itself: fronts with a systemd unit
// of their own, and fronts of an earlier launcher.
type FrontSocket struct {
	listener *os.File
	uid      uint32
	callers  chan *caller
	done     chan struct{}
	wait     sync.WaitGroup
}

// caller is a process that has connected to a FrontSocket.
type caller struct {
	conn  *conn
	pidfd *os.File
}

func (c *caller) close() {
	c.conn.close()
	_ = c.pidfd.Close()
}

// signal sends the front a signal. It has no effect if the front has ended.
func (c *caller) signal(sig unix.Signal) {
	raw, err := c.pidfd.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
}

// ended waits for the end of the front.
func (c *caller) ended() {
	raw, err := c.pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
		n, err := unix.Poll(list, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// OpenFrontSocket makes the socket, to which only root and a user can connect. It calls refused for other callers.
func OpenFrontSocket(spool *jobdir.Spool, user *userdb.User, refused func(error)) (*FrontSocket, error) {
	const mode, queue = 0o600, 8
	listener, err := listen(spool.Path()+"/"+SocketName, int(user.UID), mode, queue)
	if err != nil {
		return nil, err
	}
	d := &FrontSocket{listener: listener, uid: user.UID, callers: make(chan *caller), done: make(chan struct{})}
	d.wait.Go(func() { d.serve(refused) })
	return d, nil
}

// Close closes the socket.
func (d *FrontSocket) Close() {
	close(d.done)
	_ = d.listener.Close()
	d.wait.Wait()
}

// acceptPause is the pause after a connection that could not be taken.
const acceptPause = 100 * time.Millisecond

// serve passes on one caller after the other.
func (d *FrontSocket) serve(refused func(error)) {
	raw, err := d.listener.SyscallConn()
	if err != nil {
		return
	}
	for {
		var fd int
		var failed error
		if err := raw.Read(func(listener uintptr) bool {
			fd, _, failed = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(failed, unix.EAGAIN)
		}); err != nil {
			return // it was closed
		}
		if failed != nil { // the caller has gone, or there is no room for another descriptor
			select {
			case <-time.After(acceptPause):
				continue
			case <-d.done:
				return
			}
		}
		c, err := d.meet(fd)
		if err != nil {
			unix.Close(fd)
			refused(err)
			continue
		}
		select {
		case d.callers <- c:
		case <-d.done:
			c.close()
			return
		}
	}
}

// meet identifies the process that has connected. Signals go through a descriptor of this process, so that they cannot
// reach a later process with the same process ID.
func (d *FrontSocket) meet(fd int) (*caller, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt", err)
	}
	if peer.Uid != d.uid {
		return nil, fmt.Errorf("a process of user ID %d has connected, expected the front of user ID %d", peer.Uid, d.uid)
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD) // Linux 6.5
	if err != nil {
		if pidfd, err = openPidfd(peer); err != nil {
			return nil, fmt.Errorf("process %d, which has connected: %w", peer.Pid, err)
		}
	}
	unix.CloseOnExec(pidfd)
	_ = unix.SetNonblock(pidfd, true) // or a thread waits for it
	conn, err := newConn(fd)
	if err != nil {
		unix.Close(pidfd)
		return nil, err
	}
	return &caller{conn, os.NewFile(uintptr(pidfd), "front")}, nil
}

// openPidfd finds the process that has connected by its number. It must still belong to its user.
func openPidfd(peer *unix.Ucred) (int, error) {
	pidfd, err := unix.PidfdOpen(int(peer.Pid), 0)
	if err != nil {
		return -1, os.NewSyscallError("pidfd_open", err)
	}
	var st unix.Stat_t
	err = unix.Stat("/proc/"+strconv.Itoa(int(peer.Pid)), &st)
	if err == nil {
		err = unix.PidfdSendSignal(pidfd, 0, nil, 0) // it existed while its owner was read
	}
	if err == nil && st.Uid != peer.Uid {
		err = fmt.Errorf("it belongs to user ID %d, expected %d", st.Uid, peer.Uid)
	}
	if err != nil {
		unix.Close(pidfd)
		return -1, err
	}
	return pidfd, nil
}
