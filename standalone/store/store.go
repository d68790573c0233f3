// Package store stores the state of a master as records, each with a key and a value, in one file.
// Commits are atomic, and survive crashes and power losses. The package does not interpret the
// records.
//
// Other projects should not import this package: it may change at any time.
//
// The file is a bbolt database, which one process at a time may have open. Each value has a
// checksum, which detects damage by the disk. If most of the file is free, the store replaces it by
// a smaller one while commits and loops continue. The store reserves some blocks of the disk, so
// that records can be removed and overwritten on a full disk.
//
// A Store may be used from several goroutines; commits wait for each other.
package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// format is the version of the file format: a bucket of records, and the version itself. Since
// version 2, records may refer to other files, which programs for version 1 would ignore. The first
// commit converts a file to the newest version.
const format = 2

var (
	recordsBucket = []byte("records")
	aboutBucket   = []byte("about")
	formatKey     = []byte("format")
)

// mode is the mode of the file, which contains environments of jobs.
const mode = 0o600

// lockWait is how long the store waits for a process that has the file and may be about to end.
const lockWait = 2 * time.Second

// Change is a record to store, or if Value is nil, to remove.
type Change struct {
	Key   string
	Value []byte
}

// Store is an open file of records.
type Store struct {
	path string

	// commits serialises writers. It protects the fields below.
	commits    sync.Mutex
	logged     []Change // since the file is being copied, while it is
	copying    bool
	spoiled    bool      // a commit has failed since, and may be in the file
	shrinking  bool      // the file is going to be copied
	tried      time.Time // when it was copied last, or could not be
	ahead      int64     // up to where blocks are set aside for the file
	background sync.WaitGroup
	ending     chan struct{} // closed by Close
	close      sync.Once

	swap sync.RWMutex // of the two fields that follow; held while transactions begin
	db   *bbolt.DB
	file *os.File // that of db

	mutex   sync.Mutex
	err     error // why a loop ended
	dead    error // why nothing can be read or written any more
	report  func(error)
	touched int // bytes of records since the memory was let go
	timer   *time.Timer
	closed  bool
}

// DamagedError says that the file is damaged.
type DamagedError struct {
	Path string
	Err  error
}

// Error names the file and the remedy.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("cannot use the store %q: it is damaged: %v; put a copy from a backup in its place, or, to begin with nothing, move it away", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// LockedError says that another process has the file open.
type LockedError struct {
	Path string
	PID  int    // 0 if it cannot be found out
	Name string // of the program; empty if it cannot be found out
}

// Error names the file and the process that has it open.
func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d (%s)", e.PID, e.Name)
	}
	return fmt.Sprintf("cannot open the store %q: %s has it open", e.Path, who)
}

// Open opens the file, or creates it if it does not exist; the directory must exist. It reads the
// whole file once. It refuses a file that is damaged (*DamagedError), that another process has open
// (*LockedError), or that a newer program has written, and does not change such a file: it never
// replaces existing data by an empty store.
func Open(path string) (*Store, error) {
	err := create(path)
	if err == nil {
		err = lookAtFile(path)
	}
	if err != nil {
		return nil, openError(path, err)
	}
	s := &Store{path: path, ending: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, openError(path, err)
	}
	if err := s.guarded(s.verify); err != nil {
		return nil, errors.Join(openError(path, err), s.Close())
	}
	s.touch(most) // all of it
	s.commits.Lock()
	defer s.commits.Unlock()
	s.settle()
	return s, nil
}

// open opens the file that is in place once it has the lock: the previous holder may have replaced
// the file in the meantime.
func (s *Store) open() error {
	for {
		err := s.guarded(func() (err error) {
			s.db, err = openDB(s.path, &s.file)
			return err
		})
		if err != nil {
			if s.file != nil && s.db == nil {
				_ = abandon(s.file) // bbolt may have closed it
			}
			return err
		}
		mine, err := s.file.Stat()
		there, e := os.Stat(s.path)
		if err = errors.Join(err, e); err == nil && os.SameFile(mine, there) {
			_ = removeStale(s.path) // the next start tries again
			return s.removeCopy()
		}
		if err = errors.Join(err, s.db.Close()); err != nil {
			return err
		}
	}
}

// openDB opens a bbolt database and returns its file.
func openDB(path string, file **os.File) (*bbolt.DB, error) {
	return bbolt.Open(path, mode, &bbolt.Options{
		Timeout: lockWait,
		OpenFile: func(path string, flag int, mode os.FileMode) (f *os.File, err error) {
			*file, err = os.OpenFile(path, flag, mode)
			return *file, err
		},
	})
}

// openError says why the file cannot be used.
func openError(path string, err error) error {
	var damaged *damage
	switch {
	case errors.As(err, &damaged):
		return &DamagedError{Path: path, Err: damaged.err}
	case errors.Is(err, berrors.ErrTimeout):
		return lockedError(path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrInvalidMapping):
		return &DamagedError{Path: path, Err: err}
	case errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("cannot open the store %q: it has another format: %w", path, err)
	}
	return fmt.Errorf("cannot open the store %q: %w", path, cause(err))
}

// cause leaves out the path, which the message has.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// damage is an error that was found in the file.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

func damaged(format string, args ...any) error { return &damage{fmt.Errorf(format, args...)} }

// verify reads all records.
func (s *Store) verify() error { return verify(s.db) }

