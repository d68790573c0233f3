package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
)

// Error means that other users could decide where a file is written.
type Error struct {
	Path string // the file or the link that is refused
	Kind string // "a symbolic link", "a pipe", "a file of user alice", ...
	In   string // the directory that others can change
	Why  string // why they can change it
}

// Error names the refused entry, the directory, and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("%q is %s, which other users can put there: the directory %q %s; name a place that only you can change, or remove it",
		e.Path, e.Kind, e.In, e.Why)
}

// mostLinks is how many symbolic links the kernel follows in a path (path_resolution(7)).
const mostLinks = 40

// walker walks from directory to directory by descriptors.
type walker struct {
	makes bool // make directories that are missing
	dir   int  // descriptor (O_PATH) of the directory that has been reached
	at    string
	links int
	// in and why are the directory whose contents others can exchange, and the reason; empty
	// as long as only root and the caller decide where the path leads.
	in, why string
	// shared says why other users can create entries in this directory but cannot replace those of
	// root and the caller, as in /tmp; it is empty for other directories.
	shared string
	// special says that the path leads through a link in /proc to an open file of a process, which
	// only the kernel can follow.
	special bool
}

// newWalker returns a walker in the working directory or, for an absolute path, in the root
// directory.
func newWalker(path string) (*walker, error) {
	w := &walker{dir: -1}
	if strings.HasPrefix(path, "/") {
		return w, w.restart()
	}
	// By its name: others may be able to exchange the directories above it, too.
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if err := w.restart(); err != nil {
		return nil, err
	}
	if err := w.directory(cwd); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *walker) close() {
	if w.dir >= 0 {
		unix.Close(w.dir)
	}
	w.dir = -1
}

// restart starts again at the root directory.
func (w *walker) restart() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	return w.arrive(fd, "/")
}

// arrive makes a directory the current one.
func (w *walker) arrive(fd int, at string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	w.close()
	w.dir, w.at, w.shared = fd, at, ""
	switch why := exchangeable(&st); {
	case w.in != "" || why == "":
	case st.Mode&unix.S_ISVTX != 0 && ours(st.Uid):
		w.shared = why
	default:
		w.in, w.why = at, why
	}
	return nil
}

// enter enters a directory in the current one.
func (w *walker) enter(name string, flags int) error {
	at := filepath.Join(w.at, name)
	// O_DIRECTORY has automounts done.
	fd, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: at, Err: err}
	}
	return w.arrive(fd, at)
}

// directory walks to the directory of a path.
func (w *walker) directory(path string) error {
	for _, name := range components(path) {
		st, err := w.look(name)
		if errors.Is(err, fs.ErrNotExist) && w.makes {
			if err = unix.Mkdirat(w.dir, name, 0o777); err == nil || errors.Is(err, unix.EEXIST) {
				st, err = w.look(name)
			}
		}
		switch {
		case err != nil:
			return err
		case !isLink(st):
			err = w.enter(name, unix.O_NOFOLLOW)
		default:
			err = w.follow(name, st)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look returns the status of an entry of the directory (fstatat(2)), without following links.
func (w *walker) look(name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(w.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(w.at, name), Err: err}
	}
	return &st, nil
}

func isLink(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFLNK }

// refusal returns the error for an entry that others can have put there; nil if they cannot.
func (w *walker) refusal(name string, st *unix.Stat_t) error {
	e := &Error{Path: filepath.Join(w.at, name), Kind: kind(st), In: w.in, Why: w.why}
	switch {
	case w.in != "":
		return e
	case w.shared != "" && (!ours(st.Uid) || st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1): // link(2)
		e.In, e.Why = w.at, w.shared
		return e
	}
	return nil
}

// follow walks to the directory to which a link in the current one leads.
func (w *walker) follow(name string, st *unix.Stat_t) error {
	if err := w.refusal(name, st); err != nil {
		return err
	}
	if w.onProc() {
		return w.enter(name, 0)
	}
	to, err := w.readlink(name)
	if err != nil {
		return err
	}
	return w.directory(to)
}

// readlink returns the target of a link. If the target is absolute, the walk starts again at the
// root.
func (w *walker) readlink(name string) (string, error) {
	at := filepath.Join(w.at, name)
	if w.links++; w.links > mostLinks {
		return "", &fs.PathError{Op: "open", Path: at, Err: unix.ELOOP}
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.dir, name, buf)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: at, Err: err}
	}
	to := string(buf[:n])
	if strings.HasPrefix(to, "/") {
		return to, w.restart()
	}
	return to, nil
}

// onProc reports whether the directory is one of proc(5).
func (w *walker) onProc() bool {
	var st unix.Statfs_t
	return unix.Fstatfs(w.dir, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// file walks to the directory that contains the file of a path. It returns the name of the file
// there and its status; nil if it does not exist.
func (w *walker) file(path string) (name string, st *unix.Stat_t, err error) {
	for {
		names := components(path)
		if len(names) == 0 || names[len(names)-1] == ".." {
			return "", nil, &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
		}
		dir, name := names[:len(names)-1], names[len(names)-1]
		if err := w.directory(strings.Join(dir, "/")); err != nil {
			return "", nil, err
		}
		st, err := w.look(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, nil, nil
		case err != nil:
			return "", nil, err
		case !isLink(st):
			return name, st, nil
		}
		if err := w.refusal(name, st); err != nil {
			return "", nil, err
		}
		if w.onProc() {
			w.special = true
			return name, st, nil
		}
		if path, err = w.readlink(name); err != nil {
			return "", nil, err
		}
	}
}

// components returns the names in a path. It keeps "..", whose target is known only after the
// preceding names have been followed.
func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// kind names the kind of a file.
func kind(st *unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFREG:
		if st.Nlink > 1 {
			return "a file with several names"
		}
		return "a file of user " + userName(st.Uid)
	}
	return "a device"
}

// exchangeable explains why other users can replace entries of a directory; "" if they cannot.
func exchangeable(st *unix.Stat_t) string {
	mode := fmt.Sprintf(" (mode %04o)", st.Mode&0o7777)
	switch {
	case !ours(st.Uid):
		return "belongs to user " + userName(st.Uid)
	case st.Mode&unix.S_IWOTH != 0:
		return "may be written by everybody" + mode
	case st.Mode&unix.S_IWGRP != 0 && st.Gid != 0 && int(st.Gid) != os.Getegid():
		return "may be written by group " + strconv.FormatUint(uint64(st.Gid), 10) + mode
	}
	return ""
}

// ours reports whether a user is root or the caller.
func ours(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func userName(uid uint32) string {
	if u, err := userdb.System().UserID(uid); err == nil {
		return u.Name
	}
	return strconv.FormatUint(uint64(uid), 10)
}
