package jobdir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errOtherDirectory is the cause where a path leads to another directory than the one that
// was opened there.
var errOtherDirectory = errors.New("another directory has this path now; is its file system unmounted?")

// Check reports whether the paths of the area still lead to the directories that OpenSpool
// has opened. Our own access goes through descriptors, which work on after an unmount
// (umount(8), -l); jobs, supervisors and administrators use the paths. errors.Is(err,
// fs.ErrNotExist) says that a path leads nowhere.
func (s *Spool) Check() error {
	for _, d := range []struct {
		fd   int
		path string
	}{{s.root, s.path}, {s.active, s.path + "/" + dirActiveJobs}, {s.scripts, s.path + "/" + dirJobScripts}} {
		if err := sameDirectory(d.fd, d.path); err != nil {
			return &Error{"use spool directory", d.path, err}
		}
	}
	return nil
}

// sameDirectory compares an open directory with what has its path.
func sameDirectory(fd int, path string) error {
	var opened, named unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &opened) }); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Stat(path, &named) }); err != nil {
		return err
	}
	if opened.Dev != named.Dev || opened.Ino != named.Ino {
		return errOtherDirectory
	}
	return nil
}

// trial is the directory below active_jobs in which a start is tried without a job.
const trial = "trial"

// BeginTrial makes an empty directory among those of jobs, in which somebody tries whether a
// supervisor can be started. Jobs does not list it. RemoveTrial removes it, also one that
// a killed process has left.
func (s *Spool) BeginTrial() (*Dir, error) {
	if err := s.RemoveTrial(); err != nil {
		return nil, err
	}
	return s.makeDir(s.active, trial, s.trialPath(), CreateOptions{})
}

// RemoveTrial removes what BeginTrial has made, if it is there, with all that is in it.
func (s *Spool) RemoveTrial() error {
	if err := s.removeAt(s.active, trial); err != nil {
		return &Error{"remove directory", s.trialPath(), err}
	}
	return nil
}

func (s *Spool) trialPath() string { return s.path + "/" + dirActiveJobs + "/" + trial }
