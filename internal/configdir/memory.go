package configdir

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Memory returns a configuration directory of files and folders in memory.
func Memory(files map[string][]byte, folders []string) fs.FS {
	m := memory{files, map[string]bool{".": true}}
	for _, f := range folders {
		m.folders[f] = true
	}
	for name := range files {
		m.folders[path.Dir(name)] = true
	}
	return m
}

type memory struct {
	files   map[string][]byte
	folders map[string]bool
}

// Open implements fs.FS.
func (m memory) Open(name string) (fs.File, error) {
	text, ok := m.files[name]
	switch {
	case ok:
		return &memoryFile{memoryInfo{path.Base(name), int64(len(text)), false}, bytes.NewReader(text), nil}, nil
	case !fs.ValidPath(name) || !m.folders[name]:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	var list []fs.DirEntry
	for f, text := range m.files {
		if path.Dir(f) == name {
			list = append(list, fs.FileInfoToDirEntry(memoryInfo{path.Base(f), int64(len(text)), false}))
		}
	}
	for f := range m.folders {
		if f != "." && path.Dir(f) == name {
			list = append(list, fs.FileInfoToDirEntry(memoryInfo{path.Base(f), 0, true}))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return &memoryFile{memoryInfo{path.Base(name), 0, true}, bytes.NewReader(nil), list}, nil
}

// memoryInfo is a file or a folder.
type memoryInfo struct {
	name   string
	size   int64
	folder bool
}

func (i memoryInfo) Name() string     { return i.name }
func (i memoryInfo) Size() int64      { return i.size }
func (memoryInfo) ModTime() time.Time { return time.Time{} }
func (i memoryInfo) IsDir() bool      { return i.folder }
func (memoryInfo) Sys() any           { return nil }

// Mode implements fs.FileInfo.
func (i memoryInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | folderMode
	}
	return fileMode
}

// memoryFile is an open file or folder.
type memoryFile struct {
	info memoryInfo
	*bytes.Reader
	rest []fs.DirEntry
}

// Stat implements fs.File.
func (f *memoryFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements fs.File.
func (f *memoryFile) Close() error { return nil }

// ReadDir implements fs.ReadDirFile.
func (f *memoryFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(f.rest)
	} else if len(f.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.rest))
	list := f.rest[:n]
	f.rest = f.rest[n:]
	return list, nil
}
