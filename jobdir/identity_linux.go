package jobdir

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// withIdentity calls f with the file access rights of a user. The kernel has separate IDs for file
// access in each thread (setfsuid(2)), so the other threads of the process are unaffected. When the
// thread changes from root to the user, it also loses root's capabilities for file access. It keeps
// its supplementary groups, which are root's.
//
// The kernel clears the "dumpable" flag of the process, so a job cannot trace it.
func withIdentity(uid, gid int, f func()) error {
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		// If the IDs cannot be restored, the thread stays locked: it then ends with the goroutine.
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

// setFSIdentity sets the group and the user ID, in the order in which this process has the right
// to. The system calls return the previous ID and no error; only a second call shows whether the
// first one had an effect.
func setFSIdentity(uid, gid int) error {
	set := func(call func(int) (int, error), id int) error {
		if _, err := call(id); err != nil {
			return err
		}
		now, err := call(-1)
		if err == nil && now != id {
			err = errors.New("cannot switch to ID " + itoa(id) + " for access to files")
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
