package program

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SearchPath is the PATH of programs of the site: nothing of the daemon's own environment.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A file that another process still writes is tried again so often, after such pauses.
const (
	busyTries = 10
	busyPause = 20 * time.Millisecond
)

// Command is a program of the site that is to run.
type Command struct {
	Path string
	Args []string // words after the path
	// Dir is the working directory and Env the whole environment; where they are empty, those of
	// this process.
	Dir string
	Env []string
	As  *syscall.Credential // nil for the user of this process
	// Stdin, Stdout and Stderr are as in exec.Cmd: a file is the program's own, all others are
	// copied until WaitDelay after the end of the program, so that a process that it has left behind
	// with the same output is not waited for.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	WaitDelay      time.Duration
	// Leave has the processes go on that the program leaves behind when it ends by itself, such as
	// one that delivers a mail. Otherwise they are killed.
	Leave bool
	// Signal is kill(2); nil, except in tests.
	Signal func(pid int, sig unix.Signal) error
}

// Process is a program that runs in a session of its own: signals of a terminal do not reach it, and
// what it starts is in its process group, unless it leaves the group on purpose. All methods may be
// called from several goroutines.
type Process struct {
	PID int

	cmd    *exec.Cmd
	leave  bool
	signal func(int, unix.Signal) error
	done   chan struct{}
	err    error // valid when done is closed

	mu     sync.Mutex
	reaped bool // its number may be that of another process
}

// Start starts a program. A program without a first line that names its interpreter is a shell script,
// as sh(1) and Grid Engine have it. The program gets no descriptors of this process but the three; on
// a kernel before Linux 5.11, it gets those that this process was started with.
func Start(c *Command) (*Process, error) {
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	p := &Process{leave: c.Leave, signal: c.Signal, done: make(chan struct{})}
	if p.signal == nil {
		p.signal = unix.Kill
	}
	words := []string{c.Path}
	for try := 1; ; try++ {
		p.cmd = &exec.Cmd{
			Path: words[0], Args: append(words, c.Args...), Dir: c.Dir, Env: c.Env, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
			WaitDelay: c.WaitDelay, SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: c.As},
		}
		err := p.cmd.Start()
		switch {
		case err == nil:
			p.PID = p.cmd.Process.Pid
			go p.wait()
			return p, nil
		case errors.Is(err, unix.ENOEXEC) && len(words) == 1:
			words = []string{"/bin/sh", c.Path}
		case errors.Is(err, unix.ETXTBSY) && try < busyTries:
			time.Sleep(busyPause)
		default:
			return nil, err
		}
	}
}

// wait sees the end of the program. It kills the rest of the group while the number of the group
// cannot be that of another one: before it reaps the program.
func (p *Process) wait() {
	defer close(p.done)
	for errors.Is(unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	p.mu.Lock()
	if !p.leave {
		_ = p.signal(-p.PID, unix.SIGKILL)
	}
	p.reaped = true
	p.mu.Unlock()
	if p.err = p.cmd.Wait(); errors.Is(p.err, exec.ErrWaitDelay) {
		p.err = nil // it has ended well, and another process has its output
	}
}

// Kill kills the program and its process group, and does not wait. It does nothing after the end of
// the program.
func (p *Process) Kill() {
	p.WithGroup(func(group int) { _ = p.signal(-group, unix.SIGKILL) })
}

// WithGroup calls a function with the number of the process group, if the number still is that of the
// program: until the function returns the program is not reaped.
func (p *Process) WithGroup(do func(group int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		do(p.PID)
	}
}

// Done returns a channel that is closed when the program has ended and its output was copied.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the result of the program, as exec.Cmd.Wait does, once Done is closed.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// State returns the state of the finished program once Done is closed; nil if another part of this
// process has reaped it.
func (p *Process) State() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Run runs a program until it ends. If the context ends before, it kills the program with its process
// group, and returns the cause of the context's end unless the program ended well meanwhile.
func Run(ctx context.Context, c *Command) error {
	p, err := Start(c)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.Kill()
	}
	if err := p.Err(); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Head is an output of which the first bytes are kept, at most Most. It is for one writer.
type Head struct {
	Most int
	Kept []byte
}

// Write implements io.Writer. It never fails, so that a program that writes more goes on.
func (h *Head) Write(b []byte) (int, error) {
	h.Kept = append(h.Kept, b[:min(h.Most-len(h.Kept), len(b))]...)
	return len(b), nil
}
