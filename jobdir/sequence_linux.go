package jobdir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// LastJobID is the largest number of a job; after it comes 1 again.
const LastJobID = 9999999

// NextJobID gives out a job number: one that no process has got from this area
// before (until they start again after LastJobID), and that no job of the area
// has. What has been given out is on the disk before it is returned.
func (s *Spool) NextJobID() (int, error) {
	n, err := s.nextJobID()
	if err != nil {
		return 0, &Error{"take a job number from", s.path + "/" + fileSequence, err}
	}
	return n, nil
}

func (s *Spool) nextJobID() (int, error) {
	// The file is replaced each time, so the lock is on the directory.
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

// used reports whether a number has a script or a directory. A directory of an
// array job without a task 1 is not found; making its directory twice is
// refused by Create.
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

// LockJobs keeps others who call it out until unlock is called, or this process
// dies: what a job is given in view of those that have a directory must not be
// given to another before it has one itself. Calling it again before unlock
// would wait for ever.
func (s *Spool) LockJobs() (unlock func(), err error) {
	lock, err := exclusive(s.active)
	if err != nil {
		return nil, &Error{"lock directory", s.path + "/" + dirActiveJobs, err}
	}
	return func() { unix.Close(lock) }, nil
}

// exclusive waits until nobody else has the lock on a directory. The lock is one
// of the open file description: a descriptor of its own keeps threads of this
// process apart, too, and closing it is unlocking it.
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
