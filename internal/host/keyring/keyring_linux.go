// Package keyring separates the keys that programs keep in the kernel (keyrings(7)).
//
// A process inherits its session keyring, also across a change of the user (session-keyring(7)), and may read all keys to
// which it leads. So programs that one process starts for several users would share their keys, and could read those of the
// session in which root has started a daemon.
package keyring

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Apart calls start with a new session keyring, which the processes that start begins inherit, and no other ones. Only root's
// processes start programs of other users: for another user Apart only calls start. The thread of the call ends with it, so
// the processes must not have a death signal (prctl(2), PR_SET_PDEATHSIG).
//
// The kernel may lack keys, or a container may forbid the system call to all its processes. Then there is nothing to separate,
// and start is called nevertheless.
func Apart(start func()) {
	if os.Geteuid() != 0 {
		start()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // a session keyring belongs to a thread, which ends with this goroutine
		Join()
		start()
	}()
	<-done
}

// Join gives the calling thread a new session keyring, as keyctl_join_session_keyring(3) does without a name.
func Join() { _, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) }
