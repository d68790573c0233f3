package jobdir

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mostFile is the maximum size in bytes of a file in a job directory. The kernel accepts at most 6
// MiB of arguments and environment (execve(2)); escaping may double that.
const mostFile = 32 << 20

// Modes of files and directories. Files with data of the submitter are closed to other users; the
// original leaves them readable for everybody on the host. The other files may be read by
// administrators and users. Only the process that made a file or directory writes to it.
//
// Other users reach files in directories by name, and cannot open the directories. A user who can
// open a directory for reading can lock it (flock(2)), and the locks on job directories and on the
// spool area show which job has a supervisor, and whether another daemon runs.
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

// Dir is an open job directory. All access goes through its descriptor, so renaming or replacing
// the directory does not redirect it.
//
// Each file has one writer at a time: the daemon before it has started the shepherd, and for the
// file "signal"; the shepherd otherwise. Several goroutines may use a Dir concurrently, even with
// Close: calls after Close fail with fs.ErrClosed.
type Dir struct {
	path string // for messages

	mu sync.RWMutex // held for reading while fd is in use: after Close the kernel may reuse its number
	fd int          // -1 after Close
}

// OpenDir opens an existing directory; path "." is the directory that a shepherd is started in.
// OpenDir refuses a directory that other users could have written to: the owner must be root, the
// effective user or one of trusted (user IDs), and neither group nor others may have write
// permission.
func OpenDir(path string, trusted ...int) (*Dir, error) {
	return openDirAt(unix.AT_FDCWD, path, path, trusted)
}

// AdoptDir makes a Dir of a descriptor that another process has opened. It refuses the same
// directories as OpenDir.
func AdoptDir(fd int, path string) (*Dir, error) {
	if err := checkDir(fd, nil); err != nil {
		unix.Close(fd)
		return nil, &Error{"use directory", path, err}
	}
	return &Dir{fd: fd, path: path}, nil
}

// Share allows group gid to list the directory. A process that watches the directory needs this
// right, and no right to write.
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

// checkDir refuses a directory whose owner is not trusted or to which others may write.
func checkDir(fd int, trusted []int) error {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	owner := int(st.Uid)
	if owner != 0 && owner != unix.Geteuid() && !slices.Contains(trusted, owner) {
		return errors.New("it belongs to user ID " + itoa(owner) + ", expected " + itoa(unix.Geteuid()) + " or root")
	}
	if st.Mode&0o022 != 0 {
		return errors.New("other users may write to it (mode " + octal(st.Mode&0o7777) + ")")
	}
	return nil
}

// Path returns the path under which the directory was opened or created.
func (d *Dir) Path() string { return d.path }

// Use calls f with the descriptor of the directory, which stays open during the call. f must not
// use the Dir in any other way. After Close the error is fs.ErrClosed.
func (d *Dir) Use(f func(fd int) error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.fd < 0 {
		return fs.ErrClosed
	}
	return f(d.fd)
}

// call calls Use, and repeats a system call that a signal has interrupted.
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

