// Package outfile creates, replaces and extends files under names that a user has typed, in such a
// way that no other user can decide where they are written: root also writes files below /tmp and
// below the home directories of users.
//
// It follows links on the way if only root and the caller can have made them. In a directory that
// other users own or may write to, it refuses links and everything except regular files (*Error).
// To replace a file, it writes the content to a temporary file and renames that; so the file
// appears complete, and other hard links of the old file do not matter.
//
// All functions may be called from any goroutine.
package outfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// MakeDir opens a directory for new files, and creates it if it does not exist. Paths in it cannot lead
// outside of it (os.Root).
func MakeDir(path string) (*os.Root, error) { return openDir(path, true) }

func openDir(path string, makes bool) (*os.Root, error) {
	w, err := newWalker(path)
	if err != nil {
		return nil, err
	}
	defer w.close()
	w.makes = makes
	if err := w.directory(path); err != nil {
		return nil, err
	}
	return w.root()
}

// root returns the directory that has been reached.
func (w *walker) root() (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", w.dir))
}

// Parent opens the directory of the file, or the directory, that a path leads to, and returns
// its name there. It need not exist.
func Parent(path string) (dir *os.Root, name string, err error) {
	w, err := newWalker(path)
	if err != nil {
		return nil, "", err
	}
	defer w.close()
	name, st, err := w.file(path)
	if err != nil {
		return nil, "", err
	}
	if w.special {
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: errSpecial}
	}
	if st != nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if err := w.refusal(name, st); err != nil {
			return nil, "", err
		}
	}
	dir, err = w.root()
	return dir, name, err
}

var errSpecial = errors.New("it leads through a descriptor of a process")

// Write makes or replaces a file in a directory; the folders above it must exist. The file has
// its content, its mode and, on the disk, all of it before it appears under its name.
func Write(dir *os.Root, name string, text []byte, mode fs.FileMode) error {
	f, err := create(dir, name)
	if err != nil {
		return err
	}
	return f.Commit(text, mode)
}

// File is a file to write. It has been checked that this is possible.
type File struct {
	dir       *os.Root
	own       bool     // dir is closed with the file
	name      string   // in dir
	temporary string   // its name until then
	to        *os.File // the temporary file
	special   string   // the path of a device or a pipe, in place of all that; opened at the end
}

// Begin prepares to write a whole file. The target of the path may be a device or a pipe if no
// other user can have put it there.
func Begin(path string) (*File, error) {
	w, err := newWalker(path)
	if err != nil {
		return nil, err
	}
	defer w.close()
	name, st, err := w.file(path)
	if err != nil {
		return nil, err
	}
	if w.special || st != nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return w.begin(path, name, st)
	}
	dir, err := w.root()
	if err != nil {
		return nil, err
	}
	f, err := create(dir, name)
	if err != nil {
		dir.Close()
		return nil, err
	}
	f.own = true
	return f, nil
}

// begin prepares a target that is not a regular file.
func (w *walker) begin(path, name string, st *unix.Stat_t) (*File, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
	}
	if err := w.refusal(name, st); err != nil {
		return nil, err
	}
	if err := unix.Access(path, unix.W_OK); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &File{special: path}, nil // opening a pipe waits for its reader
}

// create makes the temporary file.
func create(dir *os.Root, name string) (*File, error) {
	f := &File{dir: dir, name: name, temporary: path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text())}
	var err error
	f.to, err = dir.OpenFile(f.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return f, err
}

// Commit writes the file and ends its preparation.
func (f *File) Commit(text []byte, mode fs.FileMode) (err error) {
	if f.special != "" {
		// Append, for example for /dev/stdout of a shell that has redirected it to a file.
		to, err := os.OpenFile(f.special, os.O_WRONLY|os.O_APPEND|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		_, err = to.Write(text)
		return errors.Join(err, to.Close())
	}
	defer func() {
		if err != nil {
			f.Discard()
		}
	}()
	if _, err := f.to.Write(text); err != nil {
		return err
	}
	if err := errors.Join(f.to.Chmod(mode), f.to.Sync(), f.to.Close()); err != nil {
		return err
	}
	if err := f.dir.Rename(f.temporary, f.name); err != nil {
		return err
	}
	f.to = nil
	return f.close()
}

// Discard ends the preparation of a file that is not written. It does nothing after a Commit.
func (f *File) Discard() {
	if f == nil || f.to == nil {
		return
	}
	f.to.Close()
	f.to = nil
	_ = f.dir.Remove(f.temporary)
	_ = f.close()
}

func (f *File) close() error {
	if !f.own {
		return nil
	}
	return f.dir.Close()
}

// Open opens a file for writing with the flags of open(2), among them os.O_WRONLY or os.O_RDWR. If
// other users could have put an existing file there, it must have no other hard links, and belong
// to root or the caller.
func Open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	w, err := newWalker(path)
	if err != nil {
		return nil, err
	}
	defer w.close()
	name, st, err := w.file(path)
	if err != nil {
		return nil, err
	}
	if w.special || st != nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		if err := w.refusal(name, st); err != nil {
			return nil, err
		}
		return os.OpenFile(path, flags&^os.O_CREATE|unix.O_NOCTTY, 0)
	}
	how := flags | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if st == nil {
		how |= os.O_EXCL
	} else {
		how &^= os.O_CREATE | os.O_TRUNC
	}
	fd, err := unix.Openat(w.dir, name, how, uint32(mode.Perm()))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if st != nil {
		err = w.check(fd, name)
		if err == nil && flags&os.O_TRUNC != 0 {
			err = unix.Ftruncate(fd, 0)
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// check looks at a file that was there when it was opened.
func (w *walker) check(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && ours(st.Uid) && st.Nlink == 1 {
		return nil
	}
	return w.refusal(name, &st)
}
