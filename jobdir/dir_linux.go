package jobdir

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mostFile is the size above which a file of a job directory is refused. The
// kernel takes 6 MiB of arguments and environment at most (execve(2)); escaping
// may double that.
const mostFile = 32 << 20

// Modes. What belongs to the submitter alone is closed to others: the original
// leaves it open to everybody on the host. The rest is for administrators and
// curious users to read. Nobody but the maker writes.
//
// Others reach files in directories by their names, and cannot open the directories: who can
// open one for reading can lock it (flock(2)), and the locks on directories of jobs and of the
// spool area tell which job has a supervisor, and whether another daemon runs.
const (
	modeDir     = 0o711
	modePrivate = 0o600
	modePublic  = 0o644
)

func modeOf(name string) uint32 {
	switch name {
	case FileConfig, FileEnvironment, FileArguments, FileStart:
		return modePrivate
	}
	return modePublic
}

// Dir is an open job directory. All access goes through its descriptor, so
// that renaming or replacing the directory leads nowhere else.
//
// Each file has one writer at a time: the daemon before the shepherd has been
// started and for "signal", the shepherd otherwise. Several goroutines may use a Dir,
// also beside Close: what comes after it fails with fs.ErrClosed.
type Dir struct {
	path string // for messages

	mu sync.RWMutex // held for reading while fd is in use: its number may be given again
	fd int          // -1 after Close
}

// OpenDir opens a directory that exists; path "." is the one that a shepherd is
// started in. It refuses one that somebody else could have written: the owner
// must be root, the effective user or one of trusted, and neither group nor
// others may write.
func OpenDir(path string, trusted ...int) (*Dir, error) {
	return openDirAt(unix.AT_FDCWD, path, path, trusted)
}

// AdoptDir takes over the descriptor of a directory that another process has opened. It refuses one
// that OpenDir would refuse.
func AdoptDir(fd int, path string) (*Dir, error) {
	if err := checkDir(fd, nil); err != nil {
		unix.Close(fd)
		return nil, &Error{"use directory", path, err}
	}
	return &Dir{fd: fd, path: path}, nil
}

// Share lets a group list the directory: for a process that watches it and may not write.
func (d *Dir) Share(gid int) error {
	err := d.Use(func(fd int) error { return unix.Fchown(fd, -1, gid) })
	if err == nil {
		err = d.Use(func(fd int) error { return unix.Fchmod(fd, modeDir|0o040) })
	}
	if err != nil {
		return &Error{"share directory", d.path, err}
	}
	return nil
}

func openDirAt(dirfd int, name, path string, trusted []int) (*Dir, error) {
	fd, err := openat(dirfd, name, openDirFlags, 0)
	if err != nil {
		return nil, &Error{"open directory", path, err}
	}
	if err := checkDir(fd, trusted); err != nil {
		unix.Close(fd)
		return nil, &Error{"use directory", path, err}
	}
	return &Dir{fd: fd, path: path}, nil
}

// checkDir refuses a directory that belongs to a stranger or that others may
// write to.
func checkDir(fd int, trusted []int) error {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	owner := int(st.Uid)
	if owner != 0 && owner != unix.Geteuid() && !slices.Contains(trusted, owner) {
		return errors.New("it belongs to user id " + itoa(owner) + ", expected " + itoa(unix.Geteuid()) + " or root")
	}
	if st.Mode&0o022 != 0 {
		return errors.New("others may write to it (mode " + octal(st.Mode&0o7777) + ")")
	}
	return nil
}

// Path returns the path under which the directory was opened or made.
func (d *Dir) Path() string { return d.path }

// Use calls f with the descriptor of the directory, which stays open meanwhile. f must not
// use the Dir otherwise. After Close the error is fs.ErrClosed.
func (d *Dir) Use(f func(fd int) error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.fd < 0 {
		return fs.ErrClosed
	}
	return f(d.fd)
}

// call does the same as Use, and repeats a system call that a signal interrupts.
func (d *Dir) call(f func(fd int) error) error {
	return d.Use(func(fd int) error {
		return retry(func() error { return f(fd) })
	})
}

