package external

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/loadsensor/protocol"
)

const (
	// leftOver is the time for reading the output after the process has exited. Its output is
	// already in the pipe. More than an instant is needed only if a process that left the group
	// holds the pipe open, or if the host is so busy that the reader does not run.
	leftOver = 2 * time.Second
	// writeTime limits the request, which is one byte for an empty pipe.
	writeTime = time.Second
)

// process is the running process of a sensor.
type process struct {
	pid    int
	stdin  *os.File
	out    [2]*os.File    // standard output and error
	pieces [2]chan []byte // data that was read from them; closed at the end
	exited chan *os.ProcessState
	closed chan struct{} // closed when no more data is wanted

	program *program.Process
}

// spawn starts the program. The error says why it cannot be started.
func spawn(c *Config) (*process, error) {
	info, err := os.Stat(c.Path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", c.Path)
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
	p.program, err = program.Start(&program.Command{
		Path: c.Path, Dir: c.Dir, Env: c.environment(), As: c.As.Credential(), Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
	})
	if err != nil {
		p.close()
		return nil, err
	}
	p.pid = p.program.PID
	for i := range p.out {
		p.pieces[i] = make(chan []byte)
		go p.pump(p.out[i], p.pieces[i])
	}
	go p.wait()
	return p, nil
}

// pump passes on the output of the process, no faster than it is read.
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

// wait waits for the process to exit.
func (p *process) wait() {
	state := p.program.State() // nil if another caller has reaped it
	for _, f := range p.out {
		_ = f.SetReadDeadline(time.Now().Add(leftOver))
	}
	p.exited <- state
}

// kill kills the whole process group.
func (p *process) kill() { p.program.Kill() }

func (p *process) ask() error {
	_ = p.stdin.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := p.stdin.WriteString(protocol.Request)
	return err
}

// quit tells the process to stop in two ways: the word "quit", and the end of its input.
func (p *process) quit() {
	_ = p.stdin.SetWriteDeadline(time.Now().Add(writeTime))
	_, _ = p.stdin.WriteString(protocol.Quit)
	p.stdin.Close()
}

// close closes all descriptors.
func (p *process) close() {
	close(p.closed)
	p.stdin.Close()
	for _, f := range p.out {
		if f != nil {
			f.Close()
		}
	}
}

// howItEnded describes the exit status, as in "exited with status 3".
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
