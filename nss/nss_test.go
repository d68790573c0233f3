package nss

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
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
