package replay

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/textfile"
)

// files maps paths to the files of a directory, and is a file system: a configuration that commands
// change.
type files map[string][]byte

// readFiles reads all files below a directory except the hidden ones.
func readFiles(fsys fs.FS, hidden ...string) (files, error) {
	f := files{}
	size := 0
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(hidden, name) {
			return err
		}
		f[name], err = textfile.ReadFS(fsys, name, textfile.MaxConfig)
		if size += len(f[name]); err == nil && size > textfile.MaxScript {
			err = &textfile.SizeError{Name: name + " and what is beside it", Limit: textfile.MaxScript}
		}
		return err
	})
	return f, err
}

// Open opens a file or a directory.
func (f files) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if text, ok := f[name]; ok {
		return &file{entry: entry{path.Base(name), len(text), false}, rest: text}, nil
	}
	entries := f.list(name)
	if len(entries) == 0 && name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{entry: entry{path.Base(name), 0, true}, entries: entries}, nil
}

// list returns the entries of a directory, sorted by name.
func (f files) list(folder string) []fs.DirEntry {
	prefix := folder + "/"
	if folder == "." {
		prefix = ""
	}
	var entries []fs.DirEntry
	for name, text := range f {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		first, _, below := strings.Cut(rest, "/")
		e := entry{first, len(text), below}
		if below {
			e.size = 0
		}
		if !slices.ContainsFunc(entries, func(o fs.DirEntry) bool { return o.Name() == first }) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// entry is the fs.FileInfo and fs.DirEntry of a file or a directory.
type entry struct {
	name   string
	size   int
	folder bool
}

// The methods of fs.FileInfo and fs.DirEntry.

// Name returns the last part of the path.
func (e entry) Name() string { return e.name }

// Size returns the length of a file, in bytes.
func (e entry) Size() int64 { return int64(e.size) }

// IsDir reports whether it is a directory.
func (e entry) IsDir() bool { return e.folder }

// ModTime returns the zero time: it is unknown.
func (e entry) ModTime() time.Time { return time.Time{} }

// Sys returns nil.
func (e entry) Sys() any { return nil }

// Info returns the entry itself.
func (e entry) Info() (fs.FileInfo, error) { return e, nil }

// Type returns the type of the mode.
func (e entry) Type() fs.FileMode { return e.Mode().Type() }

// Mode returns the permission to read.
func (e entry) Mode() fs.FileMode {
	if e.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// file is an open file or directory.
type file struct {
	entry
	rest    []byte
	entries []fs.DirEntry
}

// Stat returns the status of the file.
func (f *file) Stat() (fs.FileInfo, error) { return f.entry, nil }

// Close does nothing.
func (f *file) Close() error { return nil }

// Read reads the next bytes of a file.
func (f *file) Read(p []byte) (int, error) {
	if f.folder {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// ReadDir reads the next entries of a directory.
func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(f.entries)
	} else if len(f.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	list := f.entries[:n]
	f.entries = f.entries[n:]
	return list, nil
}