func verify(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		about, records := tx.Bucket(aboutBucket), tx.Bucket(recordsBucket)
		if about == nil || records == nil {
			return damaged("it is no store of records")
		}
		text := string(about.Get(formatKey))
		if n, err := strconv.Atoi(text); err != nil || n < 1 {
			return damaged("%q is no format", text)
		} else if n > format {
			return fmt.Errorf("it has the format %d, and this program knows formats up to %d: a newer program has written it", n, format)
		}
		most := tx.Size() / minRecord // more are none: pages that refer to each other
		cursor := records.Cursor()
		for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
			if _, err := content(key, value); err != nil {
				return err
			}
			if most--; most < 0 {
				return damaged("its pages go round in a circle")
			}
		}
		// All errors are received, because until then the search uses the pages of a transaction
		// that must not end earlier.
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = &damage{err}
			}
		}
		return first
	})
}

// minRecord is the minimum size of a record in bytes: its entry in the page, and the checksum.
const minRecord = 16

// castagnoli is computed when a store is opened: not in each command that is the same
// executable.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

func checksum(key string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli()), castagnoli(), value)
}

// content returns a value without its checksum.
func content(key, stored []byte) ([]byte, error) {
	if len(stored) < 4 || binary.BigEndian.Uint32(stored) != checksum(string(key), stored[4:]) {
		return nil, damaged("the record %q is not what was written", key)
	}
	return stored[4:], nil
}

// Commit stores and removes records. If several changes have the same key, the last one counts.
// When it returns nil, all changes are on the disk. After an error, commit the changes again:
// usually none of them is stored, but if the disk failed at the very end, all are. If there was no
// space (syscall.ENOSPC), Commit works again once there is.
//
// It must not be called in a loop over All.
func (s *Store) Commit(changes []Change) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	err := s.guarded(func() error { return update(s.db, changes) })
	if err == nil {
		size := 0
		for _, c := range changes {
			size += len(c.Value)
		}
		s.touch(size)
		if s.copying {
			s.logged = append(s.logged, changes...)
		}
		s.settle()
		return nil
	}
	if s.spoiled = true; !s.mapped() {
		s.die(err)
	}
	if d, ok := errors.AsType[*damage](err); ok {
		return &DamagedError{Path: s.path, Err: d.err}
	}
	return fmt.Errorf("cannot write to the store %q: %w", s.path, cause(err))
}

// update changes records in one transaction.
func update(db *bbolt.DB, changes []Change) error {
	return db.Update(func(tx *bbolt.Tx) error {
		about, newest := tx.Bucket(aboutBucket), []byte(strconv.Itoa(format))
		if !bytes.Equal(about.Get(formatKey), newest) {
			if err := about.Put(formatKey, newest); err != nil {
				return err
			}
		}
		records := tx.Bucket(recordsBucket)
		records.FillPercent = fill
		for _, c := range changes {
			if err := apply(records, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// fill is the fraction to which pages are filled. Most new records follow the existing ones.
const fill = 0.9

func apply(records *bbolt.Bucket, c Change) error {
	if c.Value == nil {
		return records.Delete([]byte(c.Key))
	}
	value := make([]byte, 4, 4+len(c.Value))
	binary.BigEndian.PutUint32(value, checksum(c.Key, c.Value))
	if err := records.Put([]byte(c.Key), append(value, c.Value...)); err != nil {
		return fmt.Errorf("the record %q: %w", c.Key, err)
	}
	return nil
}

// All returns the records whose keys begin with a prefix, sorted, as they were when the loop began.
// A record that cannot be read ends the loop, and Err returns the reason.
func (s *Store) All(prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		tx, err := s.begin()
		if err != nil {
			s.fail(err)
			return
		}
		size := 0
		defer func() {
			_ = tx.Rollback() // there is nothing to lose
			s.touch(size)
		}()
		var cursor *bbolt.Cursor
		for {
			var key string
			var value []byte
			found := false
			// A panic in the body of the loop is not a fault of the file.
			err := s.guarded(func() (err error) {
				if cursor == nil {
					cursor = tx.Bucket(recordsBucket).Cursor()
					key, value, found, err = record(cursor.Seek([]byte(prefix)))
				} else {
					key, value, found, err = record(cursor.Next())
				}
				return err
			})
			if err != nil {
				s.fail(err)
				return
			}
			size += len(value)
			if !found || !strings.HasPrefix(key, prefix) || !yield(key, value) {
				return
			}
		}
	}
}

// begin begins to read.
func (s *Store) begin() (tx *bbolt.Tx, err error) {
	s.swap.RLock()
	defer s.swap.RUnlock()
	err = s.guarded(func() (err error) {
		tx, err = s.db.Begin(false)
		return err
	})
	return tx, err
}

// record returns a copy of a record that a cursor has found.
func record(key, stored []byte) (string, []byte, bool, error) {
	if key == nil {
		return "", nil, false, nil
	}
	value, err := content(key, stored)
	return string(key), append([]byte{}, value...), true, err
}

// Err returns the reason why a loop over All ended early, or nil.
func (s *Store) Err() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.err
}

func (s *Store) fail(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err != nil {
		return
	}
	var d *damage
	if s.err = fmt.Errorf("cannot read the store %q: %w", s.path, err); errors.As(err, &d) {
		s.err = &DamagedError{Path: s.path, Err: d.err}
	}
}

// Close closes the file. It waits for commits and loops that have begun.
func (s *Store) Close() error {
	s.untouched()
	s.close.Do(func() { close(s.ending) })
	s.background.Wait()
	if err := s.closeFile(); err != nil {
		return fmt.Errorf("cannot close the store %q: %w", s.path, err)
	}
	return nil
}
