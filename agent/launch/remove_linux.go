package launch

import (
	"errors"
	"time"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// removePatience bounds the wait for a supervisor that has been killed and whose last
// child is on its way out.
const removePatience = time.Second

// Remove removes the control group of the job and its files except for the script. With keep, the
// job directory stays for inspection, and Open then reports that it contains no job. If processes
// cannot be ended, everything stays, for Sweep or another attempt. A job with a running supervisor
// is not removed: errors.Is(err, ErrSupervised). Remaining tasks are removed with the job.
//
// After an interruption at any point it may be called again, also by another process: the directory
// remains the directory of a job until everything else has been removed, and then becomes an
// unfinished one.
func (j *Job) Remove(keep bool) error {
	if j.removed {
		return nil
	}
	if j.remote != nil {
		if err := j.remote.Remove(j.Description.ID, keep); err != nil {
			return err
		}
		j.removed = true
		return j.Close()
	}
	if !j.terminal {
		lock, err := j.lock(removePatience)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	failpoint.At("launch-remove")
	if err := j.removeTasks(keep); err != nil {
		return err
	}
	err := j.checkSurvivors()
	if err == nil {
		err = j.removeGroup()
	}
	if err != nil {
		if j.terminal {
			err = errors.Join(err, j.Dir.Close())
		}
		return err
	}
	failpoint.At("launch-group-removed")
	errs := []error{j.removeTmpdir()}
	failpoint.At("launch-tmpdir-removed")
	if keep {
		errs = append(errs, j.keep())
	} else {
		errs = append(errs, j.spool.Remove(j.Description.ID, jobdir.KeepNone, false))
	}
	failpoint.At("launch-removed")
	j.removed = errors.Join(errs[1:]...) == nil
	if j.removed {
		jobGroupIDs.giveBack(j)
	}
	if j.removed || j.terminal {
		errs = append(errs, j.Close())
	}
	return errors.Join(errs...)
}

// keep marks the directory as one without a job.
func (j *Job) keep() error {
	var errs []error
	// One whose shepherd was killed has no verdict, and would count as a job that
	// runs, with its cores, for as long as the directory stays.
	if _, done, err := j.Dir.ExitStatus(); err == nil && !done {
		errs = append(errs, j.Dir.AddExitStatus(int(job.FailedNoExitStatus)))
	}
	return errors.Join(append(errs, j.Dir.WriteFile(fileKept, nil), j.Dir.Remove(fileWaiting))...)
}

// removeTmpdir removes the TMPDIR of the job and the files of its private /tmp. A task shares them with
// its job and removes nothing.
func (j *Job) removeTmpdir() error {
	if j.own.shared {
		return nil
	}
	d := directories{j.tmpdir, j.private, j.scratch, j.own.project}
	return d.remove(j.own.removeOptions())
}

func (o *own) removeOptions() jobdir.RemoveOptions {
	return jobdir.RemoveOptions{UID: o.uid, GID: o.gid, Owners: o.users}
}

// Close closes the descriptors of j. It does not affect the job.
func (j *Job) Close() error {
	j.mu.Lock()
	s := j.shepherd
	j.mu.Unlock()
	if s != nil {
		s.close()
	}
	return j.Dir.Close()
}
