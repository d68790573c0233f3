package healthcheck

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// systemPath is the PATH of the program.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	// leftOver is how long the output is read after the program has ended. More than
	// an instant is only needed when a process that left the group holds it open, or on a
	// host so busy that the reader does not get on.
	leftOver = 2 * time.Second
	// mercy is how long processes that were killed may take to be gone, and mercyStep
	// how often that is looked at. What they wait for then is the kernel.
	mercy     = 5 * time.Second
	mercyStep = 20 * time.Millisecond
)

// run is a program that runs.
type run struct {
	began time.Time
	cmd   *exec.Cmd
	out   tail
	gone  chan struct{} // closed when it has been waited for
	err   error         // of that

	mu      sync.Mutex
	reaped  bool  // its number may be another process's
	members []int // pidfds, after kill: of those that may still run
}

func (c *Check) start() (*run, error) {
	id, err := c.identity()
	if err != nil {
		return nil, err
	}
	r := &run{began: c.config.Clock.Now(), cmd: exec.Command(c.config.Path), gone: make(chan struct{})}
	r.cmd.Dir, r.cmd.Env = "/", []string{"PATH=" + systemPath, "SHELL=/bin/sh", "HOST=" + c.config.Host}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.cmd.WaitDelay = leftOver
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if id != nil {
		r.cmd.Env = append(r.cmd.Env, "USER="+id.Name, "LOGNAME="+id.Name, "HOME="+id.Home)
		r.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups}
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go r.wait(c.signal)
	return r, nil
}

// wait sees the end of the program. What is left of its group is killed while its
// number cannot have been given to a stranger: before it is waited for.
func (r *run) wait(signal func(int, unix.Signal) error) {
	pid := r.cmd.Process.Pid
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	r.mu.Lock()
	_ = signal(-pid, unix.SIGKILL)
	r.reaped = true
	r.mu.Unlock()
	if r.err = r.cmd.Wait(); errors.Is(r.err, exec.ErrWaitDelay) {
		r.err = nil
	}
	close(r.gone)
}

// kill kills the group, and reports whether all of it is gone.
func (r *run) kill(c *Check) bool {
	r.mu.Lock()
	if !r.reaped {
		r.members = membersOf(r.cmd.Process.Pid)
		_ = c.signal(-r.cmd.Process.Pid, unix.SIGKILL)
	}
	r.mu.Unlock()
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

// over reports whether nothing of a group that was killed runs any more: the program,
// or one that it has started, may hang in the kernel.
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
	case <-r.gone:
		return true
	default:
		return false
	}
}

// membersOf returns descriptors of the processes of a group. Those are the same
// processes still when numbers have gone to others.
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

// verdict is why the host is not well; r is gone.
func (r *run) verdict() error {
	if r.err == nil {
		return nil
	}
	if line := r.out.last(); line != "" {
		return errors.New(line)
	}
	return errors.New(r.cmd.Path + ": " + r.err.Error())
}

// Bounds of what is kept of the output, and of the line in it.
const (
	maxTail = 4096
	maxLine = 256
)

// tail keeps the end of what is written to it.
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

// last is the last line that is not blank, without control characters.
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

// after is the last line with something in front of it; empty if there is none.
func (t *tail) after(before string) string {
	if line := t.last(); line != "" {
		return before + line
	}
	return ""
}
