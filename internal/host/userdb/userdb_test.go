package userdb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

func database(t *testing.T, nsswitch, getent string) Database {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	db := Database{
		Passwd: write("passwd", "root:x:0:0:root:/root:/bin/bash\nbroken:x:1\nbad:x:abc:1::/:/bin/sh\nalice:x:2001:2002:Alice,,:/home/alice:/bin/sh\n", 0o644),
		Group:  write("group", "staff:x:50:bob,alice\nalice:x:2002:\nproj:x:3000:alice\nmalice:x:4000:malice\nstaff2:x:50:alice\n", 0o644),
		Switch: write("nsswitch.conf", nsswitch, 0o644),
	}
	if getent != "" {
		db.Getent = write("getent", "#!/bin/sh\n"+getent, 0o755)
	}
	return db
}

func TestFiles(t *testing.T) {
	db := database(t, "passwd: files systemd # ldap\ngroup: files [SUCCESS=merge] systemd\n", "exit 1\n")
	u, err := db.User("alice")
	if want := (User{"alice", 2001, 2002, "/home/alice", "/bin/sh"}); err != nil || *u != want {
		t.Fatalf("alice is %+v, %v", u, err)
	}
	if u, err := db.UserID(0); err != nil || u.Name != "root" {
		t.Errorf("uid 0 is %+v, %v", u, err)
	}
	gids, err := db.Groups("alice", 2002)
	if want := []uint32{2002, 50, 3000}; err != nil || !slices.Equal(gids, want) {
		t.Errorf("groups %v, %v; want %v", gids, err, want)
	}
	for _, name := range []string{"", "bad", "broken", "carol", "-h", "a:b", "a\nb"} {
		if u, err := db.User(name); !errors.Is(err, ErrUnknown) {
			t.Errorf("user %q is %+v, %v", name, u, err)
		}
	}
	if n := db.GroupName(50); n != "staff" {
		t.Errorf("group 50 is %q", n)
	}
	if n := db.GroupName(51); n != "51" {
		t.Errorf("group 51 is %q", n)
	}
}

func TestOtherServicesAreAskedThroughGetent(t *testing.T) {
	db := database(t, "passwd: files ldap\ngroup: files ldap\n",
		`case "$1 $2" in
"passwd carol") echo "carol:*:5000:5001::/home/carol:/bin/zsh";;
"passwd broken-ldap") exit 3;;
"initgroups carol") echo "carol                 5001 6000";;
*) exit 2;;
esac`)
	u, err := db.User("carol")
	if err != nil || u.UID != 5000 || u.Shell != "/bin/zsh" {
		t.Fatalf("carol is %+v, %v", u, err)
	}
	gids, err := db.Groups("carol", 5001)
	if want := []uint32{5001, 6000}; err != nil || !slices.Equal(gids, want) {
		t.Errorf("groups %v, %v; want %v", gids, err, want)
	}
	if _, err := db.User("nobody-knows"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown user gives %v", err)
	}
	if _, err := db.User("broken-ldap"); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("a failing service gives %v, want an error that is not ErrUnknown", err)
	}
	if u, err := db.User("alice"); err != nil || u.UID != 2001 {
		t.Errorf("alice is %+v, %v", u, err)
	}
}

func TestSystem(t *testing.T) {
	u, err := System().UserID(0)
	if err != nil || u.UID != 0 {
		t.Errorf("root of this host is %+v, %v", u, err)
	}
}

// TestNoAnswer checks that a lookup does not wait longer than its limit for a service that hangs,
// and does not wait for a pipe.
func TestNoAnswer(t *testing.T) {
	db := database(t, "passwd: files ldap\ngroup: files ldap\n", "echo half; exec sleep 1000\n")
	db.Patience = 50 * time.Millisecond
	if _, err := db.User("carol"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a user: %v", err)
	}
	if _, err := db.Groups("alice", 1); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("groups: %v", err)
	}
	closed := database(t, "passwd: files ldap\n", "echo carol:x:5000:5001::/:/bin/sh; exec >&- sleep 1000\n")
	closed.Patience = db.Patience
	if u, err := closed.User("carol"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a user, by one who goes on: %v, %v", u, err)
	}
	if _, err := db.GroupID("team"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a group: %v", err)
	}
	if err := errors.Join(os.Remove(db.Passwd), unix.Mkfifo(db.Passwd, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.User("alice"); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("of a pipe: %v", err)
	}
}

