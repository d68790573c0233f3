package jobdir

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// remover empties directories in which other processes may be working at the same time.
//
// It descends a few levels. It moves deeper directories up to the level at which it stopped, and
// empties them there, so that no depth needs more descriptors or stack, or a path longer than the
// kernel accepts. With nested directories a, b, c:
//
//	dir/a/b/c   unlink everything but directories in a, move b to dir/.rm1, rmdir a
//	dir/.rm1/c  move c to dir/.rm2, rmdir .rm1
//	dir/.rm2    rmdir
//
// Every step uses a name in an open directory, and is safe even if another process replaces the
// entry in the meantime: links are unlinked or moved, and never followed; a mount cannot be
// unlinked or moved (EBUSY) and is not opened (RESOLVE_NO_XDEV). A directory that was opened was
// inside at that time, wherever its owner moves it afterwards.
type remover struct {
	deadline time.Time
	// chmod restores permissions that the user has removed from directories. An ordinary user needs
	// this; root does not.
	chmod bool
	// owners are the owners of directories that may be emptied; nil means all. The owner of a
	// directory can remove every name in it, so the remover deletes nothing that one of these users
	// could not have deleted.
	owners  []int
	counter uint64
	// levels is the depth to which the remover descends. It drops below mostLevels if the process
	// ran out of descriptors.
	levels int
	// moved and again say that another pass may remove more: an entry was moved up, or was replaced
	// during its removal.
	moved, again bool
	// between is called between examining an entry and acting on it. Tests replace the entry there.
	between func(step string, dir int, name string)
}

// mostLevels is the depth to which a remover descends. mostNested is the depth for directories that
// cannot be moved, because they belong to another subvolume or project.
const (
	mostLevels = 16
	mostNested = 32
)

// mostLeft is the maximum number of names in an error.
const mostLeft = 8

// After this number of passes over a directory that is still not empty, the remover pauses after
// each pass.
const (
	manyPasses = 20
	passPause  = 2 * time.Millisecond
)

var errDeadline = errors.New("it took too long: another process keeps writing in it, or it is very large")

// emptyPath empties the directory of an O_PATH descriptor.
func (r *remover) emptyPath(path int) error {
	fd, err := r.readable(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return r.empty(fd, 0)
}

// empty removes everything in a directory. It reads the directory repeatedly, because entries are
// added in the meantime: by the remover itself, and perhaps by other processes.
func (r *remover) empty(base, level int) error {
	buf := make([]byte, 8<<10)
	for idle := 0; ; idle++ {
		if _, err := unix.Seek(base, 0, 0); err != nil {
			return err
		}
		r.moved, r.again = false, false
		found, removed := 0, 0
		var first error
		for {
			n, err := readDirent(base, buf)
			if errors.Is(err, unix.ENOENT) {
				return nil // the directory itself has been removed
			}
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			_, _, names := unix.ParseDirent(buf[:n], -1, nil)
			for _, name := range names {
				found++
				err := r.remove(base, name, level)
				if err == nil {
					removed++
				} else if first == nil {
					first = leftIn(name, err)
				}
				if time.Now().After(r.deadline) {
					if first == nil {
						first = errDeadline
					}
					return first
				}
			}
		}
		switch {
		case found == 0:
			return nil
		case r.moved:
			idle = 0
		case removed == 0 && !r.again:
			return first
		case idle > manyPasses:
			// Another process keeps adding entries. NFS itself does so for an open file.
			time.Sleep(passPause)
		}
	}
}

// leftError names the remaining files and the reason.
type leftError struct {
	path string
	err  error
}

func (e *leftError) Error() string { return quote(e.path) + ": " + e.err.Error() }
func (e *leftError) Unwrap() error { return e.err }

// leftIn prepends the name of a directory to the names in err.
func leftIn(name string, err error) error {
	if e, ok := errors.AsType[*leftError](err); ok {
		return &leftError{name + "/" + e.path, e.err}
	}
	return &leftError{name, err}
}

// remove removes an entry of a directory.
func (r *remover) remove(dir int, name string, level int) error {
	full, err := unlinkAny(dir, name)
	if !full {
		return err
	}
	return r.removeDir(dir, name, func(fd int) error {
		if level < r.levels {
			err := r.empty(fd, level+1)
			if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
				return err
			}
			// Two levels less free the two descriptors that a directory needs.
			r.levels = min(r.levels, max(level-2, 0))
			if level > r.levels {
				return err
			}
		}
		return r.drain(dir, fd, level)
	})
}

// removeDir empties a directory with empty, closes it and removes it. Many file systems need more
// time to remove a directory that is still open.
func (r *remover) removeDir(dir int, name string, empty func(fd int) error) error {
	r.at("open", dir, name)
	path, err := openBeneath(dir, name)
	if err != nil {
		return r.exchanged(err)
	}
	fd, err := r.readable(path)
	unix.Close(path)
	if err != nil {
		return err
	}
	err = empty(fd)
	unix.Close(fd)
	if err != nil {
		return err
	}
	r.at("rmdir", dir, name)
	return r.exchanged(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
}

// exchanged notes that an entry is no longer a directory, or no longer empty. The next pass
// examines it again.
func (r *remover) exchanged(err error) error {
	if notADirectory(err) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		r.again = true
	}
	return ignoreMissing(err)
}

