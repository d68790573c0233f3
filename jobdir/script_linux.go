package jobdir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// modeScript: the owner of a job reads and executes its script, nobody else
// sees it. The original's scripts can be read by everybody on the host.
const modeScript = 0o500

// WriteScript stores the script of a job, of any content, for a user, and
// returns its path. Array tasks share the script of their job: whoever comes
// second gets ErrExists, and finds a script that is complete.
//
// The script is its user's file (the directory is not, so that it cannot be
// exchanged): shells read it while it runs, also over a network file system
// where root is nobody.
func (s *Spool) WriteScript(job int, data []byte, uid, gid int) (path string, err error) {
	path = s.ScriptPath(job)
	if job < 1 {
		return "", &Error{"write script", path, errors.New("there is no such job number")}
	}
	if err := s.writeScript(itoa(job), data, uid, gid); err != nil {
		if errors.Is(err, unix.EEXIST) {
			err = ErrExists
		}
		return "", &Error{"write script", path, err}
	}
	return path, nil
}

func (s *Spool) writeScript(name string, data []byte, uid, gid int) error {
	if err := s.step("script"); err != nil {
		return err
	}
	suffix, err := randomSuffix()
	if err != nil {
		return err
	}
	temp := "." + name + "." + suffix
	fd, err := openat(s.scripts, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|openFlags, modePrivate)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Unlinkat(s.scripts, temp, 0) }()
	err = fill(fd, data, modeScript, true)
	if err == nil && unix.Geteuid() == 0 {
		err = unix.Fchown(fd, uid, gid)
	}
	if e := unix.Close(fd); err == nil {
		err = e
	}
	if err == nil {
		err = s.step("script link")
	}
	if err == nil {
		// link(2) does not replace what is there, unlike rename(2).
		err = unix.Linkat(s.scripts, temp, s.scripts, name, 0)
	}
	if err == nil {
		err = retry(func() error { return unix.Fsync(s.scripts) })
	}
	return err
}

// RemoveScript removes the script of a job, if there is one. Processes that
// execute it keep it.
func (s *Spool) RemoveScript(job int) error {
	if err := unix.Unlinkat(s.scripts, itoa(job), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &Error{"remove script", s.ScriptPath(job), err}
	}
	return nil
}
