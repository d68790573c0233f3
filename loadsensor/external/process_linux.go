package external

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/loadsensor/protocol"
)

// The path that sensors find programs in; nothing of ours.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	// leftOver is how long the output is read after the process has ended: what it
	// wrote is in the pipe already. More than an instant is only needed when a process
	// that left the group holds the pipe open, or on a host so busy that the reader does
	// not get on.
	leftOver = 2 * time.Second
	// writeTime bounds the request, one byte into an empty pipe.
	writeTime = time.Second

	busyTries = 10
	busyPause = 20 * time.Millisecond
)

// process is a sensor that runs.
type process struct {
	pid    int
	stdin  *os.File
	out    [2]*os.File    // standard output and error
	pieces [2]chan []byte // what is read from them; closed at the end
	exited chan *os.ProcessState
	closed chan struct{} // nobody wants the pieces any more

	mu     sync.Mutex
	reaped bool // its number may be another process's
}

// spawn starts the program. The error says what is wrong with it.
func spawn(c *Config) (*process, error) {
	info, err := os.Stat(c.Path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no regular file", c.Path)
	}
	var theirs [3]*os.File
	p := &process{exited: make(chan *os.ProcessState, 1), closed: make(chan struct{})}
	defer func() {
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
	}()
	if theirs[0], p.stdin, err = os.Pipe(); err != nil {
		return nil, err
	}
	for i := range p.out {
		if p.out[i], theirs[i+1], err = os.Pipe(); err != nil {
			p.close()
			return nil, err
		}
	}
	// What we were started with, by a shell or a service manager, is not for sensors.
	// Everything that Go opens is marked already. Before Linux 5.11 it stays.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	attr := &os.ProcAttr{
		Dir: c.Dir, Env: c.environment(), Files: theirs[:],
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: c.As.Credential()},
	}
	proc, err := execute(c.Path, attr)
	if err != nil {
		p.close()
		return nil, err
	}
	p.pid = proc.Pid
	for i := range p.out {
		p.pieces[i] = make(chan []byte)
		go p.pump(p.out[i], p.pieces[i])
	}
	go p.wait(proc)
	return p, nil
}

// execute starts a program; one without a first line that says what runs it is a
// shell script, as for sh(1), through which the original runs it.
func execute(path string, attr *os.ProcAttr) (*os.Process, error) {
	for try := 1; ; try++ {
		proc, err := os.StartProcess(path, []string{path}, attr)
		if errors.Is(err, unix.ENOEXEC) {
			proc, err = os.StartProcess("/bin/sh", []string{"sh", path}, attr)
		}
		// Somebody is writing the file, or has forked while he was.
		if !errors.Is(err, unix.ETXTBSY) || try == busyTries {
			return proc, err
		}
		time.Sleep(busyPause)
	}
}

// pump hands on what the process writes, piece by piece, and no faster than it is
// taken.
func (p *process) pump(f *os.File, pieces chan<- []byte) {
	defer close(pieces)
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			select {
			case pieces <- append([]byte(nil), buf[:n]...):
			case <-p.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait sees the end of the process. What is left of its group is killed while its
// number cannot have been given to a stranger: before it is waited for.
func (p *process) wait(proc *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	state, _ := proc.Wait() // nil where somebody else took the status
	p.reaped = true
	p.mu.Unlock()
	for _, f := range p.out {
		_ = f.SetReadDeadline(time.Now().Add(leftOver))
	}
	p.exited <- state
}

// kill ends the whole group.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
}

func (p *process) ask() error {
	_ = p.stdin.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := p.stdin.WriteString(protocol.Request)
	return err
}

// quit says that it is over, twice: in words, and by the end of the input.
func (p *process) quit() {
	_ = p.stdin.SetWriteDeadline(time.Now().Add(writeTime))
	_, _ = p.stdin.WriteString(protocol.Quit)
	p.stdin.Close()
}

// close gives all descriptors back.
func (p *process) close() {
	close(p.closed)
	p.stdin.Close()
	for _, f := range p.out {
		if f != nil {
			f.Close()
		}
	}
}

// howItEnded says it as in "exited with status 3".
func howItEnded(state *os.ProcessState) string {
	if state == nil {
		return "ended"
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return fmt.Sprintf("was ended by signal %s", unix.SignalName(status.Signal()))
	case ok:
		return fmt.Sprintf("exited with status %d", status.ExitStatus())
	}
	return "ended: " + state.String()
}
