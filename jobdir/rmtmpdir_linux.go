package jobdir

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RemoveOptions are the options for removing a TMPDIR.
type RemoveOptions struct {
	// UID and GID are the user and group of the directory. Root removes with the rights of this
	// user everything that the user can remove, and the remaining entries with its own rights.
	UID, GID int
	// Owners are the user IDs of prolog and epilog. Root empties their directories in the TMPDIR,
	// in addition to root's and the user's own. Other users' directories stay: the user may have
	// moved them here from a place where the user could not remove them.
	Owners []int
	// Timeout limits the removal if another process keeps writing; 0 is a minute.
	Timeout time.Duration
	// Trusted are owners of the queue's tmpdir, as in MakeTmpdir.
	Trusted []int
	// empty removes only an empty directory, and is for SweepPrivateTmp.
	empty bool
}

// LeftError is the error if a TMPDIR could not be removed completely.
type LeftError struct {
	Path  string
	Names []string // some of the remaining entries
	Err   error    // why the first of them remains
}

func (e *LeftError) Error() string {
	var s strings.Builder
	s.WriteString("cannot remove " + e.Path + " completely: " + e.Err.Error())
	if len(e.Names) > 0 {
		s.WriteString("; left are ")
		for i, n := range e.Names {
			if i > 0 {
				s.WriteString(", ")
			}
			s.WriteString(quote(n))
		}
	}
	return s.String()
}

// Unwrap returns the cause.
func (e *LeftError) Unwrap() error { return e.Err }

// ErrNotOurs is the error if a path leads to something other than the directory that was created
// there. It was not touched.
var ErrNotOurs = errors.New("it is not the directory that was made for the job")

// RemoveTmpdir removes the TMPDIR of a job with its contents, whatever the user has done to them.
// It follows no link, enters no mount, and removes nothing outside. It is no error if the directory
// no longer exists.
//
// All processes of the job should have exited. If a process keeps writing until the timeout, or
// something cannot be removed, the error is a *LeftError.
func RemoveTmpdir(t Tmpdir, o RemoveOptions) error {
	i := strings.LastIndexByte(t.Path, '/')
	if !strings.HasPrefix(t.Path, "/") || !plainName(t.Path[i+1:]) {
		return &Error{"remove", t.Path, errors.New("it is not an absolute path of a directory")}
	}
	parent, err := walker{trusted: o.Trusted}.open("/" + t.Path[:i])
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return removeTmpdir(parent, t.Path[i+1:], t, o)
}

// SweepTmpdir removes a TMPDIR that a crash left behind and of which only the name is known. It
// removes directories of that name, with and without a random suffix, that belong to the user, or
// to the effective user because they were not handed over yet.
func SweepTmpdir(queueTmpdir, name string, o RemoveOptions) error {
	dir := strings.TrimRight(queueTmpdir, "/")
	if !plainName(name) {
		return &Error{"remove", dir + "/" + name, unix.EINVAL}
	}
	parent, err := walker{trusted: o.Trusted}.open(queueTmpdir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	names, err := list(parent)
	if err != nil {
		return &Error{"read directory", queueTmpdir, err}
	}
	for _, n := range names {
		rest, ok := strings.CutPrefix(n, name)
		if !ok || (rest != "" && (rest[0] != '.' || !isSuffix(rest[1:]))) {
			continue
		}
		var st unix.Stat_t
		if e := unix.Fstatat(parent, n, &st, unix.AT_SYMLINK_NOFOLLOW); e != nil || !isDir(st.Mode) {
			continue
		}
		if owner := int(st.Uid); owner != o.UID && owner != unix.Geteuid() {
			continue
		}
		if o.empty {
			_ = unix.Unlinkat(parent, n, unix.AT_REMOVEDIR)
			continue
		}
		t := Tmpdir{Path: dir + "/" + n, Dev: st.Dev, Ino: st.Ino}
		if e := removeTmpdir(parent, n, t, o); err == nil {
			err = e
		}
	}
	return err
}

// RemoveAside removes the empty directory aside that is left if a process without root's rights was
// killed while it made a TMPDIR. It is no error if there is none.
func RemoveAside(queueTmpdir, aside string, o RemoveOptions) error {
	path := strings.TrimRight(queueTmpdir, "/") + "/" + aside
	if !plainName(aside) {
		return &Error{"remove", path, unix.EINVAL}
	}
	parent, err := walker{trusted: o.Trusted}.open(queueTmpdir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if err := unix.Unlinkat(parent, aside, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &Error{"remove", path, err}
	}
	return nil
}

func removeTmpdir(parent int, name string, t Tmpdir, o RemoveOptions) error {
	top, err := openBeneath(parent, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	var st unix.Stat_t
	if err == nil {
		defer unix.Close(top)
		err = unix.Fstat(top, &st)
	} else if notADirectory(err) || errors.Is(err, unix.EXDEV) {
		err = ErrNotOurs
	}
	if err == nil && (st.Dev != t.Dev || st.Ino != t.Ino) {
		err = ErrNotOurs
	}
	if err != nil {
		return &Error{"remove", t.Path, err}
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	r := remover{levels: mostLevels, deadline: time.Now().Add(timeout)}
	if unix.Geteuid() == 0 && o.UID != 0 {
		asUser := r
		asUser.chmod = true
		if withIdentity(o.UID, o.GID, func() { err = asUser.whole(parent, name, top, t) }) == nil && err == nil {
			return nil
		}
		r.owners = append([]int{o.UID, 0}, o.Owners...)
	} else {
		r.chmod = true
	}
	if err = r.whole(parent, name, top, t); err == nil {
		return nil
	}
	return &LeftError{Path: t.Path, Names: r.left(top), Err: err}
}

// whole empties the directory, and removes it if it is still at its place. The user, who owns the
// directory, may move it; then whole removes only its contents.
func (r *remover) whole(parent int, name string, top int, t Tmpdir) error {
	if err := r.emptyPath(top); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || (err == nil && (st.Dev != t.Dev || st.Ino != t.Ino)) {
		return nil
	}
	if err == nil {
		// Between the check and this call only the owner can put another directory here, and rmdir
		// removes it only if it is empty.
		err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
