package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
)

// The file grows with its contents and reuses its pages, but never shrinks. If more than half of it
// is free, the store copies all records to a new file, which then replaces it. Commits continue
// during the copying; their records are added to the copy at its end.
const (
	// wasted is how many bytes may be free in any case.
	wasted = 4 << 20
	// rest is how long nothing is copied after that, restAfterFailure after it has failed.
	rest             = 10 * time.Second
	restAfterFailure = time.Minute
	// portion is how many bytes are copied at a time, and how many may be written to the copy
	// while commits wait.
	portion = 1 << 20
	// copySuffix is the suffix of the copy until it replaces the file.
	copySuffix = ".new"
)

// spare returns the disk space, in bytes, that the file sets aside. With it, records can still be
// removed and overwritten on a full disk: this takes new pages before it frees the old ones.
func spare(used int64) int64 {
	const least, part = 1 << 20, 8
	return max(least, used/part)
}

// settle checks the size of the file after a write. The caller holds commits.
func (s *Store) settle() {
	used, free := s.sizes()
	s.setAside(used, free)
	if s.shrinking || !wasteful(used, free) {
		return
	}
	s.shrinking = true
	s.background.Go(s.shrink)
}

func wasteful(used, free int64) bool { return free > wasted && free > used/2 }

// sizes returns the file's size and its free space, both in bytes. The caller holds commits.
func (s *Store) sizes() (used, free int64) {
	err := s.guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			n := s.db.Stats()
			used, free = tx.Size(), int64(n.FreePageN+n.PendingPageN)*int64(s.db.Info().PageSize)
			return nil
		})
	})
	if err != nil {
		return 0, 0
	}
	return used, free
}

// setAside reserves blocks of the file system after the end of the file, at most an eighth of the
// free space. It reserves none if the file system cannot, or if there is too little space to be
// useful.
func (s *Store) setAside(used, free int64) {
	n := spare(used)
	if free >= n || s.ahead >= used+n/2 {
		return
	}
	const part, least = 8, 128 << 10
	var left unix.Statfs_t
	fd := int(s.file.Fd())
	if unix.Fstatfs(fd, &left) != nil {
		return
	}
	if n = min(n, int64(left.Bavail)*left.Frsize/part); n < least || s.ahead >= used+n/2 {
		return
	}
	if unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, used, n) == nil {
		s.ahead = used + n
	}
}

// shrink copies the file until that has succeeded, or is not worth while any more.
func (s *Store) shrink() {
	s.commits.Lock()
	wait := time.Until(s.tried.Add(rest))
	s.commits.Unlock()
	for s.pause(wait) {
		err := s.compact()
		s.commits.Lock()
		s.tried = time.Now()
		s.shrinking = err != nil && wasteful(s.sizes())
		again := s.shrinking
		s.commits.Unlock()
		if err != nil && !errors.Is(err, errEnds) {
			s.say(fmt.Errorf("cannot shrink the store %q: %w", s.path, cause(err)))
		}
		if wait = restAfterFailure; !again {
			return
		}
	}
}

// pause waits, and reports false if the store is closed meanwhile.
func (s *Store) pause(d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-s.ending:
		return false
	case <-timer.C:
		return !s.ends()
	}
}

func (s *Store) ends() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

var (
	errEnds    = errors.New("the store is being closed")
	errSpoiled = errors.New("a commit has failed in the meantime")
)

// Report sets the function that receives errors of the store's background work. The store calls it
// from another goroutine.
func (s *Store) Report(say func(error)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.report = say
}

func (s *Store) say(err error) {
	s.mutex.Lock()
	say := s.report
	s.mutex.Unlock()
	if say != nil {
		say(err)
	}
}

// compact replaces the file by a copy of its records.
func (s *Store) compact() (err error) {
	s.commits.Lock()
	s.copying, s.logged, s.spoiled = true, nil, false
	s.commits.Unlock()
	defer func() {
		s.commits.Lock()
		defer s.commits.Unlock()
		s.copying, s.logged = false, nil
	}()
	next := &Store{path: s.path + copySuffix}
	if err := s.removeCopy(); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if next.db != nil {
			err = errors.Join(err, next.closeFile())
		}
		err = errors.Join(err, s.removeCopy())
	}()
	failpoint.At("store-compact")
	err = next.guarded(func() (err error) {
		if next.db, err = openDB(next.path, &next.file); err != nil {
			return err
		}
		next.db.NoSync = true
		return s.copyTo(next)
	})
	if err != nil {
		return err
	}
	failpoint.At("store-copied")
	return s.replaceBy(next)
}

