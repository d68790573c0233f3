package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/jobdir"
)

// terminal is what an interactive job has as its standard streams: a pseudo terminal
// (pty(7)), or a pipe for each of them (pipe(7)). It is ours and not the agent's, so that
// the job keeps it when an agent ends: whoever attaches gets descriptors of its other side
// from us.
type terminal struct {
	// other is that side: the master side of the pseudo terminal; or, of the pipes, where
	// standard output and standard error are read, and where standard input is written,
	// -1 when that has ended.
	other []int
	job   [3]int // the standard streams of the job
	// listener is a Unix socket in the job directory (jobdir.FileTerminal). Whoever
	// connects, as root or as whom we run, gets the other side (unix(7), SCM_RIGHTS).
	// holder is the last one who did, as long as it is there: a byte from it ends the
	// standard input of the job.
	listener, holder int
	taken            bool // at least once
}

// How long the output of a job that has ended waits for somebody to take it.
const (
	firstPatience = 2 * time.Second  // an agent looks as soon as it sees the job begin
	awayPatience  = 10 * time.Second // one that is being restarted takes a moment
)

// openTerminal makes the terminal of the job, and begins to hand it out.
func (s *Shepherd) openTerminal() (err error) {
	t := &terminal{job: [3]int{-1, -1, -1}, listener: -1, holder: -1}
	if s.d.Terminal.Pipes {
		err = t.openPipes()
	} else {
		err = t.open(uint16(s.d.Terminal.Rows), uint16(s.d.Terminal.Cols))
	}
	for _, fd := range t.job {
		if err == nil && s.privileged {
			// As of a person who logs in: mesg(1), and who opens it again by a name
			// such as /dev/stderr.
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
	master, err := unix.Open("/dev/ptmx", flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return &jobdir.Error{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	t.other = []int{master}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return call("ioctl TIOCSPTLCK", err)
	}
	// Not by its name, under which something else may lie in this name space.
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
		// Not blocking, for whoever gets it.
		if err := unix.SetNonblock(t.other[other], true); err != nil {
			return call("fcntl", err)
		}
	}
	return nil
}

// inputEnd is the place in terminal.other of where standard input is written.
const inputEnd = 2

// begun lets go of the job's side of pipes, which the job has by now: then its end, and that
// it has closed one, is seen at the other side. Of a pseudo terminal the job itself may open
// its side again.
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

// poll is what terminalNews is to be told of: of a descriptor of -1 nothing is (poll(2)).
func (t *terminal) poll() [2]unix.PollFd {
	return [2]unix.PollFd{{Fd: int32(t.listener), Events: unix.POLLIN}, {Fd: int32(t.holder), Events: unix.POLLIN}}
}

// terminalNews hands the terminal to whoever has asked for it, and ends the standard input
// of the job.
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

// hand gives one who has connected the other side, with a byte, which a message cannot be
// without.
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

// heed closes standard input for a holder who says so, and forgets one who has gone.
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

// closeTerminal lets go of the terminal of a job that has ended: then whoever has the
// other side reads what is left, and the end.
func (s *Shepherd) closeTerminal() {
	t := s.terminal
	t.closeJob()
	patience := firstPatience
	if t.taken {
		patience = awayPatience
	}
	if t.holder >= 0 {
		t.heed() // it may have gone
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
