//go:build amd64 || arm64

package sigwait

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListenUnblocks checks that Listen also works if the process was started with the signals
// blocked.
func TestListenUnblocks(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := unix.Sigset_t{Val: [16]uint64{1<<(unix.SIGUSR1-1) | 1<<(unix.SIGTSTP-1)}}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(unix.SIGUSR1, unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	var now unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &now); err != nil {
		t.Fatal(err)
	}
	if now.Val[0]&set.Val[0] != 0 {
		t.Errorf("blocked are still %#x", now.Val[0])
	}
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	collectUntil(t, unix.SIGTSTP)
}