// nobodyIsLeft waits until no process is asked any more.
func nobodyIsLeft(t *testing.T) {
	t.Helper()
	for range maxAsking {
		if !enter(time.Minute) {
			t.Fatal("somebody is left")
		}
	}
	for range maxAsking {
		leave()
	}
}

// TestNumberOfPendingLookupsIsLimited checks that a lookup process counts until it has ended, and
// that no further ones are started if there are too many.
func TestNumberOfPendingLookupsIsLimited(t *testing.T) {
	db := database(t, "passwd: files ldap\n", "echo carol:x:5000:5001::/:/bin/sh\n")
	db.Patience = 50 * time.Millisecond
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range maxAsking {
		enter(0)
	}
	collect(cmd.Process.Pid, 0)
	if _, err := db.User("carol"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("one more than may be: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	db.Patience = time.Minute
	if _, err := db.User("carol"); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(cmd.Process.Pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("it was not waited for: %v", err)
	}
	for range maxAsking - 1 {
		leave()
	}
	nobodyIsLeft(t)
}

// heldEnv has the test binary be a getent that is held on its way out: with the file where to
// say who it is, and who holds it.
const (
	heldEnv  = "EXECD_NSS_TEST_HELD"
	holdsEnv = "EXECD_NSS_TEST_HOLDS"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(holdsEnv) != "":
		hold(os.Getenv(holdsEnv))
	case os.Getenv(heldEnv) != "":
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), holdsEnv+"="+os.Getenv(heldEnv))
		panic(cmd.Run())
	}
	os.Exit(m.Run())
}

// hold traces its parent, which does not get further than to its end until the tracer ends.
func hold(file string) {
	runtime.LockOSThread()
	parent := os.Getppid()
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(parent), 0, unix.PTRACE_O_TRACEEXIT, 0, 0); errno != 0 {
		panic(errno)
	}
	if err := errors.Join(os.WriteFile(file+"~", fmt.Appendln(nil, parent, os.Getpid()), 0o644), os.Rename(file+"~", file)); err != nil {
		panic(err)
	}
	for {
		_ = unix.Pause() // until the test kills it
	}
}

// TestUnkillableLookupIsAbandoned checks that a lookup process that cannot be killed is no longer
// waited for.
func TestUnkillableLookupIsAbandoned(t *testing.T) {
	testenv.Require(t, testenv.Root)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var held int
	db := database(t, "passwd: files ldap\n", "exec env "+heldEnv+"=$0.tracer "+self+"\n")
	tracer := 0
	for db.Patience = time.Second; tracer == 0; db.Patience *= 2 {
		if _, err := db.User("carol"); !errors.Is(err, ErrNoAnswer) {
			t.Fatalf("a user: %v", err)
		}
		if b, err := os.ReadFile(db.Getent + ".tracer"); err == nil {
			if _, err := fmt.Sscan(string(b), &held, &tracer); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := unix.Kill(held, 0); err != nil {
		t.Errorf("it is not there any more: %v", err)
	}
	if err := unix.Kill(tracer, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nobodyIsLeft(t)
	if err := unix.Kill(held, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("it was not waited for: %v", err)
	}
}

func TestGroupID(t *testing.T) {
	db := database(t, "group: files ldap\n", `case "$1 $2" in "group far") echo "far:x:7000:"; exit 0;; esac; exit 2`)
	for name, want := range map[string]uint32{"staff": 50, "far": 7000} {
		if gid, err := db.GroupID(name); err != nil || gid != want {
			t.Errorf("%s is %d, %v", name, gid, err)
		}
	}
	if _, err := db.GroupID("nowhere"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}
