package launch

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// fileWaiting is in a job directory while a foreground process is responsible for its removal. That
// process and the shepherd hold a lock on the directory; if the lock is free, both have ended.
const fileWaiting = "foreground"

// wait takes the responsibility for a new job directory.
func (j *Job) wait() error {
	// The lock comes first: any process may clean up a directory with the file and without a lock.
	if err := j.Dir.Use(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return os.NewSyscallError("flock", err)
	}
	return j.Dir.WriteFile(fileWaiting, nil)
}

// Swept is a job whose process in the foreground had been killed.
type Swept struct {
	Description *job.Description
	Outcome     *job.Outcome
	Err         error // of the removal
}

// Sweep cleans up after foreground jobs whose execd process was killed, including processes that
// survived their shepherd. It leaves alone jobs whose shepherd still runs. groups may be nil. The
// error concerns remains that belong to no known job.
func Sweep(spool *jobdir.Spool, groups *Groups, lookup func(name string) (*userdb.User, error)) ([]Swept, error) {
	ids, err := spool.Jobs()
	if err != nil {
		return nil, err
	}
	var list []Swept
	for _, id := range ids {
		if s, ok := sweep(spool, id, lookup); ok {
			list = append(list, s)
		}
	}
	return list, groups.Sweep(spool)
}

func sweep(spool *jobdir.Spool, id job.ID, lookup func(name string) (*userdb.User, error)) (s Swept, ok bool) {
	dir, err := spool.Open(id)
	if err != nil {
		return s, false
	}
	defer dir.Close()
	if waiting, err := dir.Exists(fileWaiting); err != nil || !waiting {
		return s, false
	}
	if dir.Use(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }) != nil {
		return s, false
	}
	s.Description, err = dir.Description()
	if errors.Is(err, jobdir.ErrIncomplete) {
		_ = Discard(spool, nil, id) // there was no job yet; the next time, perhaps
	}
	if err != nil {
		return s, false
	}
	// The processes of the job must have ended before its outcome is read.
	groupErr := removeRecordedGroup(dir)
	// The shepherd's wait status is unknown; the outcome comes from the files.
	s.Outcome = Collect(dir, s.Description, syscall.WaitStatus(0))
	if groupErr != nil {
		s.Err = groupErr // the directory stays for the next time
		return s, true
	}
	var errs []error
	owner, err := lookup(s.Description.Owner)
	if err == nil {
		var known *own
		known, err = readOwn(dir)
		d, readErr := recordedDirectories(dir, known)
		err = errors.Join(err, readErr, d.remove(jobdir.RemoveOptions{UID: int(owner.UID), GID: int(owner.GID)}))
	}
	errs = append(errs, err)
	errs = append(errs, spool.Remove(s.Description.ID, jobdir.KeepNone, false))
	// The script is shared by the tasks, of which one ran.
	if !s.Description.Command.Binary {
		errs = append(errs, spool.RemoveScript(id.Job))
	}
	s.Err = errors.Join(errs...)
	return s, true
}
