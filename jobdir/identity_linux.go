package jobdir

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// withIdentity calls f with the rights of a user on files. The kernel keeps the
// ids for file access per thread (setfsuid(2)), so the rest of the process stays
// what it is; leaving root's, the thread also loses the capabilities that go
// with them. Supplementary groups stay: they are root's own.
//
// The kernel clears the "dumpable" flag of the process: a job cannot trace it.
func withIdentity(uid, gid int, f func()) error {
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Not unlocked if the ids cannot be restored: the thread ends with
		// the goroutine then.
		runtime.LockOSThread()
		if failed = setFSIdentity(uid, gid); failed == nil {
			f()
		}
		if setFSIdentity(unix.Geteuid(), unix.Getegid()) == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return failed
}

// setFSIdentity sets the group first while we may, and the other way round the
// user first. The system calls return the previous id and no error: only a second
// call tells what has become of the first.
func setFSIdentity(uid, gid int) error {
	set := func(call func(int) (int, error), id int) error {
		if _, err := call(id); err != nil {
			return err
		}
		now, err := call(-1)
		if err == nil && now != id {
			err = errors.New("cannot take on id " + itoa(id) + " for access to files")
		}
		return err
	}
	if uid == unix.Geteuid() {
		if err := set(unix.SetfsuidRetUid, uid); err != nil {
			return err
		}
		return set(unix.SetfsgidRetGid, gid)
	}
	if err := set(unix.SetfsgidRetGid, gid); err != nil {
		return err
	}
	return set(unix.SetfsuidRetUid, uid)
}
