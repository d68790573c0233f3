package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// create atomically creates the file if it does not exist. Two processes that do so at the same
// time get the same file.
func create(path string) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), begunPrefix(path))
	if err != nil {
		return err
	}
	mark, err := lockDirectory(dir)
	if err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	begun := filepath.Join(dir, begunName)
	defer func() { err = errors.Join(err, removeBegun(dir), mark.Close()) }()
	if err := begin(begun); err != nil {
		return err
	}
	if err := os.Link(begun, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// A new file is first written under this name in a directory next to its final place. The process
// that writes it holds a lock on the directory.
const begunName = "new"

func begunPrefix(path string) string { return "." + filepath.Base(path) + "-" }

func removeBegun(dir string) error {
	if err := os.Remove(filepath.Join(dir, begunName)); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may not have been made
		return err
	}
	return os.Remove(dir)
}

// lockDirectory locks a directory until the result is closed. The error is EWOULDBLOCK if another
// process holds the lock.
func lockDirectory(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "flock", Path: dir, Err: err}, f.Close())
	}
	return f, nil
}

// removeStale removes the directories of processes that were killed while they created the file.
func removeStale(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, is := strings.CutPrefix(e.Name(), begunPrefix(path))
		if !is || !e.IsDir() || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		dir := filepath.Join(filepath.Dir(path), e.Name())
		mark, lockErr := lockDirectory(dir)
		if lockErr != nil { // another process is creating the file, or has removed the directory
			continue
		}
		if e := errors.Join(removeBegun(dir), mark.Close()); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// begin makes a file without records, and has it on the disk.
func begin(path string) error {
	db, err := bbolt.Open(path, mode, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		about, err := tx.CreateBucket(aboutBucket)
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucket(recordsBucket); err != nil {
			return err
		}
		return about.Put(formatKey, []byte(strconv.Itoa(format)))
	})
	return errors.Join(err, db.Close())
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// The first page of a file of bbolt and the second are alike: a head of 16 bytes, and then
//
//	magic, version, page size, flags: 4 bytes each
//	root page, sequence, page of the free list, pages, transaction: 8 bytes each
//	checksum (FNV-1a, 64 bits) of all that: 8 bytes
//
// in the byte order of the machine. The valid one with the later transaction counts.
const (
	headSize  = 16
	metaSize  = 4*4 + 6*8
	metaMagic = 0xED0CDAED
)

// lookAtFile checks that the file has at least the length that its header states: bbolt maps it
// into memory, and access to missing pages would end the process. It also removes the access rights
// of other users.
func lookAtFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(lookAt(f), f.Close())
}

func lookAt(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is not a file")
	case info.Size() == 0:
		return damaged("it is empty")
	case info.Mode().Perm() != mode:
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	best, err := readMeta(f, 0)
	if err != nil {
		return err
	}
	// The first page gives the position of the second. Other positions are tried only if the first
	// page is damaged, because data of users may look like a page there.
	from, to := best.pageSize, best.pageSize
	if best.pageSize == 0 {
		from, to = 512, 1<<16
	}
	for size := from; size <= to; size *= 2 {
		m, err := readMeta(f, size)
		if err != nil {
			return err
		}
		if m.pageSize == size && m.transaction >= best.transaction {
			best = m
		}
	}
	switch {
	case best.pageSize == 0:
		return damaged("neither of its first pages is valid")
	case best.pages > uint64(info.Size()/best.pageSize):
		return damaged("it has %d bytes and should have %d pages of %d", info.Size(), best.pages, best.pageSize)
	}
	return nil
}

type meta struct {
	pageSize           int64
	pages, transaction uint64
}

// readMeta reads one of the first pages; it is empty if that is not valid.
func readMeta(f io.ReaderAt, at int64) (meta, error) {
	b := make([]byte, metaSize)
	if _, err := f.ReadAt(b, at+headSize); errors.Is(err, io.EOF) {
		return meta{}, nil
	} else if err != nil {
		return meta{}, err
	}
	order := binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	if order.Uint32(b) != metaMagic || order.Uint64(b[metaSize-8:]) != sum.Sum64() {
		return meta{}, nil
	}
	m := meta{pageSize: int64(order.Uint32(b[8:])), pages: order.Uint64(b[40:]), transaction: order.Uint64(b[48:])}
	if m.pageSize < 512 || m.pageSize > 1<<16 {
		return meta{}, nil
	}
	return m, nil
}
