// Package trust checks whether only root, and the users that the caller names, can choose or change
// the target of a path.
//
// A daemon that runs as root reads its configuration and starts programs by path. The owner of
// any part of such a path decides what root reads or runs: the owner of the file, of a directory
// above it, or of a directory that a symbolic link on the way leads through.
//
// The package examines each part by descriptor, from the root directory on: it opens the part
// without following links, gets the owner and the mode with fstat(2), and opens the next part below
// that descriptor. It walks the target of a link in the same way. If all parts pass, other users
// cannot change later where the path leads. So a program that has passed may be started by its
// path. Files are read from the descriptor that has passed.
//
// A part passes if
//
//   - its owner is root or a trusted user;
//   - others may not write to it. A directory on the way may have the sticky bit, as /tmp has:
//     there no user can replace the entries of others, and the next part must have a trusted owner;
//   - no group may write to it, except root's group and the trusted groups, and these only if the
//     part has no access control list (acl(5)). With a list the group bits of the mode are the mask
//     of the list, and do not tell which users may write.
//
// All functions may be called from several goroutines. The package imports only what the
// supervisor of a job links anyway.
package trust

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
)

// Users are the users who may own and write to trusted files, and the groups that may write to
// them. Root always may: the zero value means only root.
type Users struct {
	UIDs, GIDs []uint32
}

// Own returns the users whom this process trusts: its own user, and root. It also trusts the
// private group of its user, which has the name of the user, because with such groups umask(2) is
// often 002.
func Own() Users {
	uid, gid := uint32(unix.Geteuid()), uint32(unix.Getegid())
	if uid == 0 {
		return Users{}
	}
	u := Users{UIDs: []uint32{uid}}
	if name := userName(uid); name == userdb.System().GroupName(gid) {
		u.GIDs = []uint32{gid}
	}
	return u
}

// With returns the users and one more.
func (u Users) With(uid uint32) Users {
	if uid == 0 || slices.Contains(u.UIDs, uid) {
		return u
	}
	return Users{append(slices.Clip(u.UIDs), uid), u.GIDs}
}

// Check returns nil if only the users, and root, can change the target of an absolute path: a file,
// a directory, or anything else. If others can, the error is an *Error; if the path does not exist,
// or a part cannot be examined, it is a *fs.PathError.
func (u Users) Check(path string) error {
	w, err := u.walk(path)
	if err == nil {
		unix.Close(w.fd)
	}
	return err
}

// CheckDirectory checks a directory that may not exist yet. If it does not exist, CheckDirectory
// checks the nearest directory above that does.
func (u Users) CheckDirectory(path string) error {
	for {
		err := u.Check(path)
		above := parent(path)
		if !errors.Is(err, fs.ErrNotExist) || above == path {
			return err
		}
		path = above
	}
}

func parent(path string) string {
	path = strings.TrimRight(path, "/")
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// Open opens a regular file or a directory for reading, by its absolute path, and returns the
// descriptor of the checked file. It returns the same errors as Check.
func (u Users) Open(path string) (fd int, err error) {
	w, err := u.walk(path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(w.fd)
	if t := w.stat.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
		return -1, &fs.PathError{Op: "open", Path: path, Err: errType}
	}
	// Only the trusted users can have put another file there, or a link on the way.
	fd, err = open(unix.AT_FDCWD, w.at, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil {
		err = u.checkPart(w, w.at, &stat, true)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Program checks a program that the caller is about to execute. If it is a script, Program checks
// the interpreter that its first line names, too.
func (u Users) Program(path string) error {
	err := u.interpreters(path)
	if opened := (*fs.PathError)(nil); errors.As(err, &opened) && opened.Path != path {
		return &fs.PathError{Op: "execute", Path: path, Err: err}
	}
	return err
}

// interpreters checks a program, the interpreter of that, and so on.
func (u Users) interpreters(path string) error {
	const deepest = 5 // as many as the kernel follows (execve(2))
	for range deepest {
		fd, err := u.Open(path)
		if errors.Is(err, unix.EACCES) { // executable, and not readable: a binary
			return u.Check(path)
		}
		if err != nil {
			return err
		}
		next := interpreter(fd)
		unix.Close(fd)
		if next == "" {
			break
		}
		if next[0] != '/' { // the kernel would take it from the working directory
			return &fs.PathError{Op: "execute", Path: path, Err: errInterpreter}
		}
		path = next
	}
	return nil
}

// interpreter returns the program that the first line of a script names; empty for other files.
func interpreter(fd int) string {
	var buf [256]byte // BINPRM_BUF_SIZE
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil || n < 2 || buf[0] != '#' || buf[1] != '!' {
		return ""
	}
	line, _, _ := strings.Cut(string(buf[2:n]), "\n")
	line, _, _ = strings.Cut(strings.Trim(line, " \t"), " ")
	line, _, _ = strings.Cut(line, "\t")
	return line
}

var (
	errType        = errors.New("expected a regular file or a directory")
	errRelative    = errors.New("expected an absolute path")
	errInterpreter = errors.New("the interpreter in its first line is not an absolute path")
)

// walk is the way of a path, as far as it was followed.
type walk struct {
	path string
	fd   int    // of the current part, O_PATH
	at   string // its path without links
	stat unix.Stat_t
}

// mostLinks is how many symbolic links the kernel follows in a path (path_resolution(7)).
const mostLinks = 40

// walk follows a path, and checks each part.
func (u Users) walk(path string) (*walk, error) {
	w := &walk{path: path, fd: -1}
	err := u.follow(w)
	if err == nil {
		return w, nil
	}
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return nil, e
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: err}
}

func (u Users) follow(w *walk) error {
	if w.path == "" || w.path[0] != '/' {
		return errRelative
	}
	rest := strings.Split(w.path, "/") // the first name, which is empty, is the root directory
	for links := 0; len(rest) > 0; {
		name := rest[0]
		if rest = rest[1:]; w.fd >= 0 && (name == "" || name == ".") {
			continue
		}
		at := join(w.at, name)
		from := w.fd
		if name == "" {
			from, name = unix.AT_FDCWD, "/"
		}
		fd, err := open(from, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err = unix.Fstat(fd, &stat); err == nil {
			err = u.checkPart(w, at, &stat, isLast(rest))
		}
		target := ""
		if err == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			target, err = readlink(fd)
			if links++; links > mostLinks {
				err = unix.ELOOP
			}
		}
		if err != nil || target != "" {
			unix.Close(fd)
			if err != nil {
				return err
			}
			rest = append(strings.Split(target, "/"), rest...)
			if target[0] != '/' {
				continue
			}
			fd = -1
		}
		if w.fd >= 0 {
			unix.Close(w.fd)
		}
		w.fd, w.at, w.stat = fd, at, stat
	}
	return nil
}

// isLast reports whether nothing follows in a path but slashes.
func isLast(rest []string) bool {
	for _, name := range rest {
		if name != "" && name != "." {
			return false
		}
	}
	return true
}

func join(dir, name string) string {
	switch {
	case name == "":
		return "/"
	case name == "..":
		return parent(dir)
	case dir == "/":
		return "/" + name
	}
	return dir + "/" + name
}

func open(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// readlink returns the target of a link that is open as fd.
func readlink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
