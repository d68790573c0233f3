package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemoryIsLetGo checks that records that were read do not stay in the memory of the process, and
// can be read again.
func TestMemoryIsLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.untouched() // it does not happen by itself meanwhile
	const records, size = 64, 64 << 10
	var changes []Change
	for i := range records {
		changes = append(changes, Change{fmt.Sprint(i), []byte(strings.Repeat(string('a'+rune(i%26)), size))})
	}
	if err := s.Commit(changes); err != nil {
		t.Fatal(err)
	}
	read := func() (n int) {
		for _, value := range s.All("") {
			n += len(value)
		}
		return n
	}
	for range 2 {
		if got := read(); got != records*size {
			t.Fatalf("%d bytes, %v", got, s.Err())
		}
		if got := resident(t, path); got < size/2 {
			t.Fatalf("%d bytes are mapped after all was read", got)
		}
		s.letGo()
		if got := resident(t, path); got > size/2 {
			t.Fatalf("%d bytes are still mapped", got)
		}
	}
}

// resident returns the resident memory of the mapping of a file, in bytes (proc_pid_smaps(5)).
func resident(t *testing.T, path string) (bytes int) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, area, found := strings.Cut(string(text), path+"\n")
	if !found {
		t.Fatalf("%s is not mapped", path)
	}
	_, rest, _ := strings.Cut(area, "\nRss:")
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}
