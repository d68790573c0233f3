package jobdir

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
)

// Tmpdir identifies the TMPDIR of a job: its path, and the directory itself.
type Tmpdir struct {
	Path     string // absolute; the job's TMPDIR
	Dev, Ino uint64
}

// suffixAlphabet holds the 32 characters of a random suffix. 10 characters are 50 bits, which
// nobody can guess in advance.
const (
	suffixAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	suffixLength   = 10
)

func randomSuffix() (string, error) {
	var b [suffixLength]byte
	// getrandom(2) exists since Linux 3.17. It returns up to 256 bytes at once.
	err := retry(func() error {
		_, err := unix.Getrandom(b[:], 0)
		return err
	})
	if err != nil {
		return "", err
	}
	for i := range b {
		b[i] = suffixAlphabet[b[i]%32]
	}
	return string(b[:]), nil
}

func isSuffix(s string) bool {
	return len(s) == suffixLength && strings.Trim(s, suffixAlphabet) == ""
}

// MakeTmpdir creates the directory name below the tmpdir of a queue for a user, closed to others.
// It never uses an existing entry. If the name is taken, the directory gets a random suffix, so
// that no user can prevent the start of a job. Without root's rights the directory belongs to the
// effective user.
//
// Like the original, MakeTmpdir creates a missing tmpdir of a queue, with mode 0755. It refuses a
// tmpdir in which others may replace entries: the sticky bit is required. Every component of its
// path must belong to root, to the effective user or to one of trusted (user IDs); MakeTmpdir
// follows their links.
func MakeTmpdir(queueTmpdir, name string, uid, gid int, trusted ...int) (Tmpdir, error) {
	return makeTmpdir(queueTmpdir, name, "", uid, gid, trusted, func(Tmpdir, int) error { return nil })
}

// AsideName returns a unique name similar to that of a TMPDIR, for Dir.MakeTmpdir. It is empty if
// that name would be too long.
func AsideName(name string) (string, error) {
	suffix, err := randomSuffix()
	if aside := name + "." + suffix; len(aside) <= mostName {
		return aside, err
	}
	return "", err
}

// mostName is NAME_MAX.
const mostName = 255

// MakeTmpdir calls the function MakeTmpdir for the job of the directory, and records the TMPDIR, as
// WriteTmpdir does, before its user can access it.
//
// If root's process is killed before that, it leaves an empty directory of root, which SweepTmpdir
// removes. Without root's rights the directory would belong to the user at once. MakeTmpdir then
// creates it under the name aside, which the caller has recorded before, and renames it.
// RemoveAside removes the directory if the process is killed in between. Without aside (empty)
// there is no such step.
func (d *Dir) MakeTmpdir(queueTmpdir, name, aside string, uid, gid int, trusted ...int) (Tmpdir, error) {
	return d.MakeLimitedTmpdir(queueTmpdir, name, aside, uid, gid, nil, trusted...)
}

// MakeLimitedTmpdir does what MakeTmpdir does. In between it calls limit with a descriptor of the
// directory, which is then recorded, and closed to its user.
func (d *Dir) MakeLimitedTmpdir(queueTmpdir, name, aside string, uid, gid int, limit func(fd int) error, trusted ...int) (Tmpdir, error) {
	t, err := makeTmpdir(queueTmpdir, name, aside, uid, gid, trusted, d.recordThen(d.WriteTmpdir, limit))
	if err != nil {
		_ = d.Remove(FileTmpdir)
	}
	return t, err
}

// recordThen returns a function that records a directory, and then calls limit, which may be nil.
func (d *Dir) recordThen(record func(Tmpdir) error, limit func(fd int) error) func(Tmpdir, int) error {
	return func(t Tmpdir, fd int) error {
		err := record(t)
		if err == nil && limit != nil && fd >= 0 {
			err = limit(fd)
		}
		return err
	}
}

func makeTmpdir(queueTmpdir, name, aside string, uid, gid int, trusted []int, made func(Tmpdir, int) error) (Tmpdir, error) {
	path := strings.TrimRight(queueTmpdir, "/") + "/" + name
	if !plainName(name) {
		return Tmpdir{}, &Error{"create directory", path, errors.New(quote(name) + " is not a name of a directory")}
	}
	parent, err := walker{trusted: trusted, create: 0o755}.open(queueTmpdir)
	if err != nil {
		return Tmpdir{}, err
	}
	defer unix.Close(parent)
	if aside != "" {
		return makeAside(parent, path, aside, uid, gid, made)
	}
	suffix, err := mkdirNew(parent, name)
	if err != nil {
		return Tmpdir{}, &Error{"create directory", path, err}
	}
	t := Tmpdir{Path: path + suffix}
	if err := t.handOver(parent, name+suffix, uid, gid, made); err != nil {
		// The directory is empty and belongs to the effective user: the sticky bit prevents others
		// from replacing it before it is handed over.
		_ = unix.Unlinkat(parent, name+suffix, unix.AT_REMOVEDIR)
		return Tmpdir{}, &Error{"create directory", t.Path, err}
	}
	return t, nil
}

