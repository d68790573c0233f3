package jobdir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errOtherDirectory is the cause if a path leads to a directory other than the one opened there
// before.
var errOtherDirectory = errors.New("another directory has this path; check that its file system is mounted")

// Check reports whether the paths of the area still lead to the directories that OpenSpool has
// opened. The Spool itself uses descriptors, which remain usable after an unmount (umount(8), -l);
// jobs, supervisors and administrators use the paths. If a path leads nowhere, errors.Is(err,
// fs.ErrNotExist) holds.
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

// sameDirectory reports whether path leads to the open directory fd.
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

// trial is the name, below active_jobs, of the directory for a trial start of a supervisor without
// a job.
const trial = "trial"

// BeginTrial creates an empty directory among the job directories, for a trial start of a
// supervisor. Jobs does not list it. RemoveTrial removes it, even if the process that created it
// was killed.
func (s *Spool) BeginTrial() (*Dir, error) {
	if err := s.RemoveTrial(); err != nil {
		return nil, err
	}
	return s.makeDir(s.active, trial, s.trialPath(), CreateOptions{})
}

// RemoveTrial removes the directory of BeginTrial with its contents, if it exists.
func (s *Spool) RemoveTrial() error {
	if err := s.removeAt(s.active, trial); err != nil {
		return &Error{"remove directory", s.trialPath(), err}
	}
	return nil
}

func (s *Spool) trialPath() string { return s.path + "/" + dirActiveJobs + "/" + trial }
