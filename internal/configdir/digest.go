package configdir

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
)

// Digest identifies changes, in their order, under a key. Two lists have the same digest only if they make the same
// changes.
func Digest(key string, changes []Change) string {
	sum := sha256.New()
	part := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		sum.Write(size[:])
		sum.Write(b)
	}
	part([]byte(key))
	for _, c := range changes {
		part([]byte(c.Path))
		if c.Remove {
			part([]byte("-"))
			continue
		}
		part([]byte("+"))
		part(c.Text)
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// Sum identifies the files of a directory.
func Sum(files map[string][]byte) string {
	var list []Change
	for _, name := range sortedNames(files) {
		list = append(list, Change{Path: name, Text: files[name]})
	}
	return Digest("", list)
}

// Check refuses a change of a file that the directory cannot contain, or that readers skip.
func Check(c Change) error { return check(c.Path) }

// errLink says that Contents would have to follow a link to a folder.
var errLink = errors.New("it is a link to a folder: replace it by the folder")

// Contents returns the files of a configuration directory, by their paths, without those that readers skip, and its
// folders.
func Contents(fsys fs.FS) (files map[string][]byte, found []string, err error) {
	files = map[string][]byte{}
	err = fs.WalkDir(fsys, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") || strings.HasSuffix(entry.Name(), "~")
		kind, _, below := strings.Cut(path, "/")
		info, err := fs.Stat(fsys, path) // of the target of a link
		switch {
		case err != nil && hidden:
			return nil
		case err != nil:
			return err
		case info.IsDir() && !entry.IsDir():
			return &fs.PathError{Op: "read", Path: path, Err: errLink}
		case info.IsDir() && (hidden || below || !slices.Contains(folders, kind)):
			return fs.SkipDir
		case info.IsDir():
			found = append(found, path)
			return nil
		case hidden || !info.Mode().IsRegular():
			return nil
		}
		files[path], err = textfile.ReadFS(fsys, path, textfile.MaxConfig)
		return err
	})
	return files, found, err
}

// InEffect reports whether files are as after changes.
func InEffect(files map[string][]byte, changes []Change) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool {
		text, there := files[c.Path]
		return c.Remove == there || there && string(text) != string(c.Text)
	})
}
