package configdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/outfile"
	"github.com/execd-project/execd/qconf"
)

// ErrExists is wrapped by the error of Write if the target already exists.
var ErrExists = errors.New("it exists")

// Write atomically writes a whole configuration directory: the files, and those of the folders that
// have no files. With replace, it may replace an existing directory, which is renamed to NAME.old
// (an earlier NAME.old is removed). Without replace, it may only replace an empty directory.
func Write(dir string, files map[string][]byte, folders []string, replace bool) error {
	fail := func(err error) error {
		return fmt.Errorf("cannot write the configuration directory %q: %w", dir, err)
	}
	// The target of a link is replaced, not the link.
	parent, base, err := outfile.Parent(dir)
	if err != nil {
		return fail(err)
	}
	defer parent.Close()
	occupied, err := occupied(parent, base)
	switch {
	case err != nil:
		return fail(cause(err))
	case occupied && !replace:
		return fail(ErrExists)
	}
	next := fmt.Sprintf(".%s.%d", base, os.Getpid())
	if err := errors.Join(parent.RemoveAll(next), parent.Mkdir(next, folderMode)); err != nil {
		return fail(cause(err))
	}
	err = fill(parent, next, files, folders)
	if err == nil {
		err = exchange(parent, next, base, occupied)
	}
	if err != nil {
		return fail(errors.Join(cause(err), parent.RemoveAll(next)))
	}
	return nil
}

// WriteCluster writes a whole cluster as Write does, including its built-in objects.
func WriteCluster(dir string, c *qconf.Cluster, replace bool) error {
	files := Files(c)
	return Write(dir, files, missing(files), replace)
}

// missing returns the folders without files: an empty folder means no objects, while a missing one
// means the objects of the base.
func missing(files map[string][]byte) []string {
	have := map[string]bool{}
	for name := range files {
		kind, _, _ := strings.Cut(name, "/")
		have[kind] = true
	}
	var lack []string
	for _, folder := range folders {
		if !have[folder] {
			lack = append(lack, folder)
		}
	}
	return lack
}

// occupied reports whether name exists and is not an empty directory.
func occupied(parent *os.Root, name string) (bool, error) {
	d, err := parent.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer d.Close()
	entries, err := d.ReadDir(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return len(entries) > 0, err
}

func fill(parent *os.Root, name string, files map[string][]byte, folders []string) error {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	d := &Dir{root: root, path: name}
	for _, folder := range folders {
		if err := root.Mkdir(folder, folderMode); err != nil {
			return err
		}
	}
	var changes []Change
	for _, name := range sortedNames(files) {
		changes = append(changes, Change{Path: name, Text: files[name]})
	}
	return d.Apply(nil, changes...)
}

// exchange puts a new directory in place, in one step.
func exchange(parent *os.Root, next, base string, occupied bool) error {
	if !occupied {
		return errors.Join(parent.Rename(next, base), sync(parent, "."))
	}
	handle, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer handle.Close()
	fd := int(handle.Fd())
	if err := unix.Renameat2(fd, next, fd, base, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	// next is the previous one now.
	old := base + ".old"
	return errors.Join(parent.RemoveAll(old), parent.Rename(next, old), handle.Sync())
}
