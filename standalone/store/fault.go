package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// guarded runs a function that uses the file. bbolt panics if the file is damaged or if its own
// state is unexpected, and a page of the file that cannot be read causes a memory fault. guarded
// returns these as errors, and the file is not used afterwards, because bbolt may hold locks that
// are never released.
func (s *Store) guarded(do func() error) (err error) {
	s.mutex.Lock()
	dead := s.dead
	s.mutex.Unlock()
	if dead != nil {
		return dead
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); what != nil {
			err = explain(what, s.file)
			s.die(err)
		}
	}()
	return do()
}

func (s *Store) die(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.dead = err
}

// mapped reports whether the file is mapped into memory, which may have failed after it grew. The
// caller holds commits.
func (s *Store) mapped() (is bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); what != nil { // a memory fault comes from the mapped file
			_, is = what.(interface{ Addr() uintptr })
		}
	}()
	return s.db.Info() != nil // panics if it is not mapped
}

// abandon closes a file that bbolt may still have mapped: then the lock does not go with the
// descriptor.
func abandon(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// explain converts a panic into an error about the file.
func explain(what any, file *os.File) error {
	if err := readable(file); err != nil {
		return err
	}
	if err := examine(file); err != nil {
		if _, ok := errors.AsType[*damage](err); ok {
			return damaged("%v", what)
		}
		return err
	}
	if fault, ok := what.(interface{ Addr() uintptr }); ok {
		return fmt.Errorf("the kernel has reported a fault at the address %#x, and the file can be read and is whole", fault.Addr())
	}
	return fmt.Errorf("internal error: %v\n%s", what, debug.Stack())
}

// readable reads all of the file, and says why that cannot be done.
func readable(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := lookAt(file); err != nil { // it may have been truncated
		return err
	}
	_, err = io.Copy(io.Discard, io.NewSectionReader(file, 0, info.Size()))
	return err
}

// examine opens the file again and returns the error that it finds in it.
func examine(file *os.File) (err error) {
	var again *os.File
	defer func() {
		if what := recover(); what != nil {
			err = damaged("%v", what)
			if again != nil {
				_ = again.Close()
			}
		}
	}()
	db, err := bbolt.Open(file.Name(), mode, &bbolt.Options{
		ReadOnly: true, PreLoadFreelist: true,
		OpenFile: func(name string, _ int, _ os.FileMode) (*os.File, error) {
			fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0) // with the lock
			if err != nil {
				return nil, err
			}
			again = os.NewFile(uintptr(fd), name)
			return again, nil
		},
	})
	if err != nil {
		return err
	}
	return errors.Join(verify(db), db.Close())
}
