package jobdir

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
)

// KeepActive is KEEP_ACTIVE of execd_params (sge_conf(5)): it selects the job directories to keep
// for inspection.
type KeepActive int

// The values of KEEP_ACTIVE. Only Open Cluster Scheduler has the third one.
const (
	KeepNone   KeepActive = iota // false
	KeepAll                      // true
	KeepFailed                   // error: directories of jobs that failed
)

// Keeps reports whether the directory of a job is kept.
func (k KeepActive) Keeps(failed bool) bool { return k == KeepAll || (k == KeepFailed && failed) }

// removeTimeout limits the removal of a job directory, in which only the daemon writes.
const removeTimeout = time.Minute

// Remove removes the directory of a job, including the directories of its tasks, unless keep says
// otherwise. It is called after the end of the job was reported and acknowledged. It may be called
// again.
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

// removeAt removes a job directory. It removes the config first: after an interruption the
// remaining directory is unfinished, and not a job.
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
	// Then the file from which Restore would rebuild the directory after a power loss.
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