// openat opens a file of the directory.
func (d *Dir) openat(name string, flags int, mode uint32) (opened int, err error) {
	opened = -1
	err = d.Use(func(fd int) (err error) {
		opened, err = openat(fd, name, flags, mode)
		return err
	})
	return opened, err
}

// unlink removes a file of the directory.
func (d *Dir) unlink(name string) error {
	return d.Use(func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

// stat looks at an entry of the directory.
func (d *Dir) stat(name string) (st unix.Stat_t, err error) {
	err = d.call(func(fd int) error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// sync brings the directory itself to the disk.
func (d *Dir) sync() error { return d.call(unix.Fsync) }

// ReadOnly reports whether nothing can be written to the directory, because its file system,
// or the mount of it, is read-only (statfs(2)).
func (d *Dir) ReadOnly() bool {
	var st unix.Statfs_t
	err := d.call(func(fd int) error { return unix.Fstatfs(fd, &st) })
	return err == nil && st.Flags&unix.ST_RDONLY != 0
}

// Close closes the descriptor when nobody uses it any more; the directory stays.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd < 0 {
		return nil
	}
	err := unix.Close(d.fd)
	d.fd = -1
	if err != nil {
		return &Error{"close", d.path, err}
	}
	return nil
}

func (d *Dir) file(name string) string { return d.path + "/" + name }

// ReadFile returns the content of a regular file of the directory.
// errors.Is(err, fs.ErrNotExist) tells that there is none.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	b, err := d.read(name)
	if err != nil {
		return nil, &Error{"read", d.file(name), err}
	}
	return b, nil
}

func (d *Dir) read(name string) ([]byte, error) {
	fd, st, err := d.open(name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if st.Size > mostFile {
		return nil, unix.EFBIG
	}
	return readAll(fd, int(st.Size), mostFile)
}

// readSmall is ReadFile for a file that is read often, that WriteFile has written and that
// has less than 512 bytes: it takes half as many system calls.
func (d *Dir) readSmall(name string) ([]byte, error) {
	fd, err := d.openat(name, unix.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, &Error{"read", d.file(name), err}
	}
	b := make([]byte, 512)
	var n int
	err = retry(func() (err error) {
		n, err = unix.Read(fd, b)
		return err
	})
	unix.Close(fd)
	if err != nil || n == len(b) {
		return d.ReadFile(name) // for what it says of it, or all of it
	}
	return b[:n], nil
}

// open opens a regular file.
func (d *Dir) open(name string, flags int, mode uint32) (fd int, st unix.Stat_t, err error) {
	if !plainName(name) {
		return -1, st, unix.EINVAL
	}
	if fd, err = d.openat(name, flags|openFlags, mode); err != nil {
		return -1, st, err
	}
	err = retry(func() error { return unix.Fstat(fd, &st) })
	if err == nil && !isRegular(st.Mode) {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// WriteFile replaces a file as a whole: whoever reads it meanwhile sees the old
// content or the new one. It is not on the disk before Sync.
func (d *Dir) WriteFile(name string, data []byte) error {
	if err := d.write(name, data, false); err != nil {
		return &Error{"write", d.file(name), err}
	}
	return nil
}

// WriteDurably is WriteFile, and then Sync of that file.
func (d *Dir) WriteDurably(name string, data []byte) error {
	err := d.write(name, data, true)
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		return &Error{"write", d.file(name), err}
	}
	return nil
}

// Overwrite gives a file that is there another content without taking room on the disk, where
// the file system writes in place and the content is not longer than a block. It is on the
// disk then. A process or a host that ends meanwhile can leave a part of each.
func (d *Dir) Overwrite(name string, data []byte) error {
	fd, _, err := d.open(name, unix.O_WRONLY, 0)
	if err == nil {
		if err = fill(fd, data, modeOf(name), false); err == nil {
			err = unix.Ftruncate(fd, int64(len(data)))
		}
		if err == nil {
			err = retry(func() error { return unix.Fsync(fd) })
		}
		unix.Close(fd)
	}
	if err != nil {
		return &Error{"write", d.file(name), err}
	}
	return nil
}

func (d *Dir) write(name string, data []byte, sync bool) error {
	if err := d.writeTemp(name, data, sync); err != nil {
		return err
	}
	return d.rename(name)
}

// rename gives what writeTemp has written the name of its file.
func (d *Dir) rename(name string) error {
	temp := tempOf(name)
	err := d.call(func(fd int) error { return unix.Renameat(fd, temp, fd, name) })
	if err != nil {
		_ = d.unlink(temp)
	}
	return err
}

// Mark gives a file a second name, as a mark that costs the file system little: no file is
// made, and none removed later. That the mark is there already is fine. It is not on the
// disk before Sync.
func (d *Dir) Mark(name, mark string) error {
	if !plainName(name) || !plainName(mark) {
		return &Error{"mark", d.file(name), unix.EINVAL}
	}
	err := d.call(func(fd int) error { return unix.Linkat(fd, name, fd, mark, 0) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return &Error{"mark", d.file(name), err}
	}
	return nil
}

// writeTemp writes the next content of a file beside it.
func (d *Dir) writeTemp(name string, data []byte, sync bool) error {
	if !plainName(name) {
		return unix.EINVAL
	}
	temp := tempOf(name)
	const flags = unix.O_WRONLY | unix.O_CREAT | openFlags
	fd, err := d.openat(temp, flags|unix.O_EXCL, modeOf(name))
	existed := errors.Is(err, unix.EEXIST) // from Reserve, or a writer that was killed
	if existed {
		fd, err = d.openat(temp, flags, modeOf(name))
	}
	if existed && err != nil { // the killed one left it as it was, unusable
		existed = false
		if err = d.unlink(temp); err == nil {
			fd, err = d.openat(temp, flags|unix.O_EXCL, modeOf(name))
		}
	}
	if err != nil {
		return err
	}
	err = fill(fd, data, modeOf(name), sync)
	if existed && err == nil {
		err = unix.Ftruncate(fd, int64(len(data)))
	}
	if e := unix.Close(fd); err == nil {
		err = e // NFS reports a full disk here
	}
	if err != nil {
		_ = d.unlink(temp)
	}
	return err
}

// tempOf returns the name under which the next content of a file is written.
func tempOf(name string) string { return "." + name + ".new" }

// Reserve takes room on the disk for a file that WriteFile will write later, so
// that it can be written when the disk has become full meanwhile. Where the file
// system has no such thing nothing is done.
func (d *Dir) Reserve(name string, size int64) error { return d.reserve(name, tempOf(name), size) }

// ReserveAppend is Reserve for what Append will add to a file. It makes the file
// when needed.
func (d *Dir) ReserveAppend(name string, size int64) error { return d.reserve(name, name, size) }

// Reserved reports whether Reserve has taken room for a file that was neither written nor released
// since.
func (d *Dir) Reserved(name string) (bool, error) { return d.Exists(tempOf(name)) }

// Release gives back what Reserve has taken and nothing has used.
func (d *Dir) Release(name string) { _ = d.unlink(tempOf(name)) }

func (d *Dir) reserve(name, entry string, size int64) error {
	fd, st, err := d.open(entry, unix.O_WRONLY|unix.O_CREAT, modeOf(name))
	if err == nil {
		err = retry(func() error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, st.Size, size) })
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			err = nil
		}
		unix.Close(fd)
	}
	if err != nil {
		return &Error{"reserve room for", d.file(name), err}
	}
	return nil
}

// fill gives a new file its content and, whatever the umask is, its mode.
func fill(fd int, data []byte, mode uint32, sync bool) error {
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	if err := writeAll(fd, data); err != nil {
		return err
	}
	if sync {
		return retry(func() error { return unix.Fsync(fd) })
	}
	return nil
}

// Log is an open file to which lines are added.
type Log struct {
	fd   int
	path string // for messages
}

// OpenAppend opens a file for lines to be added, and makes it when needed.
func (d *Dir) OpenAppend(name string) (*Log, error) {
	fd, _, err := d.open(name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT, modeOf(name))
	if err != nil {
		return nil, &Error{"open", d.file(name), err}
	}
	return &Log{fd, d.file(name)}, nil
}

// Add adds text to the end of the file in one write.
func (l *Log) Add(text string) error {
	if err := writeAll(l.fd, []byte(text)); err != nil {
		return &Error{"write", l.path, err}
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	if err := unix.Close(l.fd); err != nil {
		return &Error{"close", l.path, err}
	}
	return nil
}

// Append adds text to the end of a file in one write, and makes the file when
// needed.
func (d *Dir) Append(name, text string) error {
	fd, _, err := d.open(name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT, modeOf(name))
	if err == nil {
		err = writeAll(fd, []byte(text))
		if e := unix.Close(fd); err == nil {
			err = e
		}
	}
	if err != nil {
		return &Error{"write", d.file(name), err}
	}
	return nil
}

// Exists reports whether there is an entry of that name, of whatever kind.
func (d *Dir) Exists(name string) (bool, error) {
	_, err := d.stat(name)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ENOENT):
		return false, nil
	}
	return false, &Error{"look at", d.file(name), err}
}

