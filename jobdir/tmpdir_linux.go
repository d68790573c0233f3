package jobdir

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
)

// Tmpdir is the TMPDIR of a job: where it is, and which directory it is.
type Tmpdir struct {
	Path     string // absolute, what the job is told
	Dev, Ino uint64
}

// suffixAlphabet are the 32 characters of a random suffix; 10 of them are 50
// bits, which nobody creates in advance.
const (
	suffixAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	suffixLength   = 10
)

func randomSuffix() (string, error) {
	var b [suffixLength]byte
	// Linux 3.17. Up to 256 bytes come at once.
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

// MakeTmpdir makes the directory name below the tmpdir of a queue for a user,
// closed to others. Nothing that is there already is ever used, whatever it is:
// if the name is taken the directory gets a random suffix, so that nobody can
// keep a job from starting either. Without privileges the directory belongs to
// whoever we are.
//
// A missing tmpdir of a queue is made, as by the original, with mode 0755. One
// in which others may exchange entries is refused: they need the sticky bit.
// Every component of its path must belong to root, to whoever we are or to one
// of trusted; links of theirs are followed.
func MakeTmpdir(queueTmpdir, name string, uid, gid int, trusted ...int) (Tmpdir, error) {
	return makeTmpdir(queueTmpdir, name, "", uid, gid, trusted, func(Tmpdir) error { return nil })
}

// AsideName returns a name next to that of a TMPDIR that nobody else has, for Dir.MakeTmpdir;
// empty where there is none.
func AsideName(name string) (string, error) {
	suffix, err := randomSuffix()
	if aside := name + "." + suffix; len(aside) <= mostName {
		return aside, err
	}
	return "", err
}

// mostName is NAME_MAX.
const mostName = 255

// MakeTmpdir calls the function MakeTmpdir for the job of the directory, which has
// recorded the TMPDIR, as by WriteTmpdir, before its user can get at it. What a
// process that was killed before that has left as root is empty and still root's:
// see SweepTmpdir. Without root it would be the user's at once: so it is made under the
// name aside, which the caller has written down before, and then gets its own. What such
// a process has left is for RemoveAside. An empty aside is for none.
func (d *Dir) MakeTmpdir(queueTmpdir, name, aside string, uid, gid int, trusted ...int) (Tmpdir, error) {
	t, err := makeTmpdir(queueTmpdir, name, aside, uid, gid, trusted, d.WriteTmpdir)
	if err != nil {
		_ = d.Remove(FileTmpdir)
	}
	return t, err
}

func makeTmpdir(queueTmpdir, name, aside string, uid, gid int, trusted []int, made func(Tmpdir) error) (Tmpdir, error) {
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
		// It is empty, and it is ours: a sticky bit keeps others from
		// replacing it until it is handed over.
		_ = unix.Unlinkat(parent, name+suffix, unix.AT_REMOVEDIR)
		return Tmpdir{}, &Error{"create directory", t.Path, err}
	}
	return t, nil
}

// makeAside makes the directory path in parent under another name first. It keeps that
// one where its own is taken.
func makeAside(parent int, path, aside string, uid, gid int, made func(Tmpdir) error) (Tmpdir, error) {
	i := strings.LastIndexByte(path, '/') + 1
	t := Tmpdir{Path: path}
	if err := unix.Mkdirat(parent, aside, 0o700); err != nil {
		return Tmpdir{}, &Error{"create directory", path[:i] + aside, err}
	}
	err := t.handOver(parent, aside, uid, gid, made)
	// Not all file systems can do it without replacing what is there (renameat2(2)).
	if err == nil && unix.Renameat2(parent, aside, parent, path[i:], unix.RENAME_NOREPLACE) != nil {
		t.Path = path[:i] + aside
		err = made(t)
	}
	if err != nil {
		_ = unix.Unlinkat(parent, aside, unix.AT_REMOVEDIR)
		return Tmpdir{}, &Error{"create directory", path, err}
	}
	return t, nil
}

// mkdirNew makes a directory of that name, with a suffix if the name is taken.
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

func (t *Tmpdir) handOver(parent int, name string, uid, gid int, made func(Tmpdir) error) error {
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
		return errors.New("it was replaced by one of user id " + itoa(int(st.Uid)))
	}
	t.Dev, t.Ino = st.Dev, st.Ino
	failpoint.At("jobdir-tmpdir-made")
	if err := made(*t); err != nil {
		return err
	}
	failpoint.At("jobdir-tmpdir-recorded")
	if unix.Geteuid() == 0 {
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, 0o700) // a setgid bit may have come from the parent
}

// FileTmpdir is a file of ours in a job directory: which directory the TMPDIR
// is, so that no other is ever removed in its place.
const FileTmpdir = "tmpdir"

// WriteTmpdir records the TMPDIR of a job.
func (d *Dir) WriteTmpdir(t Tmpdir) error { return d.WriteFile(FileTmpdir, t.Format()) }

// Format returns the record of a TMPDIR as WriteTmpdir writes it.
func (t Tmpdir) Format() []byte {
	return []byte(strconv.FormatUint(t.Dev, 10) + " " + strconv.FormatUint(t.Ino, 10) + " " + escape(t.Path) + "\n")
}

// Tmpdir reads what WriteTmpdir has recorded; errors.Is(err, fs.ErrNotExist)
// tells that there is nothing.
func (d *Dir) Tmpdir() (Tmpdir, error) {
	b, err := d.ReadFile(FileTmpdir)
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
	return Tmpdir{}, &SyntaxError{File: d.file(FileTmpdir), Line: 1, Problem: quote(string(b)) + " is not device, inode and path"}
}
