package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/submit"
)

// readError is the error for a file that cannot be read. It is not a usage error.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// reader reads scripts and files of options. If root runs a job for a user, a file that the user
// cannot read must not become part of the user's job because a path given to root leads there
// through a link.
type reader struct {
	as     string           // the user for whom root reads
	rights *userfile.Rights // rights of the user; nil for this process's own
}

// typed reads a file that the caller has named.
func (r reader) typed(path string) ([]byte, error) {
	if r.rights != nil {
		f, err := r.open(path, 0)
		if err != nil {
			return nil, &readError{err}
		}
		defer f.Close()
		return readAll(f, path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOCTTY, 0) // may be a pipe of the caller
	if err != nil {
		return nil, &readError{err}
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, &readError{&fs.PathError{Op: "open", Path: path, Err: &userfile.KindError{Kind: "a directory"}}}
	}
	return readAll(f, path)
}

// nested reads a file named in a script or in a file of options. The author of that text chose the
// name and may not be the caller, so only the user's own rights apply.
func (r reader) nested(path string) ([]byte, error) {
	f, err := r.openAs(path, 0)
	if errors.Is(err, fs.ErrPermission) && r.rights != nil {
		err = fmt.Errorf("%w for user %s, and execd does not read a file as root if a script or an options file names it", err, r.as)
	}
	if err != nil {
		return nil, &readError{err}
	}
	defer f.Close()
	return readAll(f, path)
}

// openAs opens a file with the rights of the user.
func (r reader) openAs(path string, flags int) (*os.File, error) {
	if r.rights == nil {
		return userfile.Open(path, flags)
	}
	return r.rights.Open(path, flags)
}

// open opens a file with the rights of the user. If they are not sufficient, root's rights apply,
// but only if no other user can have chosen the target of the path.
func (r reader) open(path string, flags int) (*os.File, error) {
	f, err := r.openAs(path, flags)
	if !errors.Is(err, fs.ErrPermission) || r.rights == nil {
		return f, err
	}
	trusted, reason := openTrusted(path)
	if reason != nil {
		return nil, fmt.Errorf("%w for user %s, and execd does not read it as root: %w", err, r.as, reason)
	}
	return trusted, nil
}

// openTrusted opens a regular file that only root can have chosen and changed.
func openTrusted(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		cwd, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = cwd + "/" + path // not cleaned: ".." after a link is another directory
	}
	fd, err := trust.Users{}.Open(path)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: &userfile.KindError{Kind: "a directory"}}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func readAll(f io.Reader, name string) ([]byte, error) {
	data, err := textfile.ReadAll(f, textfile.MaxScript)
	if e, ok := errors.AsType[*textfile.SizeError](err); ok {
		e.Name = name
	}
	if err != nil {
		return nil, &readError{err}
	}
	return data, nil
}

// requestFiles reads the default request files of sge_request(5) that exist. The file in the
// working directory must belong to the caller: in a directory like /tmp anybody could create one,
// and so decide what runs in other users' jobs, or create a named pipe to block them.
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
	for _, p := range paths {
		flags := 0
		if p == here {
			flags = userfile.NoFollow
		}
		f, err := s.reader.open(p, flags)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if e, ok := errors.AsType[*userfile.KindError](err); ok {
			// Links in the home directory belong to the user.
			if i, err := os.Stat(p); err != nil || !contains(seen, i) {
				s.say("warning: " + p + " is not read: " + e.Error())
			}
			continue
		}
		if s.reader.rights != nil && p == here && errors.Is(err, fs.ErrPermission) { // any user can have created it
			s.say("warning: " + p + " is not read: " + err.Error())
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the default options: %w", &readError{err})
		}
		info, text, err := s.requestFile(f, p, p == here, seen)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("cannot read the default options: %w", err)
		}
		if text != nil {
			files = append(files, submit.File{Name: p, Text: text})
		}
		seen = append(seen, info)
	}
	return files, nil
}

// requestFile reads a default request file; its text is nil for a file that is ignored. The file in
// the working directory must belong to the caller or root.
func (s *session) requestFile(f *os.File, name string, here bool, seen []fs.FileInfo) (fs.FileInfo, []byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	owner := st.Uid
	switch {
	case contains(seen, info):
		return info, nil, nil
	case here && owner != 0 && owner != s.caller.UID:
		s.say(fmt.Sprintf("warning: %s is not read: it belongs to user ID %d", name, owner))
		return info, nil, nil
	case here && st.Nlink > 1: // another user may have linked a file of the caller to this name (link(2))
		s.say("warning: " + name + " is not read: it has several hard links")
		return info, nil, nil
	}
	text, err := readAll(f, name)
	return info, text, err
}

func contains(list []fs.FileInfo, file fs.FileInfo) bool {
	return slices.ContainsFunc(list, func(i fs.FileInfo) bool { return os.SameFile(i, file) })
}
