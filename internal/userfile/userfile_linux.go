// Package userfile opens files for reading whose names a user chose: regular files alone,
// without waiting, and with the rights of that user where the program has more.
//
// All functions may be called from any goroutine.
package userfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/textfile"
)

// KindError means that a path does not lead to a regular file.
type KindError struct{ Kind string } // "a directory", "a pipe", "a symbolic link", ...

// Error names the kind of the file.
func (e *KindError) Error() string { return "it is " + e.Kind + ", expected a regular file" }

var errReplaced = errors.New("it was replaced while it was opened")

// NoFollow is a flag for Open: if the last part of the path is a symbolic link, it is the
// link that is there, and a *KindError.
const NoFollow = unix.O_NOFOLLOW

// Open opens a regular file with the rights of this process; flags are 0 or NoFollow. It never
// waits for the other end of a pipe, and it opens no device: a driver may act when it is
// opened. The error is a *fs.PathError, with the kernel's error or a *KindError in it.
func Open(path string, flags int) (*os.File, error) {
	return open(path, flags, false)
}

// Read opens a file with Open and reads up to limit bytes. The error may also be a
// *textfile.SizeError.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return textfile.ReadAll(f, limit)
}

// Rights are a user's access rights to files.
type Rights struct {
	UID, GID uint32
	Groups   []uint32 // supplementary ones
}

// Open calls the function Open with the rights of a user: only root may call it. The user must be
// able to reach the file by its path from the root directory. The kernel itself requires less: a
// relative path does not pass the directories above the working directory, and a link such as
// /proc/self/fd/0 or /dev/stdin passes none (proc_pid_fd(5)). Both belong to the caller and may
// lead to places that the user cannot access.
func (r *Rights) Open(path string, flags int) (*os.File, error) {
	var f *os.File
	var err error
	if e := r.take(func() { f, err = open(path, flags, true) }); e != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: e}
	}
	return f, err
}

// OpenBelow does the same as Open for a path below a directory that the caller has opened. The user must be
// able to get to the file from there; the directories above do not count, and links do not lead
// out of it.
func (r *Rights) OpenBelow(dir *os.Root, name string) (*os.File, error) {
	var f *os.File
	var err error
	if e := r.take(func() { f, err = openBelow(dir, name) }); e != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: e}
	}
	return f, err
}

func openBelow(dir *os.Root, name string) (*os.File, error) {
	before, err := dir.Stat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: &KindError{kind(before.Sys().(*syscall.Stat_t).Mode)}}
	}
	f, err := dir.OpenFile(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = &fs.PathError{Op: "open", Path: name, Err: errReplaced}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadDir reads a directory as os.ReadDir does, with the rights of a user: only root may call it.
func (r *Rights) ReadDir(path string) ([]fs.DirEntry, error) {
	return r.entries(path, func() (*os.File, error) { return os.Open(path) })
}

// ReadDirBelow does the same as ReadDir for a path below a directory that the caller has opened.
func (r *Rights) ReadDirBelow(dir *os.Root, name string) ([]fs.DirEntry, error) {
	return r.entries(name, func() (*os.File, error) { return dir.Open(name) })
}

func (r *Rights) entries(path string, open func() (*os.File, error)) ([]fs.DirEntry, error) {
	var f *os.File
	var err error
	if e := r.take(func() { f, err = open() }); e != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: e}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// open opens a file: by its path again from the root directory if reachable is set.
func open(path string, flags int, reachable bool) (*os.File, error) {
	fail := func(err error) (*os.File, error) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	// O_PATH finds a file and does not open it.
	found, err := openFile(path, unix.O_PATH|flags)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(found)
	before, err := status(found)
	if err != nil {
		return fail(err)
	}
	if before.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail(&KindError{kind(before.Mode)})
	}
	name := fmt.Sprintf("/proc/self/fd/%d", found)
	if reachable {
		if name, err = os.Readlink(name); err != nil {
			return fail(err)
		}
	}
	// A lease could delay even the opening of a regular file (fcntl(2)).
	fd, err := openFile(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		if reachable && name != path {
			err = &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return fail(err)
	}
	after, err := status(fd)
	if err == nil && (after.Dev != before.Dev || after.Ino != before.Ino) {
		err = errReplaced
	}
	if err != nil {
		unix.Close(fd)
		return fail(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openFile(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func status(fd int) (st unix.Stat_t, err error) {
	return st, unix.Fstat(fd, &st)
}

// kind names what is not a regular file.
func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFLNK:
		return "a symbolic link"
	}
	return "a device"
}

// take calls f with the rights. They belong to a thread (setfsuid(2), and setgroups(2) without the
// C library's help); a thread whose own rights cannot be restored ends with the goroutine.
func (r *Rights) take(f func()) error {
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
		err := threadGroups(r.Groups)
		if err == nil {
			err = threadIdentity(int(r.UID), int(r.GID))
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

// threadIdentity sets the ids for access to files. The calls return the previous id and no
// error: a second call tells whether the first has had an effect.
func threadIdentity(uid, gid int) error {
	for _, id := range []struct {
		call func(int) (int, error)
		to   int
	}{{unix.SetfsgidRetGid, gid}, {unix.SetfsuidRetUid, uid}} {
		_, _ = id.call(id.to)
		if now, err := id.call(-1); err != nil || now != id.to {
			return fmt.Errorf("cannot switch to ID %d for access to files", id.to)
		}
	}
	return nil
}
