package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/standalone/store"
)

// TestStaleBeginnings checks that a process removes the files, and only those, that a process left
// that was killed while it created them.
func TestStaleBeginnings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cell.db")
	begin := func(name string) string {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(name, 0o700), os.WriteFile(filepath.Join(name, "new"), []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	killed, empty, busy, others := begin(".cell.db-1234567"), begin(".cell.db-42"), begin(".cell.db-77"), begin(".cell.db-backup")
	if err := os.Remove(filepath.Join(empty, "new")); err != nil {
		t.Fatal(err)
	}
	mark, err := os.Open(busy)
	if err != nil {
		t.Fatal(err)
	}
	defer mark.Close()
	if err := unix.Flock(int(mark.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, stays := range map[string]bool{killed: false, empty: false, busy: true, others: true} {
		if _, err := os.Stat(name); (err == nil) != stays || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}
