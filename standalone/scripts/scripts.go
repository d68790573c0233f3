// Package scripts stores the texts of job scripts in files of a folder, each under its
// cell.ScriptSum, so that equal texts are stored once. The caller decides which texts are still
// needed.
//
// Other projects should not import this package: it may change at any time.
//
// A Folder may be used from several goroutines; Write, Sync, Remove and Sweep from one at a
// time.
package scripts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/failpoint"
)

// The modes: environments and passwords may be in a script.
const (
	modeFolder = 0o700
	modeFile   = 0o600
)

// newSuffix is the suffix of files that are not complete yet.
const newSuffix = ".new"

// ErrLost says that a text is missing or has been changed.
var ErrLost = errors.New("it is not the submitted text")

// Folder is the folder. It is made with the first text.
type Folder struct {
	path string

	mutex sync.Mutex
	read  map[string]weak.Pointer[[]byte] // texts that are still in use
}

// In returns the folder with a path, which need not be there.
func In(path string) *Folder {
	return &Folder{path: path, read: map[string]weak.Pointer[[]byte]{}}
}

func (f *Folder) file(sum string) string { return filepath.Join(f.path, sum) }

// Write stores a text. It is on the disk after Sync. After an error Write leaves no file behind, or
// one that Sweep removes.
func (f *Folder) Write(sum string, text []byte) error {
	if info, err := os.Lstat(f.file(sum)); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(text)) {
		return nil // another job has the same text
	}
	if err := f.write(sum, text); err != nil {
		_ = os.Remove(f.file(sum) + newSuffix) // there need not be one
		return fmt.Errorf("cannot keep a script in %q: %w", f.path, cause(err))
	}
	return nil
}

func (f *Folder) write(sum string, text []byte) error {
	path := f.file(sum) + newSuffix
	const flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC | unix.O_NOFOLLOW
	file, err := os.OpenFile(path, flags, modeFile)
	if errors.Is(err, fs.ErrNotExist) {
		if err := f.begin(); err != nil {
			return err
		}
		file, err = os.OpenFile(path, flags, modeFile)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	failpoint.At("scripts-begun")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	failpoint.At("scripts-synced")
	return os.Rename(path, f.file(sum))
}

// begin makes the folder.
func (f *Folder) begin() error {
	if err := os.Mkdir(f.path, modeFolder); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(f.path))
}

// Sync returns once the names of all written texts are on disk.
func (f *Folder) Sync() error {
	if err := syncFolder(f.path); err != nil {
		return fmt.Errorf("cannot keep scripts in %q: %w", f.path, cause(err))
	}
	failpoint.At("scripts-written")
	return nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read returns a text. The error is ErrLost if the text is missing or differs from the written one.
// Callers share the text and must not change it.
func (f *Folder) Read(sum string) ([]byte, error) {
	f.mutex.Lock()
	known := f.read[sum].Value()
	f.mutex.Unlock()
	if known != nil {
		return *known, nil
	}
	text, err := os.ReadFile(f.file(sum))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot read the script %q: %w: the file is missing", f.file(sum), ErrLost)
	case err != nil:
		return nil, fmt.Errorf("cannot read the script %q: %w", f.file(sum), cause(err))
	case cell.ScriptSum(text) != sum:
		return nil, fmt.Errorf("cannot use the script %q: %w", f.file(sum), ErrLost)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for other, p := range f.read {
		if p.Value() == nil {
			delete(f.read, other)
		}
	}
	f.read[sum] = weak.Make(&text)
	return text, nil
}

// Remove removes a text. It is not an error if the text does not exist.
func (f *Folder) Remove(sum string) error {
	if err := os.Remove(f.file(sum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the script %q: %w", f.file(sum), cause(err))
	}
	failpoint.At("scripts-removed")
	return nil
}

// Sweep removes all texts that are not needed, and the incomplete files of interrupted Writes.
func (f *Folder) Sweep(needed func(sum string) bool) error {
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot clean up the scripts in %q: %w", f.path, cause(err))
	}
	var all error
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), newSuffix) || !needed(e.Name()) {
			all = errors.Join(all, f.Remove(e.Name()))
		}
	}
	return all
}

// cause leaves out the path, which the message has.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