// stat returns the attributes of an entry of the directory.
func (d *Dir) stat(name string) (st unix.Stat_t, err error) {
	err = d.call(func(fd int) error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// sync writes the directory itself to the disk.
func (d *Dir) sync() error { return d.call(unix.Fsync) }

// ReadOnly reports whether the file system of the directory, or its mount, is read-only
// (statfs(2)).
func (d *Dir) ReadOnly() bool {
	var st unix.Statfs_t
	err := d.call(func(fd int) error { return unix.Fstatfs(fd, &st) })
	return err == nil && st.Flags&unix.ST_RDONLY != 0
}

// Close closes the descriptor once no other call uses it. The directory stays.
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

// ReadFile returns the content of a regular file in the directory. If there is no such file,
// errors.Is(err, fs.ErrNotExist) holds.
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

// readSmall does what ReadFile does, with half as many system calls, for a file that is read often,
// was written by WriteFile and is shorter than 512 bytes.
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
		return d.ReadFile(name) // for its error, or for the whole file
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

// WriteFile replaces the whole file: a concurrent reader sees either the old content or the new
// one. The content is not on the disk before Sync.
func (d *Dir) WriteFile(name string, data []byte) error {
	if err := d.write(name, data, false); err != nil {
		return &Error{"write", d.file(name), err}
	}
	return nil
}

// WriteDurably calls WriteFile, and Sync for that file.
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

// Overwrite replaces the content of an existing file. On a file system that writes in place it
// needs no new disk space if the content fits into one block. The content is on the disk when
// Overwrite returns. If the process or the host stops during the call, the file may contain parts
// of both contents.
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

// rename gives the file of writeTemp its final name.
func (d *Dir) rename(name string) error {
	temp := tempOf(name)
	err := d.call(func(fd int) error { return unix.Renameat(fd, temp, fd, name) })
	if err != nil {
		_ = d.unlink(temp)
	}
	return err
}

// Mark gives a file a second name (link(2)). This costs the file system less than creating, and
// later removing, a file. It is no error if the mark already exists. The mark is not on the disk
// before Sync.
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

// writeTemp writes the next content of a file to a temporary name in the same directory.
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
	if existed && err != nil { // the killed writer left it unusable
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
		err = e // NFS reports a full disk at close
	}
	if err != nil {
		_ = d.unlink(temp)
	}
	return err
}

// tempOf returns the temporary name of the next content of a file.
func tempOf(name string) string { return "." + name + ".new" }

// Reserve allocates size bytes on the disk for a later WriteFile of the file, which then succeeds
// even if the disk is full by then. On a file system without allocation in advance it does nothing.
func (d *Dir) Reserve(name string, size int64) error { return d.reserve(name, tempOf(name), size) }

// ReserveAppend allocates size bytes on the disk for later calls of Append. It creates the file if
// necessary.
func (d *Dir) ReserveAppend(name string, size int64) error { return d.reserve(name, name, size) }

// Reserved reports whether there is space allocated by Reserve that was neither used nor released.
func (d *Dir) Reserved(name string) (bool, error) { return d.Exists(tempOf(name)) }

// Release frees the unused space that Reserve allocated.
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

// fill writes the content of a new file and sets its mode, regardless of the umask.
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

// Log is an open file for appending lines.
type Log struct {
	fd   int
	path string // for messages
}

// OpenAppend opens a file for appending, and creates it if necessary.
func (d *Dir) OpenAppend(name string) (*Log, error) {
	fd, _, err := d.open(name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT, modeOf(name))
	if err != nil {
		return nil, &Error{"open", d.file(name), err}
	}
	return &Log{fd, d.file(name)}, nil
}

// Add appends text to the file in one write.
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

// Append appends text to a file in one write, and creates the file if necessary.
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

// Exists reports whether the directory has an entry of that name, of any type.
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

// ModTime returns the modification time of a file. If there is no such file, errors.Is(err,
// fs.ErrNotExist) holds.
func (d *Dir) ModTime(name string) (time.Time, error) {
	st, err := d.stat(name)
	if err != nil {
		return time.Time{}, &Error{"look at", d.file(name), err}
	}
	return time.Unix(st.Mtim.Unix()), nil
}

// Version identifies a content of a file written by WriteFile. The zero value is the version of a
// missing file.
type Version struct {
	inode uint64
	time  unix.Timespec
}

// Version returns the current version of a file. It does not use the time alone, because the
// kernel's clock for file times ticks only a few hundred times a second.
func (d *Dir) Version(name string) (Version, error) {
	st, err := d.stat(name)
	if err != nil {
		return Version{}, &Error{"look at", d.file(name), err}
	}
	return Version{st.Ino, st.Mtim}, nil
}

// JobsVersion returns the version of the list of Jobs, and the time of its last change. Changes
// within a few milliseconds may have the same version.
func (s *Spool) JobsVersion() (Version, time.Time, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(s.active, &st) }); err != nil {
		return Version{}, time.Time{}, &Error{"look at", s.path + "/" + dirActiveJobs, err}
	}
	return Version{st.Ino, st.Mtim}, time.Unix(st.Mtim.Unix()), nil
}

// Remove removes a file. It is no error if the file does not exist.
func (d *Dir) Remove(name string) error {
	if !plainName(name) {
		return &Error{"remove", d.file(name), unix.EINVAL}
	}
	if err := d.unlink(name); err != nil && !errors.Is(err, unix.ENOENT) {
		return &Error{"remove", d.file(name), err}
	}
	return nil
}

// Sync writes the named files that exist, and the directory itself, to the disk. It is called
// before a start is acknowledged and before the end of a job is reported.
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

// Protect removes other users' permission to read data of the submitter. It is for a directory made
// by sge_execd, which leaves config and environment readable for everybody on the host.
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
