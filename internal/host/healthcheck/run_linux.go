package healthcheck

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/program"
)

const (
	// leftOver is how long the output is read after the program has ended. More than
	// an instant is only needed when a process that left the group holds it open, or on a
	// host so busy that the reader does not get on.
	leftOver = 2 * time.Second
	// mercy is the time limit for the end of killed processes, which then only wait for the kernel.
	// mercyStep is the interval of checking that.
	mercy     = 5 * time.Second
	mercyStep = 20 * time.Millisecond
)

// run is a program that runs.
type run struct {
	*program.Process
	path    string
	began   time.Time
	out     tail
	members []int // after kill: pidfds of processes that may still run
}

func (c *Check) start() (*run, error) {
	id, err := c.identity()
	if err != nil {
		return nil, err
	}
	r := &run{path: c.config.Path, began: c.config.Clock.Now()}
	command := program.Command{
		Path: c.config.Path, Dir: "/", Env: []string{"PATH=" + program.SearchPath, "SHELL=/bin/sh", "HOST=" + c.config.Host},
		Stdout: &r.out, Stderr: &r.out, WaitDelay: leftOver, Signal: c.signal,
	}
	if id != nil {
		command.Env = append(command.Env, "USER="+id.Name, "LOGNAME="+id.Name, "HOME="+id.Home)
		command.As = &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups}
	}
	if r.Process, err = program.Start(&command); err != nil {
		return nil, err
	}
	return r, nil
}

// kill kills the group, and reports whether all its processes have ended.
func (r *run) kill(c *Check) bool {
	r.WithGroup(func(group int) {
		r.members = membersOf(group)
		_ = c.signal(-group, unix.SIGKILL)
	})
	timer := time.NewTimer(c.mercy)
	defer timer.Stop()
	for !r.over() {
		again := time.NewTimer(mercyStep)
		select {
		case <-again.C:
		case <-timer.C:
			again.Stop()
			return false
		}
	}
	return true
}

// over reports whether all processes of a killed group have ended: the program, or one that it has
// started, may hang in the kernel.
func (r *run) over() bool {
	for len(r.members) > 0 {
		fds := []unix.PollFd{{Fd: int32(r.members[0]), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 0); n == 0 || err != nil {
			return false
		}
		unix.Close(r.members[0])
		r.members = r.members[1:]
	}
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// membersOf returns pidfds of the processes of a group, which stay valid when process IDs are
// reused.
func membersOf(group int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var members []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if pgid, err := unix.Getpgid(pid); err != nil || pgid != group {
			continue
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil { // Linux 5.3
			members = append(members, fd)
		}
	}
	return members
}

// verdict returns the reason why the host is unhealthy, or nil. The program of r has finished.
func (r *run) verdict() error {
	err := r.Err()
	if err == nil {
		return nil
	}
	if line := r.out.last(); line != "" {
		return errors.New(line)
	}
	return errors.New(r.path + ": " + err.Error())
}

// Maximum sizes of the stored output, and of the line in it, in bytes.
const (
	maxTail = 4096
	maxLine = 256
)

// tail stores the end of the output.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - maxTail; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

// last returns the last line that is not blank, without control characters.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := bytes.TrimSpace(t.kept)
	if i := bytes.LastIndexAny(kept, "\r\n"); i >= 0 {
		kept = kept[i+1:]
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(kept), "?"))
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "..."
	}
	return strings.TrimSpace(line)
}

// after returns the last line that has the given prefix; empty if there is none.
func (t *tail) after(before string) string {
	if line := t.last(); line != "" {
		return before + line
	}
	return ""
}
