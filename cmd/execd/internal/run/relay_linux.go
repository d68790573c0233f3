package run

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// streams are the standard output and error of a job that does not redirect them.
//
// A job of another user gets pipes that this process reads, and not this process's own streams.
// With a descriptor of the terminal the job could read the caller's input, and with a descriptor of
// a file it could change the file; a process to which the job has passed the descriptor could
// continue after the job.
type streams struct {
	stdout, stderr *os.File
	relays         []*relay
}

// relay copies one pipe to one stream of this process.
type relay struct {
	from, to *os.File
	write    *os.File // the job's end
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
	// If both streams have the same destination they share a pipe, which keeps the order.
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
	// This process's end uses deadlines; the job's end must block, like a file.
	err := unix.SetNonblock(fds[0], true)
	if err == nil {
		// Some jobs write to /dev/stderr, which opens the pipe again.
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

// copy copies until the last writer has closed the pipe or finish sets a deadline. If writing to
// this process's output fails, it closes the pipe.
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

// started closes this process's copies of the ends that the job writes to.
func (s *streams) started() {
	for _, r := range s.relays {
		r.write.Close()
	}
}

// finish passes on the job's remaining output. It does not wait for a process that a prolog has
// left running with an open pipe.
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

// drain copies the present content of the pipe.
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
