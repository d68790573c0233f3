package output

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/qstat"
)

// TestPathOfDirectoryUser finds the output of a user whom only getent(1) knows, such as a user of
// LDAP. The owner is looked up once.
func TestPathOfDirectoryUser(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	asked := filepath.Join(dir, "asked")
	find := NewFinder(userdb.Database{
		Passwd: write("passwd", "root:x:0:0::/root:/bin/sh\n", 0o600),
		Switch: write("nsswitch.conf", "passwd: files sss\n", 0o600),
		Getent: write("getent", "#!/bin/sh\necho $2 >>"+asked+"\n[ $2 = ldapuser ] || exit 2\necho ldapuser:x:70001:70001::"+dir+":/bin/sh\n", 0o700),
	})
	for range 2 {
		got, err := find.Path(qstat.OutputFile{Path: "~ldapuser/out/job.o7.$TASK_ID"}, 3)
		if want := filepath.Join(dir, "out/job.o7.3"); err != nil || got != want {
			t.Errorf("%q, %v; expected %q", got, err, want)
		}
	}
	got, err := find.Path(qstat.OutputFile{Path: "~ldapuser", Name: "job.o7"}, 0)
	if want := filepath.Join(dir, "job.o7"); err != nil || got != want {
		t.Errorf("in the home: %q, %v; expected %q", got, err, want)
	}
	if text, err := os.ReadFile(asked); err != nil || string(text) != "ldapuser\n" {
		t.Errorf("asked for %q, %v", text, err)
	}
	if got, err := find.Path(qstat.OutputFile{Path: "~nobody2/x"}, 0); !errors.Is(err, userdb.ErrUnknown) {
		t.Errorf("an unknown user: %q, %v", got, err)
	}
}
