package standalone

import (
	"fmt"
	"os/user"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// disk is a file system of its own for the spool directory, of a size in MiB.
func (m *machine) disk(size int) string {
	m.Helper()
	testenv.Require(m, testenv.Root)
	spool := m.TempDir()
	if err := unix.Mount("tmpfs", spool, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=755", size)); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		if err := unix.Unmount(spool, unix.MNT_DETACH); err != nil {
			m.Error(err)
		}
	})
	return spool
}

// submits has a user submit a script of a size in bytes that waits.
func (m *machine) submits(u *user.User, size int) result {
	m.Helper()
	m.write("large.sh", "#!/bin/sh\n"+strings.Repeat("#", size-11)+"\n")
	return m.as(u, "qsub", "-h", "-wd", "/", "-o", "/dev/null", "-j", "y", "large.sh")
}

// full has a user submit until that is refused.
func (m *machine) full(u *user.User, size int) (n int, refusal string) {
	m.Helper()
	for range 1000 {
		r := m.submits(u, size)
		if r.status != 0 {
			return n, r.stderr
		}
		n++
	}
	m.Fatalf("%d submissions, and no end", n)
	return n, ""
}

func (m *machine) says(text, pattern string) {
	m.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		m.Errorf("%q, expected %q", text, pattern)
	}
}

// TestRoomOfAUser has a user submit whatever fits: others can still submit, and what is
// refused is refused with the numbers.
func TestRoomOfAUser(t *testing.T) {
	m := newMachine(t, 1)
	m.args = []string{"--spool", m.disk(200)}
	m.start()
	users := someUsers(t, 2)
	m.says(m.submits(users[0], 40<<20).stderr, `33554432|at most 32\.0M`)
	if n, refusal := m.full(users[0], 6<<20); n != 3 {
		t.Errorf("%d jobs with 6 MiB each fit into 20 MiB: %s", n, refusal)
	} else {
		m.says(refusal, fmt.Sprintf(`job rejected: the job needs 6\.0M in the spool directory, and of the 20\.0M that user "%s" may have there 18\.0M are in use`, users[0].Username))
	}
	if r := m.submits(users[1], 6<<20); r.status != 0 {
		t.Errorf("another user: %+v", r)
	}
	m.daemon.Kill() // what is used is known to the next daemon
	m.start()
	if n, _ := m.full(users[0], 6<<20); n != 0 {
		t.Errorf("%d more jobs with 6 MiB each fit after a restart", n)
	}
	m.as(users[0], "qdel", "-u", users[0].Username)
	if n, refusal := m.full(users[0], 6<<20); n != 3 {
		t.Errorf("%d jobs with 6 MiB each fit after a qdel: %s", n, refusal)
	}
}

// TestReserve has new jobs leave something of the disk for all else.
func TestReserve(t *testing.T) {
	m := newMachine(t, 1)
	m.args = []string{"--spool", m.disk(40), "--spool-per-user", "none", "--spool-reserve", "50%"}
	m.start()
	u := someUsers(t, 1)[0]
	n, refusal := m.full(u, 2<<20)
	m.says(refusal, `job rejected: the job needs 2\.0M, and the file system of the spool directory has [0-9.]+M left, of which 20\.0M are reserved`)
	if n == 0 {
		t.Error("no job fits")
	}
	m.as(u, "qdel", "-u", u.Username)
}
