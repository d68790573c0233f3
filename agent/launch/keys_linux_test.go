package launch

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeysOfRoot checks that a job can reach no keys of the session in which root has started the daemon (keyrings(7)).
func TestKeysOfRoot(t *testing.T) {
	p := newPlace(t)
	name := "execd-test-" + strconv.Itoa(os.Getpid())
	o := p.private(t, "grep -c "+name+" /proc/keys; cat /proc/keys >/dev/null && echo read")
	o.Config.ExecdParams.PrivateTmp.Default = false
	runtime.LockOSThread() // not unlocked: the thread has a keyring of its own
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Skipf("needs keys of the kernel: %v", err)
	}
	if _, err := unix.AddKey("user", name, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Fatal(err)
	}
	if _, out, said := p.ran(t, o); said != "0\nread\n" {
		t.Errorf("the job says %q (%s)", said, out.FailedText)
	}
}
