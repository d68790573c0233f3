package launch

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/limits/process"
)

// endMarked ends what a killed shepherd has left of a job, for a daemon that has
// other jobs, other children, and may have been away itself. Ancestry tells nothing
// then: orphans have come to process 1. What tells a process of the job is, beside its
// control group, with which the caller begins:
//
//   - the additional group id, which it cannot lose and no other job has;
//   - SGE_JOB_SPOOL_DIR in the environment with which it was started, which is the
//     path of the job directory: that of the site's procedures, too, which have
//     neither group;
//   - an ancestor of which one of these is true.
//
// A shepherd that came to its end leaves only what a prolog or epilog started to
// stay; that is not ours to end, so a normal end must not come here.
func (j *Job) endMarked() {
	if j.Rebooted() {
		return // nothing has outlived that, and ids are others' by now
	}
	deadline := time.Now().Add(orphansDeadline)
	// On its way out a process loses its environment before it is gone.
	var killed []seen
	for wait := time.Millisecond; time.Now().Before(deadline); wait = min(2*wait, 100*time.Millisecond) {
		left := j.marked()
		killed = slices.DeleteFunc(append(killed, left...), seen.gone)
		if len(killed) == 0 {
			return
		}
		for _, p := range left {
			p.kill()
		}
		time.Sleep(wait)
	}
}

// seen is a process that was seen in /proc.
type seen struct {
	pid    int
	parent int
	start  uint64
}

// gone reports whether the process has ended.
func (p seen) gone() bool {
	st := process.Read(p.pid)
	return st.Start != p.start || st.State == 'Z' || st.State == 'X'
}

// kill ends the process, unless its number is another's by now.
func (p seen) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil && err != unix.ENOSYS {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if process.Read(p.pid).Start != p.start {
		return
	}
	if err != nil { // before Linux 5.3
		_ = unix.Kill(p.pid, unix.SIGKILL)
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// marked returns the processes of the job.
func (j *Job) marked() []seen {
	pids, err := oslite.Numbers("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	mark := []byte("SGE_JOB_SPOOL_DIR=" + j.Dir.Path())
	all := map[int][]seen{} // by parent
	found := map[int]bool{}
	var list []seen
	for _, pid := range pids {
		st := process.Read(pid)
		if pid == self || st.State == 0 || st.State == 'Z' {
			continue
		}
		p := seen{pid, st.Parent, st.Start}
		all[p.parent] = append(all[p.parent], p)
		if j.hasMark(pid, mark) {
			found[pid] = true
			list = append(list, p)
		}
	}
	for i := 0; i < len(list); i++ {
		for _, child := range all[list[i].pid] {
			if !found[child.pid] {
				found[child.pid] = true
				list = append(list, child)
			}
		}
	}
	return list
}

// hasMark reports whether a process is one of the job by itself.
func (j *Job) hasMark(pid int, environment []byte) bool {
	path := "/proc/" + strconv.Itoa(pid)
	status, err := oslite.Read(path + "/status")
	if err != nil {
		return false
	}
	if gid := j.Description.AddGroupID; gid != 0 && slices.Contains(numbersOf(status, "Groups:"), gid) {
		return true
	}
	// Everybody can have any environment. It tells of processes of those only who
	// run something for the job.
	ids := numbersOf(status, "Uid:")
	if len(ids) == 0 || ids[0] != j.own.uid && !slices.Contains(j.own.users, ids[0]) {
		return false
	}
	b, err := oslite.Read(path + "/environ")
	if err != nil {
		return false
	}
	for len(b) > 0 {
		var v []byte
		v, b, _ = bytes.Cut(b, []byte{0})
		if bytes.Equal(v, environment) {
			return true
		}
	}
	return false
}

// numbersOf returns the numbers behind a key of /proc/PID/status.
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