// ModTime returns when a file was written. errors.Is(err, fs.ErrNotExist) tells that
// there is none.
func (d *Dir) ModTime(name string) (time.Time, error) {
	st, err := d.stat(name)
	if err != nil {
		return time.Time{}, &Error{"look at", d.file(name), err}
	}
	return time.Unix(st.Mtim.Unix()), nil
}

// Version tells two contents of a file that WriteFile has written from each other. Its
// zero value is of none.
type Version struct {
	inode uint64
	time  unix.Timespec
}

// Version is that of a file as it is now. The time alone would not do: the kernel's clock
// for it ticks a few hundred times a second.
func (d *Dir) Version(name string) (Version, error) {
	st, err := d.stat(name)
	if err != nil {
		return Version{}, &Error{"look at", d.file(name), err}
	}
	return Version{st.Ino, st.Mtim}, nil
}

// JobsVersion is that of the list of Jobs, and when it was changed. Changes within some
// milliseconds have the same one.
func (s *Spool) JobsVersion() (Version, time.Time, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(s.active, &st) }); err != nil {
		return Version{}, time.Time{}, &Error{"look at", s.path + "/" + dirActiveJobs, err}
	}
	return Version{st.Ino, st.Mtim}, time.Unix(st.Mtim.Unix()), nil
}

