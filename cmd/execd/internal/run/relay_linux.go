package run

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// streams are the standard output and error of a job that did not send them
// elsewhere.
//
// The job of another user does not get ours themselves, but pipes that we read:
// with a descriptor of our terminal it could read what is typed there, and with
// one of our files rewrite what it finds in them; and a process that it has
// handed the descriptor to could go on with that when the job has long ended.
type streams struct {
	stdout, stderr *os.File
	relays         []*relay
}

// relay copies one pipe to one of our streams.
type relay struct {
	from, to *os.File
	write    *os.File // end of the job
	done     chan struct{}
	err      error // of writing
}

func (s *session) streams() (*streams, error) {
	if s.owner.UID == s.caller.UID {
		return &streams{stdout: s.Stdout, stderr: s.Stderr}, nil
	}
	out, err := s.newRelay(s.Stdout)
	if err != nil {
		return nil, err
	}
	list := &streams{stdout: out.write, stderr: out.write, relays: []*relay{out}}
	// Where both go to the same place they share a pipe, which keeps the order.
	if a, e := s.Stdout.Stat(); e == nil {
		if b, e := s.Stderr.Stat(); e == nil && os.SameFile(a, b) {
			return list, nil
		}
	}
	other, err := s.newRelay(s.Stderr)
	if err != nil {
		list.finish(s)
		return nil, err
	}
	list.stderr, list.relays = other.write, append(list.relays, other)
	return list, nil
}

func (s *session) newRelay(to *os.File) (*relay, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	// Our end takes deadlines; that of the job has to block, as files do.
	err := unix.SetNonblock(fds[0], true)
	if err == nil {
		// Jobs write to /dev/stderr, which opens the pipe again.
		err = unix.Fchown(fds[1], int(s.owner.UID), int(s.owner.GID))
	}
	if err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, os.NewSyscallError("pipe", err)
	}
	r := &relay{
		from: os.NewFile(uintptr(fds[0]), "output of the job"), write: os.NewFile(uintptr(fds[1]), "output of the job"),
		to: to, done: make(chan struct{}),
	}
	go r.copy()
	return r, nil
}

// copy copies until the last writer has gone or finish sets a deadline. When
// nobody reads our output any more, the job finds its pipe closed.
func (r *relay) copy() {
	defer close(r.done)
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.from.Read(buffer)
		if n > 0 {
			if _, r.err = r.to.Write(buffer[:n]); r.err != nil {
				r.from.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// started drops our copies of the ends that the job writes to.
func (s *streams) started() {
	for _, r := range s.relays {
		r.write.Close()
	}
}

// finish passes on what the job has written. A process that a prolog has left
// may still have a pipe open; it is not waited for.
func (s *streams) finish(session *session) {
	for _, r := range s.relays {
		r.write.Close()
		_ = r.from.SetReadDeadline(time.Unix(1, 0))
		<-r.done
		if r.err == nil {
			r.err = r.drain()
		}
		r.from.Close()
		if r.err != nil && !errors.Is(r.err, unix.EPIPE) {
			session.say("cannot pass on the output of the job: " + r.err.Error())
		}
	}
}

// drain copies what is in the pipe now.
func (r *relay) drain() error {
	raw, err := r.from.SyscallConn()
	if err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for {
		var n int
		// The descriptor does not block, and Control does not wait.
		if e := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buffer) }); e != nil {
			return e
		}
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return nil
		case err != nil:
			return err
		}
		if _, err := r.to.Write(buffer[:n]); err != nil {
			return err
		}
	}
}
