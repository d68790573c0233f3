package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/qconf"
)

// TestUntrustedSupervisor checks that root starts no supervisor and no shepherd_cmd that other users
// can replace.
func TestUntrustedSupervisor(t *testing.T) {
	testenv.Require(t, testenv.Root)
	const alice = 54321
	for name, c := range map[string]struct {
		change func(dir, shepherd string) error
		says   string // "" if it is started
	}{
		"root's":                           {func(string, string) error { return nil }, ""},
		"of somebody else":                 {func(_, shepherd string) error { return os.Chown(shepherd, alice, 0) }, "belongs to 54321"},
		"that everybody can write":         {func(_, shepherd string) error { return os.Chmod(shepherd, 0o777) }, "may be written by everybody"},
		"in a directory of somebody else":  {func(dir, _ string) error { return os.Chown(dir, alice, 0) }, "belongs to 54321"},
		"in a directory of everybody":      {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, "may be written by everybody"},
		"in a sticky one, beside anything": {func(dir, _ string) error { return os.Chmod(dir, fs.ModeSticky|0o777) }, "may be written by everybody"},
		"a link to that of somebody else": {func(dir, shepherd string) error {
			return errors.Join(os.Mkdir(dir+"/home", 0o755), os.Rename(shepherd, dir+"/home/x"), os.Chown(dir+"/home/x", alice, 0), os.Symlink("home/x", shepherd))
		}, "belongs to 54321"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			shepherd := filepath.Join(dir, ShepherdName)
			if err := errors.Join(os.WriteFile(shepherd, []byte("#!/bin/sh\n"), 0o755), c.change(dir, shepherd)); err != nil {
				t.Fatal(err)
			}
			_, found := FindShepherd(dir + "/execd")
			_, usual := ShepherdFor(&qconf.Configuration{}, shepherd)
			_, configured := ShepherdFor(&qconf.Configuration{ShepherdCmd: shepherd}, "/bin/false")
			for what, err := range map[string]error{"the one beside execd": found, "again": usual, "shepherd_cmd": configured} {
				if (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %q", what, err, c.says)
				}
			}
		})
	}
}