// copyTo copies all records. Each is copied in the state of some moment during the copying; changes
// since the beginning are logged. It uses short transactions, because commits have to wait for them
// when the file grows.
func (s *Store) copyTo(next *Store) error {
	if err := s.copyPart(next, aboutBucket, nil, new([]byte)); err != nil {
		return err
	}
	for after, last := []byte(nil), []byte(nil); ; after = last {
		if s.ends() {
			return errEnds
		}
		last = nil
		if err := s.copyPart(next, recordsBucket, after, &last); err != nil {
			return err
		}
		if last == nil {
			return next.db.Sync()
		}
	}
}

// copyPart copies a portion of a bucket's records after a key. It sets last to the key of the last
// copied record, or to nil at the end.
func (s *Store) copyPart(next *Store, bucket, after []byte, last *[]byte) error {
	tx, err := s.begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return next.db.Update(func(to *bbolt.Tx) error {
		b, err := to.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		b.FillPercent = fill
		return s.guarded(func() error {
			cursor := tx.Bucket(bucket).Cursor()
			key, value := cursor.Seek(after)
			if after != nil && bytes.Equal(key, after) {
				key, value = cursor.Next()
			}
			for size := 0; key != nil && size < portion; key, value = cursor.Next() {
				if bytes.Equal(bucket, recordsBucket) {
					if _, err := content(key, value); err != nil {
						return err
					}
				}
				if err := b.Put(key, value); err != nil {
					return err
				}
				*last, size = bytes.Clone(key), size+len(key)+len(value)
			}
			return nil
		})
	})
}

// replaceBy brings the copy up to date and replaces the file by it. Commits wait only for the last
// part of that.
func (s *Store) replaceBy(next *Store) error {
	for {
		s.commits.Lock()
		if s.spoiled {
			s.commits.Unlock()
			return errSpoiled
		}
		log, size := s.logged, 0
		s.logged = nil
		for _, c := range log {
			size += len(c.Key) + len(c.Value)
		}
		if size <= portion {
			defer s.commits.Unlock()
			return s.finish(next, log)
		}
		s.commits.Unlock()
		err := next.guarded(func() error { return errors.Join(update(next.db, log), next.db.Sync()) })
		if err != nil {
			return err
		}
	}
}

// finish makes the last changes to the copy, which is the file from then on. The caller holds
// commits.
func (s *Store) finish(next *Store, log []Change) error {
	err := next.guarded(func() error {
		next.db.NoSync = false
		return errors.Join(update(next.db, log), next.db.Sync())
	})
	if err != nil {
		return err
	}
	failpoint.At("store-copy-synced")
	if err := os.Rename(next.path, s.path); err != nil {
		return err
	}
	failpoint.At("store-renamed")
	former := &Store{db: s.db, file: s.file}
	s.swap.Lock()
	s.db, s.file, s.ahead = next.db, next.file, 0
	s.swap.Unlock()
	if err := syncDirectory(filepath.Dir(s.path)); err != nil {
		// After a power loss the previous file may be in place, without later commits.
		s.die(fmt.Errorf("cannot replace the file by a smaller one: %w", cause(err)))
		return nil
	}
	failpoint.At("store-replaced")
	used, free := s.sizes()
	s.setAside(used, free)
	s.background.Go(func() { // when the loops over it have ended
		if err := former.closeFile(); err != nil {
			s.say(fmt.Errorf("cannot close the previous store %q: %w", s.path, err))
		}
	})
	return nil
}

// closeFile closes the file. It waits for transactions.
func (s *Store) closeFile() error {
	s.mutex.Lock()
	dead := s.dead
	s.mutex.Unlock()
	if dead != nil {
		return abandon(s.file) // bbolt may have locks that are never released
	}
	return s.db.Close()
}

// removeCopy removes an incomplete copy.
func (s *Store) removeCopy() error {
	if err := os.Remove(s.path + copySuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
