package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// opened returns a store with some records.
func opened(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	var changes []Change
	for i := range 100 {
		changes = append(changes, Change{fmt.Sprintf("k%03d", i), bytes.Repeat([]byte("x"), 2000)})
	}
	if err := s.Commit(changes); err != nil {
		t.Fatal(err)
	}
	return s
}

// read reads all records.
func (s *Store) read() (n int, err error) {
	for range s.All("") {
		n++
	}
	return n, s.Err()
}

// TestFaults checks that after any fault, including faults that the file did not cause, the store
// refuses further use and gives the reason, and that the next store can open the file.
func TestFaults(t *testing.T) {
	large := []Change{{"large", bytes.Repeat([]byte("l"), 1<<20)}}
	for name, c := range map[string]struct {
		do      func(*Store) error
		says    string
		damaged bool
		gone    bool // the records
	}{
		"the file cannot be mapped after it has grown": {
			do: func(s *Store) error {
				s.db.MmapFlags = unix.MAP_FIXED_NOREPLACE | unix.MAP_HUGETLB // not for files like this one
				return s.Commit(large)
			},
			says: "cannot write to the store",
		},
		"a page is lost, and the file is whole": {
			do: func(s *Store) error {
				data, size := s.db.Info().Data, uintptr(64<<10)
				if _, _, errno := unix.Syscall(unix.SYS_MPROTECT, data, size, unix.PROT_NONE); errno != 0 {
					return errno
				}
				_, err := s.read()
				return err
			},
			says: "the kernel has reported a fault at the address",
		},
		"the same while it is written": {
			do: func(s *Store) error {
				data, size := s.db.Info().Data, uintptr(64<<10)
				if _, _, errno := unix.Syscall(unix.SYS_MPROTECT, data, size, unix.PROT_NONE); errno != 0 {
					return errno
				}
				return s.Commit(large)
			},
			says: "the kernel has reported a fault at the address",
		},
		"a mistake in the program": {
			do: func(s *Store) error {
				return s.guarded(func() error { return s.db.Update(nil) })
			},
			says: "internal error: runtime error",
		},
		"somebody has truncated the file": {
			do: func(s *Store) error {
				if err := s.file.Truncate(8192); err != nil {
					return err
				}
				_, err := s.read()
				return err
			},
			says: "it has 8192 bytes and should have", damaged: true, gone: true,
		},
		"the file is another one": {
			do: func(s *Store) error {
				for page := int64(2); page < 60; page++ {
					if _, err := s.file.WriteAt(bytes.Repeat([]byte{0x5a}, 4096), page*4096); err != nil {
						return err
					}
				}
				return s.Commit(large)
			},
			says: "it is damaged", damaged: true, gone: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t)
			err := c.do(s)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if _, ok := errors.AsType[*DamagedError](err); ok != c.damaged {
				t.Errorf("damaged: %v, %v", ok, err)
			}
			if again := s.Commit(large); again == nil {
				t.Error("it is written")
			}
			if _, again := s.read(); again == nil {
				t.Error("it is read")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			next, err := Open(s.path)
			if (err != nil) != c.gone {
				t.Errorf("the next one: %v", err)
			}
			if err == nil {
				if n, err := next.read(); n != 100 || err != nil {
					t.Errorf("%d records, %v", n, err)
				}
				if err := next.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
