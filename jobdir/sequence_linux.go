package jobdir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// LastJobID is the largest job number; the next one after it is 1.
const LastJobID = 9999999

// NextJobID returns a new job number: one that no process has obtained from this area before (until
// the numbers start again after LastJobID), and that no job of the area has. The number is on the
// disk before NextJobID returns.
func (s *Spool) NextJobID() (int, error) {
	n, err := s.nextJobID()
	if err != nil {
		return 0, &Error{"take a job number from", s.path + "/" + fileSequence, err}
	}
	return n, nil
}

func (s *Spool) nextJobID() (int, error) {
	// Each call replaces the file, so the lock is on the directory.
	lock, err := exclusive(s.root)
	if err != nil {
		return 0, err
	}
	defer unix.Close(lock)
	last, err := s.dir.ReadNumber(fileSequence)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return 0, err // not starting again at 1: the numbers may be in use
	}
	if last < 0 || last > LastJobID {
		return 0, errors.New("it contains " + itoa(last))
	}
	n := last
	for range LastJobID {
		if n++; n > LastJobID {
			n = 1
		}
		used, err := s.used(n)
		if err != nil {
			return 0, err
		}
		if used {
			continue
		}
		if err := s.step("number"); err != nil {
			return 0, err
		}
		if err := s.dir.write(fileSequence, []byte(itoa(n)+"\n"), true); err != nil {
			return 0, err
		}
		return n, s.dir.sync()
	}
	return 0, errors.New("all are in use")
}

// used reports whether a script or a directory has this job number. It does not find the directory
// of an array job without a task 1, but Create refuses to create that directory again.
func (s *Spool) used(n int) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(s.scripts, itoa(n), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		err = unix.Fstatat(s.active, itoa(n)+".1", &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// LockJobs blocks other callers until unlock is called or this process dies. It is for the
// assignment of resources: after a caller has read the directories of other jobs, no other process
// must assign the same resource before the new job has its directory. A second call before unlock
// blocks forever.
func (s *Spool) LockJobs() (unlock func(), err error) {
	lock, err := exclusive(s.active)
	if err != nil {
		return nil, &Error{"lock directory", s.path + "/" + dirActiveJobs, err}
	}
	return func() { unix.Close(lock) }, nil
}

// exclusive waits for the exclusive lock on a directory. The lock belongs to the open file
// description: each call opens its own descriptor, so that the lock also separates threads of this
// process. Closing the descriptor releases the lock.
func exclusive(dir int) (lock int, err error) {
	if lock, err = reopen(dir); err != nil {
		return -1, err
	}
	if err := retry(func() error { return unix.Flock(lock, unix.LOCK_EX) }); err != nil {
		unix.Close(lock)
		return -1, err
	}
	return lock, nil
}
