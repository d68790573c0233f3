package store

import (
	"time"

	"golang.org/x/sys/unix"
)

// most is the number of bytes of records to read and write before the mapped pages of the file are
// released. They belong to the kernel's page cache and are mapped again on use, but they count as
// memory of this process, and over time the whole file would be mapped. They are also released
// after a while in any case.
const (
	most  = 16 << 20
	while = 10 * time.Second
)

// touch notes that records of a size were read or written.
func (s *Store) touch(size int) {
	s.mutex.Lock()
	switch {
	case s.closed:
	case s.timer == nil:
		s.timer = time.AfterFunc(while, s.letGo)
	case s.touched == 0:
		s.timer.Reset(while)
	}
	s.touched += size
	enough := s.touched >= most
	s.mutex.Unlock()
	if enough {
		s.letGo()
	}
}

// untouched stops the timer of a store that is being closed.
func (s *Store) untouched() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed = true; s.timer != nil {
		s.timer.Stop()
	}
}

// letGo releases the mapped pages of the file. Concurrent readers are not disturbed. A failure only
// costs memory.
func (s *Store) letGo() {
	s.mutex.Lock()
	s.touched = 0
	s.mutex.Unlock()
	tx, err := s.begin() // the mapping does not move until this ends
	if err != nil {
		return
	}
	_ = s.guarded(func() error {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), unix.MADV_DONTNEED)
		return nil
	})
	_ = tx.Rollback() // nothing was written
}
