package foreground

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/nss"
	"github.com/execd-project/execd/submit"
)

// mostScript is the size above which a script, or a file of options, is taken
// for a mistake: /dev/zero has no end.
const mostScript = 64 << 20

// readError is a file that cannot be read: no mistake in the words that name it.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// reader reads scripts and files of options. Root reads them for a user: what
// the user cannot read himself must not become the text of his job, only
// because the name that root was given leads there through a link.
type reader struct {
	as     *nss.User // nil for ourselves
	groups []uint32
}

// file reads a file with the rights of the user. Where these do not suffice
// root's do if nobody else can have chosen what the path leads to.
func (r reader) file(path string) ([]byte, error) {
	if r.as == nil {
		return readFile(path)
	}
	var data []byte
	var err error
	if e := r.withRights(func() { data, err = readFile(path) }); e != nil {
		return nil, e
	}
	if !errors.Is(err, fs.ErrPermission) {
		return data, err
	}
	if reason := untrusted(path); reason != nil {
		return nil, &readError{fmt.Errorf("%w for user %s, and it is not read as root: %w", err, r.as.Name, reason)}
	}
	return readFile(path)
}

func readFile(path string) ([]byte, error) {
	f, _, err := openFile(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, path)
}

// openFile opens what can be read as a text: a file or a pipe.
func openFile(path string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, nil, &readError{err}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is a directory")}
	}
	if err != nil {
		f.Close()
		return nil, nil, &readError{err}
	}
	return f, info, nil
}

func readAll(f io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, mostScript+1))
	if err == nil && len(data) > mostScript {
		err = fmt.Errorf("%s has more than %d MiB", name, mostScript>>20)
	}
	if err != nil {
		return nil, &readError{err}
	}
	return data, nil
}

// withRights calls f with the user's rights on files. The kernel keeps them per
// thread (setfsuid(2), and setgroups(2) without the C library's help); a thread
// whose rights could not be given back ends with the goroutine.
func (r reader) withRights(f func()) error {
	own, err := unix.Getgroups()
	if err != nil {
		return err
	}
	before := make([]uint32, len(own))
	for i, g := range own {
		before[i] = uint32(g)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := threadGroups(r.groups)
		if err == nil {
			err = threadIdentity(int(r.as.UID), int(r.as.GID))
		}
		if err == nil {
			f()
		}
		if threadIdentity(unix.Geteuid(), unix.Getegid()) == nil && threadGroups(before) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

func threadGroups(groups []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	return nil
}

// threadIdentity sets the ids for access to files. The calls return the former
// id and no error: a second call tells whether the first has had an effect.
func threadIdentity(uid, gid int) error {
	for _, id := range []struct {
		call func(int) (int, error)
		to   int
	}{{unix.SetfsgidRetGid, gid}, {unix.SetfsuidRetUid, uid}} {
		_, _ = id.call(id.to)
		if now, err := id.call(-1); err != nil || now != id.to {
			return fmt.Errorf("cannot take on id %d for access to files", id.to)
		}
	}
	return nil
}

// untrusted says who else could have chosen what a path leads to; nil when
// nobody could: every directory and link on the way is root's and nobody
// else's to change.
func untrusted(path string) error {
	if !filepath.IsAbs(path) {
		cwd, err := os.Getwd()
		if err != nil {
			return err
		}
		path = cwd + "/" + path
	}
	const mostLinks = 40
	links := 0
	at := "/"
	for rest := components(path); len(rest) > 0; {
		name := filepath.Join(at, rest[0])
		rest = rest[1:]
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
		link := st.Mode&unix.S_IFMT == unix.S_IFLNK
		switch {
		case st.Uid != 0:
			return fmt.Errorf("%s belongs to user id %d", name, st.Uid)
		case !link && st.Mode&0o022 != 0 && (st.Mode&unix.S_ISVTX == 0 || len(rest) == 0):
			return fmt.Errorf("others may write to %s", name)
		case !link:
			at = name
			continue
		}
		to, err := os.Readlink(name)
		if err != nil {
			return err
		}
		if links++; links > mostLinks {
			return &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(components(to), rest...)
	}
	return nil
}

// components are the names in a path. ".." stays: what it leads to is known
// only when the names before it have been resolved.
func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// requestFiles reads the default request files of sge_request(5) that exist.
// That of the working directory must be ours: in a directory like /tmp anybody
// could leave one, and with it decide what runs in everybody else's jobs; or a
// named pipe, for which everybody would wait.
func (s *session) requestFiles() ([]submit.File, error) {
	var paths []string
	if root := os.Getenv("SGE_ROOT"); root != "" {
		paths = append(paths, filepath.Join(root, cmp.Or(os.Getenv("SGE_CELL"), "default"), "common", "sge_request"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, ".sge_request"))
	}
	const here = ".sge_request"
	paths = append(paths, here)
	var files []submit.File
	var seen []fs.FileInfo // the working directory may be the home directory
	read := func(info fs.FileInfo) bool {
		return slices.ContainsFunc(seen, func(i fs.FileInfo) bool { return os.SameFile(i, info) })
	}
	for _, p := range paths {
		flags := unix.O_NONBLOCK
		if p == here {
			flags |= unix.O_NOFOLLOW
		}
		f, info, err := openFile(p, flags)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if p == here && errors.Is(err, unix.ELOOP) {
			if i, err := os.Stat(p); err != nil || !read(i) { // in the home directory links are the user's own
				s.say("warning: " + p + " is not read: it is a symbolic link")
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the default options: %w", err)
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		var text []byte
		switch {
		case read(info):
		case !info.Mode().IsRegular():
			s.say("warning: " + p + " is not read: it is no regular file")
		case p == here && owner != 0 && owner != s.caller.UID:
			s.say(fmt.Sprintf("warning: %s is not read: it belongs to user id %d", p, owner))
		default:
			text, err = readAll(f, p)
			files = append(files, submit.File{Name: p, Text: text})
		}
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("cannot read the default options: %w", err)
		}
		seen = append(seen, info)
	}
	return files, nil
}
