package jobdir

import (
	"bytes"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// modeScript lets only the owner of a script read and execute it. Everybody on the host can read
// the original's scripts.
const modeScript = 0o500

// aclAttribute is the extended attribute of a file's access control list (acl(5)).
const aclAttribute = "system.posix_acl_access"

// scriptACL returns the access control list of a script: besides its owner, one user may read and
// execute it. The format is the kernel's (linux/posix_acl_xattr.h): a version, and a tag,
// permissions and an ID for each entry, in little endian.
func scriptACL(uid int) []byte {
	const owner, user, group, mask, other = 0x01, 0x02, 0x04, 0x10, 0x20
	const nothing, nobody = 0, 1<<32 - 1
	b := []byte{2, 0, 0, 0}
	entry := func(tag, permissions byte, id uint32) {
		b = append(b, tag, 0, permissions, 0, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	entry(owner, modeScript>>6, nobody)
	entry(user, modeScript>>6, uint32(uid))
	entry(group, nothing, nobody)
	entry(mask, modeScript>>6, nobody)
	entry(other, nothing, nobody)
	return b
}

// give lets a user read and execute a script. The file remains root's: an owner could write to it,
// and fill the file system of the spool area for everybody. Only on a file system without access
// control lists the user becomes the owner.
func give(fd, uid, gid int) error {
	err := unix.Fsetxattr(fd, aclAttribute, scriptACL(uid), 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return unix.Fchown(fd, uid, gid)
	}
	return err
}

// isGiven reports whether a user may execute a script by ownership or access control list.
func isGiven(fd int, st *unix.Stat_t, uid int) bool {
	if int(st.Uid) == uid {
		return true
	}
	want := scriptACL(uid)
	got := make([]byte, len(want)+1)
	n, err := unix.Fgetxattr(fd, aclAttribute, got)
	return st.Uid == 0 && err == nil && bytes.Equal(got[:n], want)
}

// WriteScript stores the script of a job, of any content, for a user, and returns its path. Array
// tasks share the script of their job: if it exists, the error is ErrExists, and the existing
// script is complete.
//
// The user can read and execute the script, and not write to it: shells read a script while it
// runs. gid is used only on file systems without access control lists, where the file becomes the
// user's.
func (s *Spool) WriteScript(job int, data []byte, uid, gid int) (path string, err error) {
	path = s.ScriptPath(job)
	if job < 1 {
		return "", &Error{"write script", path, errors.New("there is no such job number")}
	}
	if err := s.writeScript(itoa(job), data, uid, gid); err != nil {
		if errors.Is(err, unix.EEXIST) {
			err = ErrExists
		}
		return "", &Error{"write script", path, err}
	}
	return path, nil
}

func (s *Spool) writeScript(name string, data []byte, uid, gid int) error {
	if err := s.step("script"); err != nil {
		return err
	}
	fd, temp, err := s.fillScript(name, data)
	if temp != "" {
		defer func() { _ = unix.Unlinkat(s.scripts, temp, 0) }()
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = retry(func() error { return unix.Fsync(fd) })
	if err == nil && unix.Geteuid() == 0 {
		err = give(fd, uid, gid)
	}
	if err == nil {
		err = s.step("script link")
	}
	if err == nil {
		// Unlike rename(2), link(2) does not replace an existing file.
		if temp == "" {
			err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+itoa(fd), s.scripts, name, unix.AT_SYMLINK_FOLLOW)
		} else {
			err = unix.Linkat(s.scripts, temp, s.scripts, name, 0)
		}
	}
	if err == nil {
		err = retry(func() error { return unix.Fsync(s.scripts) })
	}
	return err
}

// fillScript makes a script without a name, and opens it for reading. If the file system does not
// support that, the script has a temporary name.
//
// No process is forked during this time: a child that inherits the file open for writing would
// prevent the job from executing it, until the child executes its own program (execve(2), ETXTBSY).
func (s *Spool) fillScript(name string, data []byte) (fd int, temp string, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	// The kernel removes a file without a name if this process dies before the script is complete.
	w, err := openat(s.scripts, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, modePrivate)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) { // NFS; before Linux 3.11
		w, temp, err = s.tempScript(name)
	}
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(w)
	if err := fill(w, data, modeScript, false); err != nil {
		return -1, temp, err
	}
	// The path of the descriptor: a file without a name cannot be opened in any other way.
	fd, err = openat(unix.AT_FDCWD, "/proc/self/fd/"+itoa(w), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fd, temp, err
}

// tempScript makes a file for a script under a temporary name.
func (s *Spool) tempScript(name string) (fd int, temp string, err error) {
	suffix, err := randomSuffix()
	if err != nil {
		return -1, "", err
	}
	temp = "." + name + "." + suffix
	fd, err = openat(s.scripts, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|openFlags, modePrivate)
	if err != nil {
		temp = ""
	}
	return fd, temp, err
}

// HasScript reports whether the script of a job exists with this content and, if this process is
// root, whether it belongs to this user.
func (s *Spool) HasScript(job int, data []byte, uid int) (bool, error) {
	fd, err := openat(s.scripts, itoa(job), unix.O_RDONLY|openFlags, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, &Error{"read script", s.ScriptPath(job), err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (!isRegular(st.Mode) || st.Size != int64(len(data)) || unix.Geteuid() == 0 && !isGiven(fd, &st, uid)) {
		return false, nil
	}
	var b []byte
	if err == nil {
		b, err = readAll(fd, len(data), len(data))
	}
	if err != nil {
		return false, &Error{"read script", s.ScriptPath(job), err}
	}
	return string(b) == string(data), nil
}

// RemoveScript removes the script of a job. It is no error if there is none. Processes that already
// execute it are unaffected.
func (s *Spool) RemoveScript(job int) error {
	if err := unix.Unlinkat(s.scripts, itoa(job), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &Error{"remove script", s.ScriptPath(job), err}
	}
	return nil
}

// Scripts lists the jobs that have a script.
func (s *Spool) Scripts() ([]int, error) {
	names, err := list(s.scripts)
	if err != nil {
		return nil, &Error{"read directory", s.path + "/" + dirJobScripts, err}
	}
	var numbers []int
	for _, name := range names {
		if n := positive(name); n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}
