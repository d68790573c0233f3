package testenv

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Munged starts a munged(8) with a key of its own, and returns its socket, which other users can reach.
// The test is skipped, or fails, without Debian's munge (see Require).
func Munged(t testing.TB) (socket string) {
	t.Helper()
	Require(t, Munge)
	dir := t.TempDir()
	LetIn(t, dir)
	key := rand.Text() + rand.Text() // munged wants 32 bytes
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "socket")
	pid := filepath.Join(dir, "pid")
	// It goes into the background when its socket is ready.
	start := exec.Command(munged, "--force", "--socket="+socket, "--pid-file="+pid, "--key-file="+filepath.Join(dir, "key"),
		"--log-file="+filepath.Join(dir, "log"), "--seed-file="+filepath.Join(dir, "seed"))
	if out, err := start.CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("munged does not start: %v\n%s%s", err, out, log)
	}
	t.Cleanup(func() {
		text, err := os.ReadFile(pid)
		if err != nil {
			t.Error(err)
			return
		}
		number, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Error(err)
			return
		}
		pidfd, err := unix.PidfdOpen(number, 0)
		if err != nil {
			t.Errorf("munged has ended: %v", err)
			return
		}
		defer unix.Close(pidfd)
		// It writes files until it has ended.
		if err := unix.PidfdSendSignal(pidfd, unix.SIGTERM, nil, 0); err != nil || !Ended(pidfd, mungedPatience) {
			t.Errorf("munged does not stop: %v", err)
		}
	})
	return socket
}

// mungedPatience is how long munged may take to end.
const mungedPatience = time.Minute

// munged is not in PATH of ordinary users.
const munged = "/usr/sbin/munged"
