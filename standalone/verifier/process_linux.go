package verifier

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/program"
)

// process is a running verifier with its children, in a session of its own.
type process struct {
	in, out, stderr *os.File // our ends
	program         *program.Process
}

// whom is the user and the environment of a process; the zero value is this process's own.
type whom struct {
	credential  *syscall.Credential
	environment []string
	directory   string
}

// spawn starts a program.
func spawn(path string, as whom) (*process, error) {
	var theirs [3]*os.File
	p := &process{}
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
	if err == nil {
		p.program, err = program.Start(&program.Command{
			Path: path, Dir: as.directory, Env: as.environment, As: as.credential, Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
		})
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("cannot start the JSV %q: %w", path, err)
	}
	return p, nil
}

// end kills the verifier and closes its pipes. It does not wait for processes that have left the
// group and still hold the other ends.
func (p *process) end() {
	p.program.Kill()
	p.close()
}

func (p *process) close() {
	for _, f := range []*os.File{p.in, p.out, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// complaint returns the unread standard error of the verifier.
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
