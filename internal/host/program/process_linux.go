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

	"github.com/execd-project/execd/internal/host/keyring"
)

// SearchPath is the PATH of programs of the site: nothing of the daemon's own environment.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The number of attempts to run a file that another process still has open for writing, and the
// pauses between them.
const (
	busyTries = 10
	busyPause = 20 * time.Millisecond
)

// Command describes a program of the site to run.
type Command struct {
	Path string
	Args []string // words after the path
	// Dir is the working directory and Env the whole environment; if they are empty, this process's
	// are used.
	Dir string
	Env []string
	As  *syscall.Credential // nil for the user of this process
	// Cgroup is the directory of the control group of version 2 in which the program starts; nil for
	// that of this process.
	Cgroup *os.File
	// Stdin, Stdout and Stderr are as in exec.Cmd: a file is passed to the program; other readers
	// and writers are copied until WaitDelay after the end of the program, so that a background
	// process with the same output does not delay the end.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	WaitDelay      time.Duration
	// Leave lets background processes of the program continue after its normal end, such as one
	// that delivers a mail. Otherwise they are killed.
	Leave bool
	// Signal is kill(2); nil, except in tests.
	Signal func(pid int, sig unix.Signal) error
}

// Process is a program that runs in a session of its own: signals of a terminal do not reach it,
// and its child processes are in its process group unless they leave it on purpose. All methods may
// be called by several goroutines.
type Process struct {
	PID int

	cmd    *exec.Cmd
	leave  bool
	signal func(int, unix.Signal) error
	done   chan struct{}
	err    error // valid when done is closed

	mu     sync.Mutex
	reaped bool // its process ID may be reused
}

// Start starts a program. A file without a #! line is run as a shell script, as by sh(1) and Grid
// Engine. The program gets only the three standard streams; before Linux 5.11 it also gets the
// descriptors with which this process was started.
func Start(c *Command) (*Process, error) {
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	p := &Process{leave: c.Leave, signal: c.Signal, done: make(chan struct{})}
	if p.signal == nil {
		p.signal = unix.Kill
	}
	words := []string{c.Path}
	for try := 1; ; try++ {
		attr := &syscall.SysProcAttr{Setsid: true, Credential: c.As}
		if c.Cgroup != nil {
			attr.UseCgroupFD, attr.CgroupFD = true, int(c.Cgroup.Fd())
		}
		p.cmd = &exec.Cmd{
			Path: words[0], Args: append(words, c.Args...), Dir: c.Dir, Env: c.Env, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
			WaitDelay: c.WaitDelay, SysProcAttr: attr,
		}
		var err error
		keyring.Apart(func() { err = p.cmd.Start() })
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

// wait waits for the end of the program. It kills the remaining processes of the group before it
// reaps the program, because afterwards the group's ID may be reused.
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
		p.err = nil // it succeeded, and another process still has its output open
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

// Head is a writer that stores the first Most bytes. It is for one goroutine.
type Head struct {
	Most int
	Kept []byte
}

// Write implements io.Writer. It never fails, so that a program that writes more can continue.
func (h *Head) Write(b []byte) (int, error) {
	h.Kept = append(h.Kept, b[:min(h.Most-len(h.Kept), len(b))]...)
	return len(b), nil
}
