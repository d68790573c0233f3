package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/jobdir"
)

// terminal is the pseudo terminal that is the standard streams of a job (pty(7)). It
// is ours and not the agent's, so that the job keeps it when an agent ends: whoever
// attaches gets a descriptor of its master side from us.
type terminal struct {
	master, job int
	// listener is a Unix socket in the job directory (jobdir.FileTerminal). Whoever
	// connects, as root or as whom we run, gets the master side (unix(7), SCM_RIGHTS).
	listener int
	taken    bool // at least once
}

// terminalPatience is how long the output of a job that has ended waits for somebody
// who has not come yet: an agent looks as soon as it sees the job begin.
const terminalPatience = 2 * time.Second

// openTerminal makes the terminal of the job, and begins to hand it out.
func (s *Shepherd) openTerminal() error {
	t := &terminal{-1, -1, -1, false}
	err := t.open(uint16(s.d.Terminal.Rows), uint16(s.d.Terminal.Cols))
	if err == nil && s.privileged {
		// As of a person who logs in: mesg(1), and who opens its name again.
		err = call("fchown", unix.Fchown(t.job, int(s.owner.UID), -1))
	}
	if err == nil {
		err = t.listen(s.dir)
	}
	if err != nil {
		t.close()
		return err
	}
	s.terminal = t
	return nil
}

// call is the error of a system call; nil for none.
func call(name string, err error) error {
	if err == nil {
		return nil
	}
	return &oslite.CallError{Call: name, Err: err}
}

func (t *terminal) open(rows, cols uint16) (err error) {
	// Not blocking, for whoever gets it.
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	if t.master, err = unix.Open("/dev/ptmx", flags|unix.O_NONBLOCK, 0); err != nil {
		return &jobdir.Error{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	if err := unix.IoctlSetPointerInt(t.master, unix.TIOCSPTLCK, 0); err != nil {
		return call("ioctl TIOCSPTLCK", err)
	}
	// Not by its name, under which something else may lie in this name space.
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(t.master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return call("ioctl TIOCGPTPEER", errno)
	}
	t.job = int(fd)
	return call("ioctl TIOCSWINSZ", unix.IoctlSetWinsize(t.master, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
}

// listen makes the socket. Its path goes through our descriptor of the directory: a
// long one does not fit into an address (unix(7)).
func (t *terminal) listen(dir *jobdir.Dir) (err error) {
	if t.listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return call("socket", err)
	}
	if err := dir.Remove(jobdir.FileTerminal); err != nil {
		return err
	}
	mask := unix.Umask(0o177)
	defer unix.Umask(mask)
	address := &unix.SockaddrUnix{Name: "/proc/self/fd/" + itoa(dir.Fd()) + "/" + jobdir.FileTerminal}
	if err := unix.Bind(t.listener, address); err != nil {
		return call("bind", err)
	}
	return call("listen", unix.Listen(t.listener, 8))
}

func (t *terminal) close() {
	for _, fd := range []int{t.master, t.job, t.listener} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

func (t *terminal) poll() unix.PollFd {
	return unix.PollFd{Fd: int32(t.listener), Events: unix.POLLIN}
}

// terminalNews hands the terminal to whoever has asked for it.
func (s *Shepherd) terminalNews(fds []unix.PollFd) {
	if s.terminal == nil || len(fds) == 0 || fds[0].Revents == 0 {
		return
	}
	if err := s.terminal.hand(); err != nil {
		s.trace("cannot hand out the terminal: " + err.Error())
	}
}

// hand gives one who has connected the master side, with a byte, which a message
// cannot be without.
func (t *terminal) hand() error {
	fd, _, err := unix.Accept4(t.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return call("accept4", err)
	}
	defer unix.Close(fd)
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return call("getsockopt", err)
	}
	if peer.Uid != 0 && int(peer.Uid) != unix.Geteuid() {
		return call("user "+itoa(int(peer.Uid)), unix.EPERM)
	}
	if err := unix.Sendmsg(fd, []byte{0}, unix.UnixRights(t.master), nil, 0); err != nil {
		return call("sendmsg", err)
	}
	t.taken = true
	return nil
}

// closeTerminal lets go of the terminal of a job that has ended: then whoever has the
// master side reads what is left, and the end.
func (s *Shepherd) closeTerminal() {
	t := s.terminal
	_ = unix.Close(t.job)
	t.job = -1
	if !t.taken && !s.killed {
		s.set(dueTerminal, time.Now().Add(terminalPatience))
		for !t.taken && !s.killed && !s.take(dueTerminal, time.Now()) {
			s.pause()
		}
		s.clear(dueTerminal)
	}
	s.terminal = nil
	t.close()
	_ = s.dir.Remove(jobdir.FileTerminal)
}