// makeAside creates the directory path in parent under the name aside first. The directory keeps
// that name if its own is taken.
func makeAside(parent int, path, aside string, uid, gid int, made func(Tmpdir, int) error) (Tmpdir, error) {
	i := strings.LastIndexByte(path, '/') + 1
	t := Tmpdir{Path: path}
	if err := unix.Mkdirat(parent, aside, 0o700); err != nil {
		return Tmpdir{}, &Error{"create directory", path[:i] + aside, err}
	}
	err := t.handOver(parent, aside, uid, gid, made)
	// Not all file systems support renaming without replacing (renameat2(2)).
	if err == nil && unix.Renameat2(parent, aside, parent, path[i:], unix.RENAME_NOREPLACE) != nil {
		t.Path = path[:i] + aside
		err = made(t, -1)
	}
	if err != nil {
		_ = unix.Unlinkat(parent, aside, unix.AT_REMOVEDIR)
		return Tmpdir{}, &Error{"create directory", path, err}
	}
	return t, nil
}

// mkdirNew creates a directory of that name, with a random suffix if the name is taken.
func mkdirNew(parent int, name string) (suffix string, err error) {
	for range 100 {
		err = unix.Mkdirat(parent, name+suffix, 0o700)
		if !errors.Is(err, unix.EEXIST) {
			return suffix, err
		}
		if suffix, err = randomSuffix(); err != nil {
			return "", err
		}
		suffix = "." + suffix
		if over := len(name) + len(suffix) - mostName; over > 0 {
			return "", unix.ENAMETOOLONG
		}
	}
	return "", unix.EEXIST
}

func (t *Tmpdir) handOver(parent int, name string, uid, gid int, made func(Tmpdir, int) error) error {
	fd, err := openat(parent, name, openDirFlags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != unix.Geteuid() {
		return errors.New("it was replaced by one of user ID " + itoa(int(st.Uid)))
	}
	t.Dev, t.Ino = st.Dev, st.Ino
	failpoint.At("jobdir-tmpdir-made")
	if err := made(*t, fd); err != nil {
		return err
	}
	failpoint.At("jobdir-tmpdir-recorded")
	if unix.Geteuid() == 0 {
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, 0o700) // the directory may have inherited the parent's setgid bit
}

// FileTmpdir is an additional file in a job directory. It identifies the directory of the TMPDIR,
// so that no other directory is removed in its place.
const FileTmpdir = "tmpdir"

// WriteTmpdir records the TMPDIR of a job.
func (d *Dir) WriteTmpdir(t Tmpdir) error { return d.WriteFile(FileTmpdir, t.Format()) }

// Format returns the record of a TMPDIR, the content of the file that WriteTmpdir writes.
func (t Tmpdir) Format() []byte {
	return []byte(strconv.FormatUint(t.Dev, 10) + " " + strconv.FormatUint(t.Ino, 10) + " " + escape(t.Path) + "\n")
}

// Tmpdir reads the record that WriteTmpdir has written. If there is none, errors.Is(err,
// fs.ErrNotExist) holds.
func (d *Dir) Tmpdir() (Tmpdir, error) { return d.readTmpdir(FileTmpdir) }

func (d *Dir) readTmpdir(file string) (Tmpdir, error) {
	b, err := d.ReadFile(file)
	if err != nil {
		return Tmpdir{}, err
	}
	f := strings.SplitN(strings.TrimSuffix(string(b), "\n"), " ", 3)
	if len(f) == 3 {
		dev, err1 := strconv.ParseUint(f[0], 10, 64)
		ino, err2 := strconv.ParseUint(f[1], 10, 64)
		if err1 == nil && err2 == nil && strings.HasPrefix(f[2], "/") {
			return Tmpdir{Path: unescape(f[2]), Dev: dev, Ino: ino}, nil
		}
	}
	return Tmpdir{}, &SyntaxError{File: d.file(file), Line: 1, Problem: quote(string(b)) + " is not device, inode and path"}
}
