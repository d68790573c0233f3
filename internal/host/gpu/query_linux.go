package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/trust"
)

// Limits of nvidia-smi: on a host with eight GPUs that are not in use it takes some seconds, and
// with a GPU that hangs it never ends.
const (
	QueryPatience  = 20 * time.Second
	maxQueryOutput = 1 << 20
)

// queryProgram is nvidia-smi below the root.
const queryProgram = "usr/bin/nvidia-smi"

// ErrNoProgram means that the host has no nvidia-smi.
var ErrNoProgram = errors.New("there is no nvidia-smi in /usr/bin")

// Told is the data of a GPU from nvidia-smi.
type Told struct {
	Address string
	UUID    string // empty if it does not say
	Memory  uint64 // in bytes; 0 if it does not say
	MIG     bool   // the GPU is in MIG mode
}

// Query asks nvidia-smi for the UUIDs and the memory of all GPUs, which initialises them. It runs
// the program below the root only if no other users than root and the user of this process can
// change it. If the program has not answered at the end of the context or within QueryPatience,
// Query kills it and does not wait for its end: a process that hangs in the kernel may never end.
func Query(ctx context.Context, root string) ([]Told, error) {
	program, err := filepath.Abs(filepath.Join(root, queryProgram))
	if err != nil {
		return nil, err
	}
	columns := "pci.bus_id,uuid,memory.total"
	if _, err := os.Stat(filepath.Join(root, capsDir)); err == nil {
		columns += ",mig.mode.current" // an older driver refuses it
	}
	text, err := ask(ctx, program, "--query-gpu="+columns, "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	told, err := ParseQuery(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use the answer of nvidia-smi: %w", err)
	}
	return told, nil
}

// QueryInstances asks nvidia-smi for the MIG instances of all GPUs, like Query.
func QueryInstances(ctx context.Context, root string) ([]ToldInstance, error) {
	program, err := filepath.Abs(filepath.Join(root, queryProgram))
	if err != nil {
		return nil, err
	}
	list, err := ask(ctx, program, "-L")
	if err != nil {
		return nil, err
	}
	return describe(ctx, program, list)
}

// describe asks for the description of all GPUs, and returns the MIG instances that it contains. list is the answer of
// nvidia-smi -L, or empty.
func describe(ctx context.Context, program, list string) ([]ToldInstance, error) {
	description, err := ask(ctx, program, "-q", "-x")
	if err != nil {
		return nil, err
	}
	told, err := ParseInstances(list, description)
	if err != nil {
		return nil, fmt.Errorf("cannot use the answer of nvidia-smi: %w", err)
	}
	return told, nil
}

// ask runs nvidia-smi and returns its output.
func ask(ctx context.Context, program string, args ...string) (string, error) {
	if err := unix.Access(program, unix.X_OK); err != nil {
		return "", ErrNoProgram
	}
	if err := trust.Own().Program(program); err != nil {
		return "", fmt.Errorf("cannot run nvidia-smi: %w", err)
	}
	text, err := output(ctx, program, args...)
	if err != nil {
		return "", fmt.Errorf("cannot ask nvidia-smi: %w", err)
	}
	return text, nil
}

// HasQuery reports whether there is an nvidia-smi below a root.
func HasQuery(root string) bool {
	return unix.Access(filepath.Join(root, queryProgram), unix.X_OK) == nil
}

// running holds a value while a process of nvidia-smi exists, at most one: a GPU that hangs would
// make them pile up, each unkillable.
var running = make(chan struct{}, 1)

// errUnkillable means that an nvidia-smi that was killed still exists.
var errUnkillable = errors.New("an earlier call was killed and has not ended yet")

// output runs a program in a session of its own and returns its output. It kills all processes of
// the session's first group before it returns, and a goroutine reaps the program.
func output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, QueryPatience, fmt.Errorf("it has not answered within %s", QueryPatience))
	defer cancel()
	select {
	case running <- struct{}{}:
	case <-ctx.Done():
		return "", errUnkillable // no other call takes that long
	}
	cmd := exec.Command(program, args...) //nolint:gosec,noctx // trusted before; its whole group is killed below
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C", "HOME=/"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out, wrong limited
	cmd.Stdout, cmd.Stderr = &out, &wrong
	// A background process of the program may keep the pipe open.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		<-running
		return "", err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		<-running
	}()
	select {
	case err := <-ended:
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // its remaining processes
		switch {
		case out.over || wrong.over:
			return "", errTooMuch
		case err != nil:
			if line := firstLine(wrong.kept.String() + out.kept.String()); line != "" {
				return "", fmt.Errorf("%w: %s", err, line)
			}
			return "", err
		}
		return out.kept.String(), nil
	case <-ctx.Done():
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		return "", context.Cause(ctx)
	}
}

// limited stores the beginning of the output and refuses further writes, which ends the program,
// because its pipe is no longer read. Read the buffer after its writer has ended.
type limited struct {
	kept bytes.Buffer // not embedded: its ReadFrom has no limit
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), maxQueryOutput-l.kept.Len())
	l.over = l.over || n < len(p)
	l.kept.Write(p[:n])
	if l.over {
		return n, errTooMuch
	}
	return n, nil
}

var errTooMuch = fmt.Errorf("it writes more than %d bytes", maxQueryOutput)

// firstLine returns the beginning of a text from nvidia-smi. It may have control characters, which
// logs and commands escape.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	const longest = 200
	return strings.ToValidUTF8(line[:min(len(line), longest)], "?")
}

// ParseQuery reads the answer of nvidia-smi: for each GPU a line with its address, UUID,
// memory in MiB and, if that was asked, MIG mode. A value that the driver does not know is in brackets: "[N/A]". An address or a UUID
// that occurs twice makes the whole answer invalid: two jobs would get the same GPU by its UUID.
func ParseQuery(text string) ([]Told, error) {
	var list []Told
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		fields := strings.Split(line, ",")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if len(fields) != 3 && len(fields) != 4 {
			return nil, fmt.Errorf("%q, expected a PCI address, a UUID and the memory in MiB", firstLine(line))
		}
		t := Told{MIG: len(fields) == 4 && fields[3] == "Enabled"}
		var ok bool
		if t.Address, ok = ParseAddress(fields[0]); !ok {
			return nil, fmt.Errorf("%q, expected a PCI address such as 00000000:65:00.0", firstLine(fields[0]))
		}
		if validUUID(fields[1]) {
			t.UUID = fields[1]
		}
		const most = 1 << 40 // MiB: larger values do not fit into 64 bits in bytes
		if n, err := strconv.ParseUint(fields[2], 10, 64); err == nil && n < most {
			t.Memory = n << 20
		} else if !strings.HasPrefix(fields[2], "[") {
			return nil, fmt.Errorf("%q, expected the memory in MiB", firstLine(fields[2]))
		}
		same := func(x Told) bool { return x.Address == t.Address || t.UUID != "" && strings.EqualFold(x.UUID, t.UUID) }
		if slices.ContainsFunc(list, same) {
			return nil, fmt.Errorf("%q, but an earlier line has the same address or UUID", firstLine(line))
		}
		list = append(list, t)
	}
	return list, nil
}
