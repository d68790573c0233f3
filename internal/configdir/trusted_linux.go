package configdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/execd-project/execd/internal/trust"
)

// Trusted returns a file system for qconf.Load that only opens trusted files of a configuration
// directory. Only root and the user of this process may be able to change the directory, its files,
// the targets of its links, and all directories above. It refuses any other file (*trust.Error),
// and opens exactly the file that it has checked.
func Trusted(dir string) (fs.FS, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f := trusted{dir, trust.Own()}
	if err := f.users.Check(dir); err != nil {
		return nil, fmt.Errorf("cannot read the configuration directory: %w", err)
	}
	return f, nil
}

// trusted is a directory whose trusted files can be read.
type trusted struct {
	dir   string
	users trust.Users
}

// Open implements fs.FS.
func (t trusted) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	path := filepath.Join(t.dir, name)
	fd, err := t.users.Open(path)
	if e, ok := errors.AsType[*trust.Error](err); ok {
		return nil, e // it names the file
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: cause(err)}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Untrusted returns an error for each part of a configuration directory that Trusted refuses
// because other users can change it.
func Untrusted(dir string) []*trust.Error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	users := trust.Own()
	var found []*trust.Error
	seen := map[string]bool{}
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file that cannot be read is an error of reading
		}
		if e, ok := errors.AsType[*trust.Error](users.Check(path)); ok && !seen[e.At] {
			seen[e.At] = true
			found = append(found, e)
		}
		return nil
	})
	return found
}
