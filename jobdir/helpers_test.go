package jobdir

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
)

// Users without a passwd entry. No other user of the host has these IDs.
const (
	alice = 20001
	bob   = 20002
)

// needRoot skips a test that needs root, or fails it if the test run requires root.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("EXECD_TEST_REQUIRE"), ","), "root") {
		t.Fatal("needs root, which EXECD_TEST_REQUIRE names")
	}
	t.Skip("needs root")
}

// as calls f with the file access rights of a user.
func as(t testing.TB, uid int, f func()) {
	t.Helper()
	if err := withIdentity(uid, uid, f); err != nil {
		t.Fatal(err)
	}
}

// publicDir returns a temporary directory that other users can reach, unlike t.TempDir.
func publicDir(t testing.TB, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "jobdir-test-") //nolint:usetesting // other users must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	must(t, os.Chmod(dir, mode))
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stat(t testing.TB, path string) (mode os.FileMode, uid, gid int) {
	t.Helper()
	fi, err := os.Lstat(path)
	must(t, err)
	st := fi.Sys().(*syscall.Stat_t)
	return fi.Mode(), int(st.Uid), int(st.Gid)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func newSpool(t testing.TB) *Spool {
	t.Helper()
	s, err := OpenSpool(publicDir(t, 0o755) + "/spool")
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// simple returns a minimal valid description of a job.
func simple(id job.ID) *job.Description {
	return &job.Description{
		ID: id, Name: "simple", Owner: "alice", Queue: "all.q", Host: "host", Cwd: "/", Tmpdir: "/tmp/x",
		SubmissionTime: time.Unix(1795217715, 0),
		Command:        job.Command{File: "/bin/true", Args: []string{"a\nb", `c\`, ""}, StartMode: job.UnixBehavior},
		Limits:         job.Unlimited(),
		Environment:    []string{"A=1", "B=x\ny\\"},
		Streams:        [3]job.Stream{{Path: "/dev/null"}, {Path: "/"}, {Path: "/"}},
	}
}
