package launch

import (
	"errors"
	"fmt"
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

// Collect returns the outcome of the job, after it has ended the remaining processes if the
// shepherd was killed. status is the shepherd's wait status from Wait; 0 if it is unknown.
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
		j.endMarkedOnce(orphansDeadline)
	}
	if left, _, err := survivors(j.Dir); err == nil && len(left) == 0 && j.unswept == nil {
		jobGroupIDs.giveBack(j) // otherwise Remove does
	}
	return Collect(j.Dir, j.Description, status)
}

// endMarkedOnce ends the remaining processes of a job whose shepherd was killed, but only once,
// because the additional group ID may belong to another job later. It records the processes that do
// not end. If it cannot read all processes, it records nothing, and checkSurvivors tries again.
func (j *Job) endMarkedOnce(patience time.Duration) {
	if done, err := j.Dir.Exists(fileSwept); err == nil && done {
		return
	}
	var left []seen
	left, j.unswept = j.endMarked(patience)
	if errors.Is(j.unswept, process.ErrHeldUp) {
		// It may be another process of the owner, which could keep the directory and the GPUs of this job for ever.
		j.unswept = nil
	}
	if j.unswept == nil {
		_ = j.Dir.WriteFile(fileSwept, formatSurvivors(left))
	}
}

// checkSurvivors returns an error if the agent could not find or end the processes of a job whose shepherd was
// killed.
func (j *Job) checkSurvivors() error {
	if j.Rebooted() {
		return nil
	}
	if j.unswept != nil {
		if j.endMarkedOnce(removePatience); j.unswept != nil {
			return fmt.Errorf("cannot find the remaining processes of job %s: %w", j.Description.ID, j.unswept)
		}
	}
	left, _, err := survivors(j.Dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("cannot end process %d (%s) of job %s", left[0].pid, process.Name(left[0].pid), j.Description.ID)
	}
	return err
}

// wasKilled reports whether the shepherd did not end normally.
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

// endOrphans ends the remaining processes of a killed shepherd. Only a foreground process with one
// job at a time may call it: as the next subreaper (prctl(2)) this process has inherited the
// shepherd's descendants. Do not call endOrphans after a normal end of the shepherd: then the only
// processes left are those that a prolog or epilog started to stay, and they must not be ended.
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

// reap collects inherited orphans. It must not be called while another part of this process waits
// for a child.
func reap() {
	for {
		var status unix.WaitStatus
		if pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

// descendants returns all descendants of this process, except for those that existed at its start:
// the program that executed this one may have had children.
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
