package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// Daemon is a process that a test kills and starts again, from any of its goroutines.
type Daemon struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	gone chan struct{}
}

// Start starts a process, whose standard output and error are appended to the file log. It ends
// with the tests, also if these are killed or run out of time.
func (d *Daemon) Start(t testing.TB, cmd *exec.Cmd, log string) {
	t.Helper()
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	d.mu.Lock()
	d.cmd, d.gone = cmd, gone
	d.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
}

// Process returns the process that was started last, nil if there is none, and a channel that is
// closed when that process has ended.
func (d *Daemon) Process() (*os.Process, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return nil, nil
	}
	return d.cmd.Process, d.gone
}

// Pid returns the ID of the process that was started last.
func (d *Daemon) Pid() int {
	p, _ := d.Process()
	return p.Pid
}

// Kill kills the process as kill -9 does, and waits for its end.
func (d *Daemon) Kill() {
	p, gone := d.Process()
	_ = p.Kill()
	<-gone
}

// Transcript collects the output of several processes, and may be read meanwhile.
type Transcript struct {
	mu   sync.Mutex
	said bytes.Buffer
}

// Write implements [io.Writer]; it does not fail.
func (s *Transcript) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(b)
}

// String returns the text that has been printed so far.
func (s *Transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}
