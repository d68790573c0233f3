package keyring

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// keyVariable tells the second program of this test the name of a key.
const keyVariable = "EXECD_TEST_KEY"

// TestMain runs the tests, or a program that adds a key to its session keyring, or prints one.
func TestMain(m *testing.M) {
	name, value, asked := strings.Cut(os.Getenv(keyVariable), "=")
	switch {
	case name == "":
		os.Exit(m.Run())
	case asked:
		_, err := unix.AddKey("user", name, []byte(value), unix.KEY_SPEC_SESSION_KEYRING)
		check(err)
	default:
		id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", name, 0)
		if errors.Is(err, unix.ENOKEY) {
			return
		}
		b := make([]byte, 100)
		if err == nil {
			var n int
			n, err = unix.KeyctlBuffer(unix.KEYCTL_READ, id, b, 0)
			b = b[:max(n, 0)]
		}
		check(err)
		_, _ = os.Stdout.Write(b)
	}
}

func check(err error) {
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// TestApart checks that a program can read neither the keys of the process that starts it nor those of another program,
// and that the process keeps its keys.
func TestApart(t *testing.T) {
	testenv.Require(t, testenv.Root)
	runtime.LockOSThread() // not unlocked: the thread has a keyring of its own
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Skipf("needs keys of the kernel: %v", err)
	}
	name := "execd-test-" + strconv.Itoa(os.Getpid())
	if _, err := unix.AddKey("user", name, []byte("of root"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Fatal(err)
	}
	run := func(uid uint32, key string, apart func(func())) string {
		t.Helper()
		var out, said strings.Builder
		c := exec.CommandContext(t.Context(), "/proc/self/exe")
		c.Env, c.Stdout, c.Stderr = []string{keyVariable + "=" + key}, &out, &said
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		var err error
		apart(func() { err = c.Start() })
		if err == nil {
			err = c.Wait()
		}
		if err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		return out.String()
	}
	const alice, bob = 52001, 52002
	if got := run(bob, name, func(start func()) { start() }); got != "of root" {
		t.Fatalf("without Apart a program reads %q: this test shows nothing", got)
	}
	if got := run(bob, name, Apart); got != "" {
		t.Errorf("a program reads root's key %q", got)
	}
	run(alice, name+"-alice=of alice", Apart)
	if got := run(bob, name+"-alice", Apart); got != "" {
		t.Errorf("a program reads the key %q of another user", got)
	}
	if got := run(0, name, func(start func()) { start() }); got != "of root" {
		t.Errorf("after Apart root has the key %q", got)
	}
}
