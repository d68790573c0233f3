package jobdir

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is the maximum number of links in a path, as in the kernel.
const mostLinks = 40

// walker opens a directory of the administrator by its path. It trusts no component that another
// user could replace. It follows links that the administrator made: a /tmp that leads to /scratch
// is common.
type walker struct {
	trusted []int  // user IDs of owners in addition to root and the effective user
	create  uint32 // mode of missing directories to make; 0 makes none
}

// open returns an O_PATH descriptor of the directory at the absolute path. The error names the
// component that failed.
func (w walker) open(path string) (int, error) {
	if !strings.HasPrefix(path, "/") {
		return -1, &Error{"use directory", path, errors.New("it is not an absolute path")}
	}
	fd, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &Error{"open directory", "/", err}
	}
	at, links := "", 0
	rest := components(path)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		next, link, err := w.step(fd, name)
		if err != nil {
			unix.Close(fd)
			return -1, &Error{"use directory", at + "/" + name, err}
		}
		if next < 0 { // a link
			if links++; links > mostLinks {
				unix.Close(fd)
				return -1, &Error{"use directory", path, unix.ELOOP}
			}
			rest = append(components(link), rest...)
			if !strings.HasPrefix(link, "/") {
				continue
			}
			at, name = "", ""
			if next, err = openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				unix.Close(fd)
				return -1, &Error{"open directory", "/", err}
			}
		}
		unix.Close(fd)
		fd = next
		if name != "" {
			at += "/" + name
		}
	}
	return fd, nil
}

func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// step opens the directory name in dirfd. If name is a link, step returns its target, and fd is -1.
func (w walker) step(dirfd int, name string) (fd int, link string, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err = openat(dirfd, name, flags, 0)
	if errors.Is(err, unix.ENOENT) && w.create != 0 {
		if err = unix.Mkdirat(dirfd, name, w.create); err == nil || errors.Is(err, unix.EEXIST) {
			fd, err = openat(dirfd, name, flags, 0)
		}
	}
	if err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = w.check(&st)
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		b := make([]byte, unix.PathMax)
		var n int
		if n, err = unix.Readlinkat(fd, "", b); err == nil {
			unix.Close(fd)
			return -1, string(b[:n]), nil
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	return fd, "", nil
}

// check returns an error if a user who is not trusted could replace the directory or link of st. In
// a directory with the sticky bit other users may create entries, but not replace entries of
// others.
func (w walker) check(st *unix.Stat_t) error {
	owner := int(st.Uid)
	if owner != 0 && owner != unix.Geteuid() && !slices.Contains(w.trusted, owner) {
		return errors.New("it belongs to user ID " + itoa(owner) + ", who could replace it")
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	if !isDir(st.Mode) {
		return unix.ENOTDIR
	}
	writers := st.Mode & 0o022
	if int(st.Gid) == unix.Getegid() {
		writers &^= 0o020 // the user's own group, as with umask 002
	}
	if writers != 0 && st.Mode&unix.S_ISVTX == 0 {
		return errors.New("other users may write to it, and it has no sticky bit (mode " + octal(st.Mode&0o7777) + ")")
	}
	return nil
}

// reopen opens the directory of an O_PATH descriptor for reading.
func reopen(fd int) (int, error) { return openat(fd, ".", openDirFlags, 0) }
