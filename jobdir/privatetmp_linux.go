package jobdir

import (
	"strings"

	"golang.org/x/sys/unix"
)

// privateSuffix is appended to the name of a TMPDIR for the directory behind the job's own /tmp.
const privateSuffix = ".private"

// MakePrivateTmp creates the directory behind a job's own /tmp, next to its TMPDIR, and records it
// as MakeTmpdir does. It belongs to root and is closed to all others, so that the user of the job
// cannot plant anything in it or replace it. name is that of the TMPDIR. limit is as in
// MakeLimitedTmpdir; nil for none. Only root may call it.
func (d *Dir) MakePrivateTmp(queueTmpdir, name string, limit func(fd int) error) (Tmpdir, error) {
	t, err := makeTmpdir(queueTmpdir, name+privateSuffix, "", 0, 0, nil, d.recordThen(d.WritePrivateTmp, limit))
	if err != nil {
		_ = d.Remove(FilePrivateTmp)
	}
	return t, err
}

// WritePrivateTmp records the directory behind the own /tmp of a job, or of the job of a task.
func (d *Dir) WritePrivateTmp(t Tmpdir) error { return d.WriteFile(FilePrivateTmp, t.Format()) }

// PrivateTmp reads the record that WritePrivateTmp has written. If there is none, errors.Is(err,
// fs.ErrNotExist) holds.
func (d *Dir) PrivateTmp() (Tmpdir, error) { return d.readTmpdir(FilePrivateTmp) }

// RemovePrivateTmp removes the directory of a job's private /tmp as RemoveTmpdir does, including
// files of other owners: container programs leave directories of other user IDs (subuid(5)) there.
// Only the job could reach the directory, and it could move no file there from elsewhere, because
// its /tmp was a separate mount.
func RemovePrivateTmp(t Tmpdir) error { return RemoveTmpdir(t, RemoveOptions{}) }

// SweepPrivateTmp works like SweepTmpdir, for the directory behind a job's own /tmp that was not recorded. It
// removes only empty directories: the directory is recorded before anything is made in it. All of
// these directories belong to root, and others of that name may be in use, by another daemon.
func SweepPrivateTmp(queueTmpdir, name string) error {
	return SweepTmpdir(queueTmpdir, name+privateSuffix, RemoveOptions{empty: true})
}

// scratchSuffix is appended to the name of a TMPDIR for the directory of its file system.
const scratchSuffix = ".scratch"

// MakeScratch creates a directory for a file system that limits the size of a TMPDIR, next to it, and
// records it as MakePrivateTmp does. Only root may call it.
func (d *Dir) MakeScratch(queueTmpdir, name string) (Tmpdir, error) {
	write := func(t Tmpdir) error { return d.WriteFile(FileScratch, t.Format()) }
	t, err := makeTmpdir(queueTmpdir, name+scratchSuffix, "", 0, 0, nil, d.recordThen(write, nil))
	if err != nil {
		_ = d.Remove(FileScratch)
	}
	return t, err
}

// Scratch reads the record of the directory that MakeScratch has made. If there is none,
// errors.Is(err, fs.ErrNotExist) holds.
func (d *Dir) Scratch() (Tmpdir, error) { return d.readTmpdir(FileScratch) }

// SweepScratch is SweepPrivateTmp for the directory of MakeScratch.
func SweepScratch(queueTmpdir, name string) error {
	return SweepTmpdir(queueTmpdir, name+scratchSuffix, RemoveOptions{empty: true})
}

// Open opens the directory. It returns ErrNotOurs if its path leads to another one, and follows no
// link that a user could have made.
func (t Tmpdir) Open() (fd int, err error) {
	i := strings.LastIndexByte(t.Path, '/') + 1
	parent, err := walker{}.open("/" + t.Path[:i])
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	fd, err = openat(parent, t.Path[i:], openDirFlags, 0)
	if err != nil {
		return -1, &Error{"open directory", t.Path, err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != t.Dev || st.Ino != t.Ino) {
		err = ErrNotOurs
	}
	if err != nil {
		unix.Close(fd)
		return -1, &Error{"open directory", t.Path, err}
	}
	return fd, nil
}
