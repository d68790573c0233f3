package launch

import (
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/process"
)

// orphansDeadline bounds the wait for the end of processes that a killed
// shepherd has left.
const orphansDeadline = 10 * time.Second

// Collect ends what a killed shepherd has left running, and says what became
// of the job. status is how the shepherd ended, as Wait has returned it; 0 where
// that is not known.
func (j *Job) Collect(status syscall.WaitStatus) *job.Outcome {
	if j.remote != nil {
		return j.collectRemotely(status)
	}
	// The group first, where one write ends them all.
	j.endGroup()
	failpoint.At("launch-group-ended")
	switch {
	case j.terminal:
		if status.Signaled() {
			j.endOrphans()
		}
		reap()
	case j.wasKilled(status):
		j.endMarkedOnce()
	}
	jobGroupIDs.giveBack(j)
	return Collect(j.Dir, j.Description, status)
}

// endMarkedOnce ends what a killed shepherd has left, unless that was done before: the
// additional group id may be another job's by now.
func (j *Job) endMarkedOnce() {
	if done, err := j.Dir.Exists(fileSwept); err == nil && done {
		return
	}
	j.endMarked()
	_ = j.Dir.WriteFile(fileSwept, nil)
}

// wasKilled reports whether the shepherd has not come to its end.
func (j *Job) wasKilled(status syscall.WaitStatus) bool {
	j.mu.Lock()
	known := j.shepherd != nil && j.shepherd.child
	j.mu.Unlock()
	if known || status != 0 {
		return status.Signaled()
	}
	_, done, err := j.Dir.ExitStatus()
	return err == nil && !done
}

// endOrphans is for a process in the foreground, with one job at a time. It
// ends what a shepherd has left behind that could not do so itself:
// being the next subreaper above it (prctl(2)) we have inherited its
// descendants. A shepherd that came to its end leaves only what a prolog or
// epilog started to stay; that is not ours to end, so a normal end must not
// come here.
func (j *Job) endOrphans() {
	deadline := time.Now().Add(orphansDeadline)
	for wait := time.Millisecond; time.Now().Before(deadline); wait = min(2*wait, 100*time.Millisecond) {
		left := j.descendants()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			process.SignalDescendant(pid, unix.SIGKILL)
		}
		reap()
		time.Sleep(wait)
	}
}

// reap collects children that nobody waits for: orphans that came to us. It
// must not be called while a process is being waited for elsewhere.
func reap() {
	for {
		var status unix.WaitStatus
		if pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

// descendants returns all processes below this one, without those that it was
// started with: whoever executes us may have had children before.
func (j *Job) descendants() []int {
	var list []int
	queue := []int{unix.Getpid()}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range process.Children(parent) {
			if !slices.Contains(j.strays, pid) {
				list = append(list, pid)
				queue = append(queue, pid)
			}
		}
	}
	return list
}