// Remove removes a file, if it is there.
func (d *Dir) Remove(name string) error {
	if !plainName(name) {
		return &Error{"remove", d.file(name), unix.EINVAL}
	}
	if err := d.unlink(name); err != nil && !errors.Is(err, unix.ENOENT) {
		return &Error{"remove", d.file(name), err}
	}
	return nil
}

// Sync brings the named files, as far as they exist, and the directory itself
// to the disk: before a start is acknowledged and before an end is reported.
func (d *Dir) Sync(names ...string) error {
	for _, name := range names {
		fd, _, err := d.open(name, unix.O_RDONLY, 0)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			err = retry(func() error { return unix.Fsync(fd) })
			unix.Close(fd)
		}
		if err != nil {
			return &Error{"sync", d.file(name), err}
		}
	}
	if err := d.sync(); err != nil {
		return &Error{"sync", d.path, err}
	}
	return nil
}

// Protect takes the right to read what came from the submitter away from other
// users, for a directory that a real execd has made: it leaves config and
// environment open to everybody on the host.
func (d *Dir) Protect() error {
	for _, name := range []string{FileConfig, FileEnvironment} {
		fd, st, err := d.open(name, unix.O_RDONLY, 0)
		if err == nil && st.Mode&0o7777 != modePrivate {
			err = unix.Fchmod(fd, modePrivate)
		}
		if fd >= 0 {
			unix.Close(fd)
		}
		if err != nil {
			return &Error{"protect", d.file(name), err}
		}
	}
	return nil
}
