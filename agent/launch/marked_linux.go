package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/process"
)

// endMarked ends the remaining processes of a job whose shepherd was killed. It is for a daemon
// that has other jobs and other children, and may have been restarted. Ancestry does not help then,
// because orphans have become children of process 1. Besides its control group, which the caller
// ends first, a process of the job has one of these marks:
//
//   - the additional group id, which it cannot lose and no other job has;
//   - SGE_JOB_SPOOL_DIR in its initial environment, with the path of the job directory; the site's
//     procedures, which have neither group, have it, too;
//   - an ancestor with one of these marks.
//
// After a normal end of the shepherd, only processes are left that a prolog or epilog started to
// stay. They must not be ended, so do not call endMarked then.
//
// endMarked returns the processes that exist after patience: the kernel does not end a process in an
// uninterruptible sleep. The error says that processes could not be read until then, for example because
// this process has too many open files: there may be more.
func (j *Job) endMarked(patience time.Duration) ([]seen, error) {
	if j.Rebooted() {
		return nil, nil // no process has survived that, and the IDs may have been reused
	}
	deadline := time.Now().Add(patience)
	// An exiting process loses its environment before it disappears.
	var killed []seen
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left, err := j.marked()
		killed = slices.DeleteFunc(append(killed, left...), seen.gone)
		if len(killed) == 0 && err == nil || !time.Now().Before(deadline) {
			slices.SortFunc(killed, func(a, b seen) int { return a.pid - b.pid })
			return slices.CompactFunc(killed, func(a, b seen) bool { return a.pid == b.pid }), err
		}
		for _, p := range left {
			p.kill()
		}
		time.Sleep(wait)
	}
}

// formatSurvivors returns the content of fileSwept: a line with process ID and start time for each process that
// endMarked could not end.
func formatSurvivors(list []seen) []byte {
	var b []byte
	for _, p := range list {
		b = fmt.Appendf(b, "%d %d\n", p.pid, p.start)
	}
	return b
}

// survivors returns the processes in fileSwept that still exist. swept is false without the file: the
// processes have not been ended yet.
func survivors(dir *jobdir.Dir) (list []seen, swept bool, err error) {
	text, err := dir.ReadFile(fileSwept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for line := range strings.Lines(string(text)) {
		var p seen
		if _, err := fmt.Sscanf(line, "%d %d", &p.pid, &p.start); err != nil {
			return nil, true, fmt.Errorf("%s/%s: %q: expected a process ID and a start time", dir.Path(), fileSwept, line)
		}
		if !p.gone() {
			list = append(list, p)
		}
	}
	return list, true, nil
}

// seen is a process that was seen in /proc.
type seen struct {
	pid   int
	start uint64 // 0 if the process did not let the kernel tell
	user  int    // real user ID; -1 if it could not be read
}

// gone reports whether the process has ended. If its start is not known, any process with this ID counts.
func (p seen) gone() bool {
	switch process.Read(p.pid).State {
	case 0:
		return !unreadable(p.pid)
	case 'Z', 'X':
		return true
	}
	start := process.Start(p.pid)
	return start != 0 && p.start != 0 && start != p.start
}

// kill ends the process, unless its process ID has been reused.
func (p seen) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil && err != unix.ENOSYS {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	switch start := process.Start(p.pid); {
	case start == 0 || p.start == 0: // a process can hold up the question
		if now := process.Read(p.pid); now.State == 0 || p.user < 0 || now.User != p.user {
			return
		}
	case start != p.start:
		return
	}
	if err != nil { // before Linux 5.3
		_ = unix.Kill(p.pid, unix.SIGKILL)
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// unreadable reports whether a process whose file in /proc could not be read exists: it has not ended,
// but this process lacks file descriptors or memory. Where /proc hides the processes of other users
// (proc(5), hidepid), those do not count: this process could not end them either.
func unreadable(pid int) bool { return unix.Kill(pid, 0) == nil }

// marked returns the processes of the job. The error says that some processes could not be read.
func (j *Job) marked() (list []seen, err error) {
	pids, err := oslite.Numbers("/proc")
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	mark := []byte("SGE_JOB_SPOOL_DIR=" + j.Dir.Path())
	children := map[int][]int{}
	found := map[int]bool{}
	// The start is read only of processes of the job, because processes of others could hold up the question. Before and after
	// it the process is one of the job, so it is the start of that process.
	for _, pid := range pids {
		st := process.Read(pid)
		if pid == self || st.State == 'Z' {
			continue
		}
		if st.State == 0 {
			if unreadable(pid) {
				err = fmt.Errorf("cannot read process %d", pid)
			}
			continue
		}
		children[st.Parent] = append(children[st.Parent], pid)
		marked, cause := j.hasMark(pid, mark)
		if cause != nil && unreadable(pid) && (err == nil || !errors.Is(cause, process.ErrHeldUp)) {
			err = fmt.Errorf("cannot read process %d: %w", pid, cause)
		}
		if !marked {
			continue
		}
		p := see(pid)
		if still, _ := j.hasMark(pid, mark); still {
			found[pid] = true
			list = append(list, p)
		}
	}
	for i := 0; i < len(list); i++ {
		parent := list[i].pid
		if list[i].gone() { // another process may have got its ID
			continue
		}
		for _, pid := range children[parent] {
			if found[pid] {
				continue
			}
			p := see(pid)
			if process.Read(pid).Parent == parent {
				found[pid] = true
				list = append(list, p)
			}
		}
	}
	return list, err
}

// see identifies the process that has an ID.
func see(pid int) seen {
	p := seen{pid: pid, start: process.Start(pid), user: -1}
	if now := process.Read(pid); now.State != 0 {
		p.user = now.User
	}
	return p
}

// hasMark reports whether a process itself has a mark of the job.
func (j *Job) hasMark(pid int, environment []byte) (bool, error) {
	path := "/proc/" + strconv.Itoa(pid)
	status, err := oslite.Read(path + "/status")
	if err != nil {
		return false, err
	}
	if gid := j.Description.AddGroupID; gid != 0 && slices.Contains(numbersOf(status, "Groups:"), gid) {
		return true, nil
	}
	// Any user can set any environment. It only counts for processes of users who run programs for
	// the job.
	ids := numbersOf(status, "Uid:")
	if len(ids) == 0 || ids[0] != j.own.uid && !slices.Contains(j.own.users, ids[0]) {
		return false, nil
	}
	var b []byte
	if err := process.InTime(pid, func() { b, err = oslite.Read(path + "/environ") }); err != nil {
		return false, err
	}
	if errors.Is(err, fs.ErrPermission) {
		// A program that others may not trace (ssh-agent(1)): a daemon without root's rights recognises it
		// by its ancestors only.
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for len(b) > 0 {
		var v []byte
		v, b, _ = bytes.Cut(b, []byte{0})
		if bytes.Equal(v, environment) {
			return true, nil
		}
	}
	return false, nil
}

// numbersOf returns the numbers after a key of /proc/PID/status.
func numbersOf(status []byte, key string) []int {
	_, rest, _ := bytes.Cut(status, []byte("\n"+key))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	var list []int
	for f := range bytes.FieldsSeq(line) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			list = append(list, n)
		}
	}
	return list
}
