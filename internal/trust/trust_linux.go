// Package trust tells whether only root, and the users that the caller names, can choose or
// change what a path leads to.
//
// A daemon that runs as root reads its configuration and starts programs by path. The owner of
// any part of such a path decides what root reads or runs: the owner of the file, of a directory
// above it, or of a directory that a symbolic link on the way leads through.
//
// The package examines each part by descriptor, from the root directory on: it opens the part
// without following links, asks fstat(2) for the owner and the mode, and opens the next part
// below that descriptor. It walks the target of a link in the same way. If all parts pass, other
// users cannot change later where the path leads. So a program that has passed may be started by
// its path. Files are read from the descriptor that has passed.
//
// A part passes if
//
//   - its owner is root or a trusted user;
//   - others may not write to it. A directory on the way may have the sticky bit, as /tmp has:
//     there nobody can replace the entries of others, and the next part must have a trusted owner;
//   - no group may write to it, except root's group and the trusted groups, and these only if the
//     part has no access control list (acl(5)). With a list the group bits of the mode are the
//     mask of the list, and do not tell who may write.
//
// All functions may be called from several goroutines. The package imports only what the
// supervisor of a job links anyway.
package trust

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Users are the users who may own and write to trusted files, and the groups that may write to
// them. Root always may: the zero value is root alone.
type Users struct {
	UIDs, GIDs []uint32
}

// With returns the users and one more.
func (u Users) With(uid uint32) Users {
	if uid == 0 {
		return u
	}
	return Users{append(u.UIDs[:len(u.UIDs):len(u.UIDs)], uid), u.GIDs}
}

func has(list []uint32, id uint32) bool {
	for _, i := range list {
		if i == id {
			return true
		}
	}
	return false
}

// Check returns nil if only the users, and root, can change what an absolute path leads to: a
// file, a directory, or anything else. If others can, the error is an *Error; if nothing is
// there, or a part cannot be examined, it is a *fs.PathError.
func (u Users) Check(path string) error {
	w, err := u.walk(path)
	if err != nil {
		return err
	}
	w.close()
	return nil
}

// CheckDirectory is Check for a directory that may not exist yet: then it examines the nearest
// directory above that exists.
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
// descriptor of the file that has passed the check. The errors are those of Check.
func (u Users) Open(path string) (fd int, err error) {
	w, err := u.walk(path)
	if err != nil {
		return -1, err
	}
	defer w.close()
	if t := w.stat.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
		return -1, &fs.PathError{Op: "open", Path: path, Err: errType}
	}
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if w.name == "" { // the root directory, or what ".." has led to
		fd, err = open(w.fd, ".", flags|unix.O_DIRECTORY)
	} else {
		fd, err = open(w.dir, w.name, flags)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var now unix.Stat_t
	if err = unix.Fstat(fd, &now); err != nil {
		err = &fs.PathError{Op: "stat", Path: path, Err: err}
	} else if now.Dev != w.stat.Dev || now.Ino != w.stat.Ino { // changed by a trusted user
		err = u.judge(&part{path: path, at: w.at, stat: now, last: true})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Program is Check for a program that the caller is about to execute. If it is a script, Program
// checks the interpreter that its first line names, too.
func (u Users) Program(path string) error {
	const interpreters = 4 // as many as the kernel follows (execve(2))
	for range interpreters {
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
			return nil
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
	buf := make([]byte, 256) // BINPRM_BUF_SIZE
	n, err := unix.Pread(fd, buf, 0)
	if err != nil || n < 2 || buf[0] != '#' || buf[1] != '!' {
		return ""
	}
	line, _, _ := strings.Cut(string(buf[2:n]), "\n")
	words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == 0 })
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

var (
	errType     = errors.New("expected a regular file or a directory")
	errRelative = errors.New("expected an absolute path")

	errInterpreter = errors.New("the interpreter in its first line is no absolute path")
)

// walked is what a path leads to.
type walked struct {
	fd   int // of it, O_PATH
	dir  int // of the directory that it is in, O_PATH; -1 where name is empty
	name string
	at   string // its path without links
	stat unix.Stat_t
}

func (w *walked) close() {
	unix.Close(w.fd)
	if w.dir >= 0 {
		unix.Close(w.dir)
	}
}

// part is a directory, a link or a file on the way of a path.
type part struct {
	path string // the whole path
	at   string // that of the part, without links before it
	stat unix.Stat_t
	last bool // what the path leads to
	// shared says that others can make entries in its directory, which is sticky.
	shared bool
}

// mostLinks is how many symbolic links the kernel follows in a path (path_resolution(7)).
const mostLinks = 40

// walk follows a path, and checks each part.
func (u Users) walk(path string) (*walked, error) {
	if path == "" || path[0] != '/' {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errRelative}
	}
	fail := func(op string, err error) (*walked, error) { return nil, &fs.PathError{Op: op, Path: path, Err: err} }
	rest := components(path)
	w := &walked{fd: -1, dir: -1}
	if err := w.root(); err != nil {
		return fail("open", err)
	}
	if err := u.judge(&part{path: path, at: "/", stat: w.stat, last: len(rest) == 0}); err != nil {
		w.close()
		return nil, err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		p := &part{path: path, at: join(w.at, name), last: len(rest) == 0, shared: w.stat.Mode&unix.S_ISVTX != 0 && w.stat.Mode&0o022 != 0}
		fd, err := open(w.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if err == nil {
			if err = unix.Fstat(fd, &p.stat); err != nil {
				unix.Close(fd)
			}
		}
		if err != nil {
			w.close()
			return fail("open", err)
		}
		link := p.stat.Mode&unix.S_IFMT == unix.S_IFLNK
		err = u.judge(p)
		if err == nil && link {
			var to string
			to, err = readlink(fd)
			if links++; err == nil && links > mostLinks {
				err = unix.ELOOP
			}
			if err == nil && to[0] == '/' {
				if err = w.root(); err == nil {
					err = u.judge(&part{path: path, at: "/", stat: w.stat})
				}
			}
			rest = append(components(to), rest...)
			unix.Close(fd)
			if err == nil {
				continue
			}
		}
		if err != nil {
			if !link {
				unix.Close(fd)
			}
			w.close()
			var e *Error
			if errors.As(err, &e) {
				return nil, err
			}
			return fail("open", err)
		}
		w.descend(fd, name, p)
	}
	return w, nil
}

// root goes to the root directory.
func (w *walked) root() error {
	fd, err := open(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.Fstat(fd, &w.stat); err != nil {
		unix.Close(fd)
		return err
	}
	if w.fd >= 0 {
		w.close()
	}
	w.fd, w.dir, w.name, w.at = fd, -1, "", "/"
	return nil
}

// descend goes on to an entry.
func (w *walked) descend(fd int, name string, p *part) {
	if w.dir >= 0 {
		unix.Close(w.dir)
	}
	w.fd, w.dir, w.name, w.at, w.stat = fd, w.fd, name, p.at, p.stat
	if name == ".." {
		unix.Close(w.dir)
		w.dir, w.name = -1, ""
	}
}

// components are the names in a path. ".." stays: what it leads to is known only when the
// names before it have been resolved.
func components(path string) []string {
	var list []string
	for s := range strings.SplitSeq(path, "/") {
		if s != "" && s != "." {
			list = append(list, s)
		}
	}
	return list
}

func join(dir, name string) string {
	switch {
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

// readlink returns what a link names, of the link's own descriptor.
func readlink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return "", unix.ENOENT
	}
	return string(buf[:n]), nil
}
