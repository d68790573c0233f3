package jobdir

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// remover empties directories in which somebody else may be at work.
//
// It descends a few levels. What is nested deeper is moved up to where it
// stopped and emptied there, so that no depth costs more descriptors or stack,
// or needs a path that the kernel would not take. With a, b, c in each other:
//
//	dir/a/b/c   unlink what is not a directory in a, move b to dir/.rm1, rmdir a
//	dir/.rm1/c  move c to dir/.rm2, rmdir .rm1
//	dir/.rm2    rmdir
//
// Every step works on a name in an open directory. Whatever is exchanged
// meanwhile, a name is removed, moved or opened as what it is at that moment:
// links are unlinked or moved, and not followed; a mount cannot be unlinked or
// moved (EBUSY) and is not opened (RESOLVE_NO_XDEV). A directory that has been
// opened was inside, wherever its owner moves it afterwards.
type remover struct {
	deadline time.Time
	// chmod gives permissions back that the user has taken from directories.
	// It is for an owner; root does not need it.
	chmod bool
	// owners of directories that may be emptied; nil is everybody. A name can
	// be removed by the owner of the directory that it is in, so nothing goes
	// that one of these could not have removed.
	owners  []int
	counter uint64
	// levels is how deep it descends from now on: fewer than mostLevels after
	// it was left without descriptors once.
	levels int
	// moved and again tell that another pass may do more: something was moved
	// up, or was exchanged while it was to be removed.
	moved, again bool
	// between is called between looking at an entry and acting on it; tests
	// exchange the entry there.
	between func(step string, dir int, name string)
}

// mostLevels is how deep a remover descends, and mostNested how deep it goes
// for directories that cannot be moved (to another subvolume or project).
const (
	mostLevels = 16
	mostNested = 32
)

// mostLeft is how many names an error lists.
const mostLeft = 8

// After so many passes over a directory that is still not empty there is a pause
// after each.
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

// empty removes everything in a directory. It reads the directory again and
// again, since it is written to meanwhile, by us if by nobody else.
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
			// Somebody keeps at it (NFS does so itself for an open file).
			time.Sleep(passPause)
		}
	}
}

// leftError names the files that are left, and the reason.
type leftError struct {
	path string
	err  error
}

func (e *leftError) Error() string { return quote(e.path) + ": " + e.err.Error() }
func (e *leftError) Unwrap() error { return e.err }

// leftIn puts the name of a directory before what is left in it.
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
			// Two levels less leave the two descriptors that a directory takes.
			r.levels = min(r.levels, max(level-2, 0))
			if level > r.levels {
				return err
			}
		}
		return r.drain(dir, fd, level)
	})
}

// removeDir removes a directory after empty has emptied it. It is closed
// before: a directory that is removed while it is open is more work for many
// file systems.
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

// exchanged takes note that a directory was not one any more, or not empty any
// more: the next pass has another look.
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
		// What may not be emptied stays where people find it.
		if err := r.mayEmpty(dir, name); err != nil {
			return ignoreMissing(err)
		}
	}
	r.at("move", dir, name)
	if err = r.rename(dir, name, base); errors.Is(err, unix.EACCES) && r.chmod {
		// To get another parent a directory must be writable for its owner.
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
		// A plain rename would replace an empty directory or, after an
		// exchange, a file: all the same here, since everything goes.
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

// readable opens the directory of an O_PATH descriptor for reading, if it may
// be emptied.
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
		// fchmod(2) refuses an O_PATH descriptor, and others cannot be had
		// without permission. The link in /proc leads to the very directory,
		// under whatever name it is by now.
		if err := unix.Chmod("/proc/self/fd/"+itoa(path), st.Mode&0o7777|0o700); err != nil {
			return -1, err
		}
	}
	return reopen(path)
}

func (r *remover) check(st *unix.Stat_t) error {
	if r.owners != nil && !slices.Contains(r.owners, int(st.Uid)) {
		return errors.New("it is a directory of user id " + itoa(int(st.Uid)) + " with something in it")
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

// left names some of what is in a directory.
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

// unlinkAny removes an entry of any kind but a directory that is not empty:
// for that full is true. An entry that is gone is removed.
func unlinkAny(dir int, name string) (full bool, err error) {
	err = unix.Unlinkat(dir, name, 0)
	// EISDIR is Linux's answer for a directory. EPERM is that of POSIX, and
	// also the one for immutable files and in sticky directories.
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

// notADirectory reports whether a directory could not be opened since the name
// is something else.
func notADirectory(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
