package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/jobdir"
)

// terminal holds the standard streams of an interactive job: a pseudo terminal (pty(7)), or a pipe
// for each stream (pipe(7)). The supervisor owns it, not the agent, so that the job keeps it when
// an agent ends. A process that attaches gets descriptors of the other side from the supervisor.
type terminal struct {
	// other is that other side: the master side of the pseudo terminal; or the reading ends of
	// standard output and standard error and the writing end of standard input, -1 when the job's
	// input is closed.
	other []int
	job   [3]int // the standard streams of the job
	// listener is a Unix socket in the job directory (jobdir.FileTerminal). A process of root, or
	// of the user that the supervisor runs as, gets the other side when it connects (unix(7),
	// SCM_RIGHTS). holder is the connection of the last such process until it closes: a byte from
	// it ends the standard input of the job.
	listener, holder int
	taken            bool // at least once
}

// How long the supervisor keeps the output of a finished job for a process to take it.
const (
	firstPatience = 2 * time.Second  // an agent attaches as soon as it sees the job begin
	awayPatience  = 10 * time.Second // an agent that is being restarted takes a moment
)

// openTerminal makes the terminal of the job, and begins to offer it.
func (s *Shepherd) openTerminal() (err error) {
	t := &terminal{job: [3]int{-1, -1, -1}, listener: -1, holder: -1}
	if s.d.Terminal.Pipes {
		err = t.openPipes()
	} else {
		err = t.open(uint16(s.d.Terminal.Rows), uint16(s.d.Terminal.Cols))
	}
	for _, fd := range t.job {
		if err == nil && s.privileged {
			// Owner and mode as for a login: for mesg(1), and for programs that open it again by a
			// name such as /dev/stderr.
			err = call("fchown", unix.Fchown(fd, int(s.owner.UID), -1))
		}
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

// call returns the error of a system call; nil for none.
func call(name string, err error) error {
	if err == nil {
		return nil
	}
	return &oslite.CallError{Call: name, Err: err}
}

func (t *terminal) open(rows, cols uint16) (err error) {
	// Not blocking, for the process that gets it.
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err := unix.Open("/dev/ptmx", flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return &jobdir.Error{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	t.other = []int{master}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return call("ioctl TIOCSPTLCK", err)
	}
	// Not by name: in this mount namespace the name may stand for another file.
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return call("ioctl TIOCGPTPEER", errno)
	}
	t.job = [3]int{int(fd), int(fd), int(fd)}
	return call("ioctl TIOCSWINSZ", unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
}

func (t *terminal) openPipes() error {
	t.other = []int{-1, -1, -1}
	for stream, other := range [...]int{inputEnd, 0, 1} {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return call("pipe2", err)
		}
		if stream == 0 {
			t.job[stream], t.other[other] = p[0], p[1]
		} else {
			t.other[other], t.job[stream] = p[0], p[1]
		}
		// Not blocking, for the process that gets it.
		if err := unix.SetNonblock(t.other[other], true); err != nil {
			return call("fcntl", err)
		}
	}
	return nil
}

// inputEnd is the index in terminal.other of the writing end of standard input.
const inputEnd = 2

// begun closes the supervisor's copies of the job's pipe ends, which the job has inherited by now,
// so that the other side sees when the job closes one. The side of a pseudo terminal stays open:
// the job itself may open it again.
func (t *terminal) begun() {
	if len(t.other) > 1 {
		t.closeJob()
	}
}

func (t *terminal) closeJob() {
	for i, fd := range t.job {
		if fd >= 0 && (i == 0 || fd != t.job[0]) {
			_ = unix.Close(fd)
		}
	}
	t.job = [3]int{-1, -1, -1}
}

// listen makes the socket. Its path goes through the descriptor of the job directory: a long path
// does not fit into an address (unix(7)).
func (t *terminal) listen(dir *jobdir.Dir) (err error) {
	if t.listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return call("socket", err)
	}
	if err := dir.Remove(jobdir.FileTerminal); err != nil {
		return err
	}
	mask := unix.Umask(0o177)
	defer unix.Umask(mask)
	err = dir.Use(func(fd int) error {
		return unix.Bind(t.listener, &unix.SockaddrUnix{Name: "/proc/self/fd/" + itoa(fd) + "/" + jobdir.FileTerminal})
	})
	if err != nil {
		return call("bind", err)
	}
	return call("listen", unix.Listen(t.listener, 8))
}

func (t *terminal) close() {
	t.closeJob()
	for _, fd := range append(t.other, t.listener, t.holder) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// poll returns the descriptors that terminalNews needs the state of; poll(2) ignores a descriptor
// of -1.
func (t *terminal) poll() [2]unix.PollFd {
	return [2]unix.PollFd{{Fd: int32(t.listener), Events: unix.POLLIN}, {Fd: int32(t.holder), Events: unix.POLLIN}}
}

// terminalNews hands the terminal to a process that has connected, and ends the standard input of
// the job if the holder asks for it.
func (s *Shepherd) terminalNews(fds []unix.PollFd) {
	if s.terminal == nil || len(fds) < 2 {
		return
	}
	if fds[1].Revents != 0 {
		s.terminal.heed()
	}
	if fds[0].Revents == 0 {
		return
	}
	if err := s.terminal.hand(); err != nil {
		s.trace("cannot hand out the terminal: " + err.Error())
	}
}

// hand sends the other side to a process that has connected, with one byte, because a message
// cannot be empty.
func (t *terminal) hand() error {
	fd, _, err := unix.Accept4(t.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return call("accept4", err)
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		unix.Close(fd)
		return call("getsockopt", err)
	}
	if peer.Uid != 0 && int(peer.Uid) != unix.Geteuid() {
		unix.Close(fd)
		return call("user "+itoa(int(peer.Uid)), unix.EPERM)
	}
	other := t.other
	if len(other) > inputEnd && other[inputEnd] < 0 {
		other = other[:inputEnd]
	}
	if err := unix.Sendmsg(fd, []byte{0}, unix.UnixRights(other...), nil, 0); err != nil {
		unix.Close(fd)
		return call("sendmsg", err)
	}
	t.leave()
	t.holder, t.taken = fd, true
	return nil
}

// heed closes standard input if the holder asks for it, and forgets a holder that has closed its
// connection.
func (t *terminal) heed() {
	var said [1]byte
	n, err := unix.Read(t.holder, said[:])
	if n > 0 && len(t.other) > inputEnd && t.other[inputEnd] >= 0 {
		_ = unix.Close(t.other[inputEnd])
		t.other[inputEnd] = -1
	}
	if n == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR {
		t.leave()
	}
}

func (t *terminal) leave() {
	if t.holder >= 0 {
		_ = unix.Close(t.holder)
		t.holder = -1
	}
}

// closeTerminal closes the terminal of a finished job: the process that has the other side reads
// what is left, and then the end of file.
func (s *Shepherd) closeTerminal() {
	t := s.terminal
	t.closeJob()
	patience := firstPatience
	if t.taken {
		patience = awayPatience
	}
	if t.holder >= 0 {
		t.heed() // the holder may have closed its connection
	}
	s.set(dueTerminal, time.Now().Add(patience))
	for t.holder < 0 && !s.killed && !s.take(dueTerminal, time.Now()) {
		s.pause()
	}
	s.clear(dueTerminal)
	s.terminal = nil
	t.close()
	_ = s.dir.Remove(jobdir.FileTerminal)
}
