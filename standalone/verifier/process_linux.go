package verifier

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a verifier that runs, with what it has started: a session of its own.
type process struct {
	in, out, stderr *os.File // our ends
	gone            chan struct{}

	cmd    *exec.Cmd
	mu     sync.Mutex
	reaped bool // its number may be another process's
}

// whom is whose process it is, and in what it runs; the zero value is as we are.
type whom struct {
	credential  *syscall.Credential
	environment []string
	directory   string
}

const (
	busyTries = 10
	busyPause = 20 * time.Millisecond
)

// spawn starts a program; one without a first line that says what runs it is a shell
// script, as for sh(1), through which the original runs it.
func spawn(path string, as whom) (*process, error) {
	var theirs [3]*os.File
	p := &process{gone: make(chan struct{})}
	defer func() {
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
	}()
	var err error
	if theirs[0], p.in, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.out, theirs[1], err = os.Pipe(); err == nil {
		p.stderr, theirs[2], err = os.Pipe()
	}
	// What we were started with is not for it. Before Linux 5.11 it stays.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	words := []string{path}
	for try := 1; err == nil; try++ {
		p.cmd = &exec.Cmd{
			Path: words[0], Args: words, Dir: as.directory, Env: as.environment, Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
			SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: as.credential},
		}
		e := p.cmd.Start()
		switch {
		case e == nil:
			go p.wait()
			return p, nil
		case errors.Is(e, unix.ENOEXEC) && len(words) == 1:
			words = []string{"/bin/sh", path}
		case errors.Is(e, unix.ETXTBSY) && try < busyTries: // somebody is writing it
			time.Sleep(busyPause)
		default:
			err = e
		}
	}
	p.close()
	return nil, fmt.Errorf("cannot start the JSV %q: %w", path, err)
}

// wait sees the end of it. What is left of its group is killed while its number cannot have
// been given to a stranger: before it is waited for.
func (p *process) wait() {
	for errors.Is(unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	p.mu.Lock()
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	p.reaped = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // its verdict is what it said
	close(p.gone)
}

// end kills it, and takes from it what it is told by and talks to. Not even a process that
// has left the group, and holds the other ends, is waited for.
func (p *process) end() {
	p.mu.Lock()
	if !p.reaped {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
	p.mu.Unlock()
	p.close()
}

func (p *process) close() {
	for _, f := range []*os.File{p.in, p.out, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// complaint is what has been written to its standard error and was not read yet.
func (p *process) complaint() string {
	const most = 4096
	buf := make([]byte, most)
	n := 0
	c, err := p.stderr.SyscallConn()
	if err != nil {
		return "" // it has been ended
	}
	_ = c.Read(func(fd uintptr) bool {
		if n, err = unix.Read(int(fd), buf); err != nil {
			n = 0
		}
		return true // not to be waited for
	})
	return string(buf[:n])
}