func (r *remover) at(step string, dir int, name string) {
	if r.between != nil {
		r.between(step, dir, name)
	}
}

// drain removes the files in a directory and moves its directories to base.
func (r *remover) drain(base, fd, level int) error {
	buf := make([]byte, 8<<10)
	for pass := 0; ; pass++ {
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return err
		}
		found, gone := 0, 0
		var first error
		for {
			n, err := readDirent(fd, buf)
			if errors.Is(err, unix.ENOENT) {
				return nil
			}
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			_, _, names := unix.ParseDirent(buf[:n], -1, nil)
			for _, name := range names {
				found++
				if err := r.moveUp(base, fd, name, level); err == nil {
					gone++
				} else if first == nil {
					first = leftIn(name, err)
				}
				if time.Now().After(r.deadline) {
					return errDeadline
				}
			}
		}
		if found == 0 || (gone == 0 && first == nil) {
			return nil
		}
		if gone == 0 {
			return first
		}
	}
}

// moveUp removes an entry of a directory below base, or moves it there.
func (r *remover) moveUp(base, dir int, name string, level int) error {
	full, err := unlinkAny(dir, name)
	if !full {
		return err
	}
	if r.owners != nil {
		// A directory that may not be emptied stays where people can find it.
		if err := r.mayEmpty(dir, name); err != nil {
			return ignoreMissing(err)
		}
	}
	r.at("move", dir, name)
	if err = r.rename(dir, name, base); errors.Is(err, unix.EACCES) && r.chmod {
		// Moving a directory to another parent requires that its owner may write to it.
		if path, e := openBeneath(dir, name); e == nil {
			if fd, e := r.readable(path); e == nil {
				unix.Close(fd)
			}
			unix.Close(path)
			err = r.rename(dir, name, base)
		}
	}
	if errors.Is(err, unix.EXDEV) && level < mostNested {
		return r.removeDir(dir, name, func(fd int) error { return r.empty(fd, level+1) })
	}
	return ignoreMissing(err)
}

func (r *remover) rename(dir int, name string, base int) error {
	for {
		r.counter++
		to := ".rm" + strconv.FormatUint(r.counter, 10)
		err := retry(func() error { return unix.Renameat(dir, name, base, to) })
		// A plain rename can replace an empty directory or, if entries were exchanged, a file. That
		// is harmless here, since everything is to be removed.
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) {
			if time.Now().After(r.deadline) {
				return errDeadline
			}
			continue
		}
		if err == nil {
			r.moved = true
		}
		return err
	}
}

// readable opens the directory of an O_PATH descriptor for reading, if it may be emptied.
func (r *remover) readable(path int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return -1, err
	}
	if err := r.check(&st); err != nil {
		return -1, err
	}
	if r.chmod && st.Mode&0o700 != 0o700 {
		r.at("chmod", path, "")
		// fchmod(2) refuses an O_PATH descriptor, and without permission no other descriptor can be
		// opened. The link in /proc leads to exactly this directory, even if it was renamed.
		if err := unix.Chmod("/proc/self/fd/"+itoa(path), st.Mode&0o7777|0o700); err != nil {
			return -1, err
		}
	}
	return reopen(path)
}

func (r *remover) check(st *unix.Stat_t) error {
	if r.owners != nil && !slices.Contains(r.owners, int(st.Uid)) {
		return errors.New("it is a directory of user ID " + itoa(int(st.Uid)) + " with something in it")
	}
	return nil
}

func (r *remover) mayEmpty(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return r.check(&st)
}

// left returns some names in a directory.
func (r *remover) left(path int) []string {
	names, err := list(path)
	if err != nil {
		return nil
	}
	// The first by name; sorting all of them takes more code than it is worth.
	first := make([]string, 0, mostLeft+1)
	for _, name := range names {
		first = append(first, name)
		for i := len(first) - 1; i > 0 && first[i] < first[i-1]; i-- {
			first[i], first[i-1] = first[i-1], first[i]
		}
		first = first[:min(len(first), mostLeft)]
	}
	return first
}

// unlinkAny removes an entry of any type except a directory that is not empty, for which full is
// true. It is no error if the entry does not exist.
func unlinkAny(dir int, name string) (full bool, err error) {
	err = unix.Unlinkat(dir, name, 0)
	// Linux returns EISDIR for a directory, POSIX specifies EPERM. EPERM also occurs for immutable
	// files and in sticky directories.
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return false, ignoreMissing(err)
	}
	switch again := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); {
	case errors.Is(again, unix.ENOTEMPTY), errors.Is(again, unix.EEXIST):
		return true, nil
	case !errors.Is(again, unix.ENOTDIR):
		err = again
	}
	return false, ignoreMissing(err)
}

// notADirectory reports whether opening a directory failed because the entry is something else.
func notADirectory(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
