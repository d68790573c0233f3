package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errBound says that a submission already belongs to another job.
var errBound = errors.New("its submission belongs to another job")

// suffixOf is the suffix of the second name of an entry that belongs to a job.
func suffixOf(number int) string { return "." + strconv.Itoa(number) }

// cutFurther divides a name without its user ID into the key and the suffix of a further link, which is empty for an entry.
func cutFurther(name string) (key, further string) {
	i := strings.IndexByte(name, '.')
	if i < 0 {
		return name, ""
	}
	switch further = name[i:]; further {
	case suffixBound, suffixVerified:
		return name[:i], further
	}
	if n, err := strconv.Atoi(further[1:]); err != nil || n < 1 || suffixOf(n) != further {
		return name, ""
	}
	return name[:i], further
}

// Bind records that a submission belongs to a job, so that no other job can be started with it. It
// does not wait for the disk: after a power loss, an attacker who controls the front could start
// the job again under another number.
func (s *Submissions) Bind(uid uint32, key string, number int) error {
	return s.bind(entryName(uid, key), number)
}

// bind binds an entry to a job, with a second name or with a link to the number.
func (s *Submissions) bind(entry string, number int) error {
	s.binding.Lock()
	defer s.binding.Unlock()
	if err := s.isOf(entry, number); !errors.Is(err, fs.ErrNotExist) {
		return err // as for all tasks of a job but the first
	}
	if unix.Linkat(s.fd(), entry, s.fd(), entry+suffixOf(number), 0) == nil {
		if st, err := s.stat(entry); err == nil && st.Nlink > 1 { // the file system counts names
			return nil
		}
	}
	err := unix.Symlinkat(strconv.Itoa(number), s.fd(), entry+suffixBound)
	if !errors.Is(err, unix.EEXIST) {
		return os.NewSyscallError("symlinkat", err)
	}
	return s.isOf(entry, number)
}

// isOf refuses an entry that is bound to another job. The error is fs.ErrNotExist if it is bound to none.
func (s *Submissions) isOf(entry string, number int) error {
	st, err := s.stat(entry)
	switch {
	case errors.Is(err, fs.ErrNotExist): // Amend makes the link first
	case err != nil:
		return err
	case st.Nlink > 1:
		second, err := s.stat(entry + suffixOf(number))
		if errors.Is(err, fs.ErrNotExist) || err == nil && second.Ino != st.Ino {
			return errBound
		}
		return err
	}
	old, err := s.read(entry + suffixBound)
	if err == nil && old != strconv.Itoa(number) {
		err = fmt.Errorf("%w, %s", errBound, old)
	}
	return err
}

// isBound reports whether a job was started from an entry.
func (s *Submissions) isBound(entry string) bool {
	st, err := s.stat(entry)
	return err == nil && st.Nlink > 1 || !s.gone(entry+suffixBound)
}

// stat returns the attributes of a link.
func (s *Submissions) stat(name string) (st unix.Stat_t, err error) {
	if err = unix.Fstatat(s.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		err = &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return st, err
}
