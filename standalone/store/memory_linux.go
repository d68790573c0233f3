package store

import (
	"time"

	"golang.org/x/sys/unix"
)

// most is how many bytes of records are read and written before the memory is let go that the
// file is mapped to. What is needed of it comes back from the cache of the kernel, whose it is
// anyway; but it counts as that of the process, and after a while all of the file is mapped.
// It is let go after a while in any case.
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

// untouched is for a file that is closed.
func (s *Store) untouched() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed = true; s.timer != nil {
		s.timer.Stop()
	}
}

// letGo takes the file out of the memory of the process. Whoever reads it meanwhile goes on
// undisturbed. That it cannot be done costs memory only.
func (s *Store) letGo() {
	s.mutex.Lock()
	s.touched = 0
	s.mutex.Unlock()
	tx, err := s.begin() // the file is mapped where it is until this ends
	if err != nil {
		return
	}
	_ = s.guarded(func() error {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), unix.MADV_DONTNEED)
		return nil
	})
	_ = tx.Rollback() // nothing was written
}
