package jobdir

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
)

// KeepActive is KEEP_ACTIVE of execd_params (sge_conf(5)): which job
// directories stay for people to look at.
type KeepActive int

// The values of KEEP_ACTIVE. The third one is of Open Cluster Scheduler.
const (
	KeepNone   KeepActive = iota // false
	KeepAll                      // true
	KeepFailed                   // error: those of jobs that failed
)

// Keeps reports whether the directory of a job stays.
func (k KeepActive) Keeps(failed bool) bool { return k == KeepAll || (k == KeepFailed && failed) }

// removeTimeout bounds the removal of a job directory, in which only the
// daemon writes.
const removeTimeout = time.Minute

// Remove removes the directory of a job, with those of its tasks, unless keep
// says that it stays. It is called once the end of the job has been reported
// and acknowledged, and may be repeated.
func (s *Spool) Remove(id job.ID, keep KeepActive, failed bool) error {
	if keep.Keeps(failed) {
		return nil
	}
	parent, name, err := s.parent(id)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.release(parent)
	if err := s.removeAt(parent, name); err != nil {
		return &Error{"remove directory", s.JobPath(id), err}
	}
	return nil
}

// removeAt removes a directory of ours. The config goes first: what is left
// after an interruption is an unfinished directory, not a job.
func (s *Spool) removeAt(parent int, name string) error {
	fd, err := openat(parent, name, openDirFlags, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Unlinkat(fd, FileConfig, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	// Then what it would be made of again after a power loss.
	if err := unix.Unlinkat(fd, FileStart, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := s.step("remove the rest"); err != nil {
		return err
	}
	r := remover{levels: mostLevels, deadline: time.Now().Add(removeTimeout)}
	if err := r.empty(fd, 0); err != nil {
		return err
	}
	failpoint.At("jobdir-emptied")
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
