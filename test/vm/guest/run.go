package guest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/test/vm/plan"
)

// ErrTimeout is the error if a guest has not finished in time.
var ErrTimeout = errors.New("the guest has not ended in time")

// Result is the result of a step.
type Result struct {
	Status  int // as in a shell: 128+N for signal N
	Elapsed time.Duration
}

// Run starts the machine, runs the steps one after another, and returns their results. With an
// error it returns the results of the finished steps. The error wraps ErrTimeout, or contains the
// kernel's last messages.
func (m Machine) Run(ctx context.Context, steps ...Step) ([]Result, error) {
	m, err := m.complete()
	if err != nil {
		return nil, err
	}
	if err := Check(m.Systemd); err != nil {
		return nil, err
	}
	release, err := debian()
	if err != nil {
		return nil, err
	}
	k, err := getKernel(ctx, release)
	if err != nil {
		return nil, err
	}
	image, err := k.image()
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "execd-vm-")
	if err != nil {
		return nil, fmt.Errorf("cannot make room for a guest: %w", err)
	}
	defer os.RemoveAll(tmp)
	initramfs := filepath.Join(tmp, "initramfs")
	if err := m.writeInitramfs(ctx, initramfs, release, k, steps); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.Timeout, fmt.Errorf("%w: %v", ErrTimeout, m.Timeout))
	defer cancel()
	return m.boot(ctx, m.qemuArgs(image, initramfs, canUseKVM()), steps)
}

// boot runs QEMU until the guest has ended, and returns the results of its steps.
func (m *Machine) boot(ctx context.Context, args []string, steps []Step) ([]Result, error) {
	consoleOutput, console, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make the console of a guest: %w", err)
	}
	defer consoleOutput.Close()
	cmd := exec.CommandContext(ctx, qemuProgram, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.ExtraFiles = []*os.File{console}
	// The kernel kills QEMU if this process dies. The signal is bound to this thread, which must
	// not exit before.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	frames, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	console.Close()
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", qemuProgram, err)
	}
	last := &tail{next: m.Console}
	consoleRead := make(chan struct{})
	go func() {
		defer close(consoleRead)
		_, _ = io.Copy(last, consoleOutput)
	}()
	results, err := receive(frames, steps)
	if err != nil {
		_ = cmd.Process.Kill() // it has ended if it cannot be killed
	}
	_, _ = io.Copy(io.Discard, frames)
	waitErr := cmd.Wait()
	<-consoleRead
	switch {
	case err == nil && len(results) == len(steps):
		return results, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil:
		err = fmt.Errorf("cannot run the guest to its end: it ended after %d of %d steps", len(results), len(steps))
		if waitErr != nil {
			err = fmt.Errorf("%w: %s: %w", err, qemuProgram, waitErr)
		}
	}
	return results, fmt.Errorf("%w\n%s%s", err, stderr.String(), last)
}

// receive reads the frames of a guest until it ends.
func receive(r io.Reader, steps []Step) ([]Result, error) {
	frames := bufio.NewReader(r)
	var results []Result
	for {
		f, err := plan.Read(frames)
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return results, err
		}
		if f.Kind != plan.Failed && f.Step != len(results) {
			return results, fmt.Errorf("cannot understand the guest: it speaks of step %d after %d steps", f.Step, len(results))
		}
		if len(results) == len(steps) {
			return results, fmt.Errorf("cannot understand the guest: it says %q after its last step", f.Payload)
		}
		switch f.Kind {
		case plan.Output:
			if w := steps[f.Step].Output; w != nil {
				if _, err := w.Write(f.Payload); err != nil {
					return results, fmt.Errorf("cannot pass on what a step prints: %w", err)
				}
			}
		case plan.Ended:
			e, err := f.End()
			if err != nil {
				return results, err
			}
			results = append(results, Result{e.Status, time.Duration(e.Milliseconds) * time.Millisecond})
		case plan.Failed:
			return results, fmt.Errorf("cannot go on in the guest: %s", f.Payload)
		}
	}
}

// tail keeps the end of the data written to it, and passes everything on.
type tail struct {
	next io.Writer
	kept []byte
}

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	if t.next != nil {
		return t.next.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(t.kept), "\r", ""), "?")
}
