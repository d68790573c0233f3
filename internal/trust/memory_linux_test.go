package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// changed calls change until the ctime of a file is another one than before: the kernel's clock for it
// advances in steps.
func changed(t *testing.T, at string, change func() error) {
	t.Helper()
	ctime := func() unix.Timespec {
		var st unix.Stat_t
		must(t, unix.Lstat(at, &st))
		return st.Ctim
	}
	for before := ctime(); ctime() == before; {
		must(t, change())
	}
}

// TestMemoryNoticesChanges checks that a remembered path does not pass any more after a change of any of its parts.
func TestMemoryNoticesChanges(t *testing.T) {
	for name, c := range map[string]struct {
		at     string // the part whose ctime changes
		change func(dir string) error
	}{
		"the file may be written":      {"folder/sub/file", func(d string) error { return os.Chmod(d+"/folder/sub/file", 0o666) }},
		"the file has another owner":   {"folder/sub/file", func(d string) error { return os.Chown(d+"/folder/sub/file", alice, alice) }},
		"its directory may be written": {"folder/sub", func(d string) error { return os.Chmod(d+"/folder/sub", 0o777) }},
		"the one above may be written": {"folder", func(d string) error { return os.Chmod(d+"/folder", 0o777) }},
		"others may write by a list": {"folder/sub/file", func(d string) error {
			return errors.Join(os.Chmod(d+"/folder/sub/file", 0o664), unix.Setxattr(d+"/folder/sub/file", aclAttribute, acl(), 0))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := tree(t)
			m := &Memory{eager: true}
			for _, check := range []func(string) error{m.Check, m.Program, m.CheckDirectory} {
				must(t, check(file))
				must(t, check(file))
			}
			changed(t, filepath.Join(dir, c.at), func() error { return c.change(dir) })
			if name == "others may write by a list" && (Users{}).Check(file) == nil {
				t.Skip("the file system has no access control lists")
			}
			for what, check := range map[string]func(string) error{"Check": m.Check, "Program": m.Program, "CheckDirectory": m.CheckDirectory} {
				if _, ok := errors.AsType[*Error](check(file)); !ok {
					t.Errorf("%s: the path passes", what)
				}
			}
		})
	}
}

// TestMemoryNoticesAnotherTarget checks that a path does not pass any more when it leads elsewhere.
func TestMemoryNoticesAnotherTarget(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"another link": func(d string) error {
			return errors.Join(os.Remove(d+"/link"), os.Symlink(d+"/hers", d+"/link"))
		},
		"the directory behind the link may be written": func(d string) error { return os.Chmod(d+"/folder", 0o777) },
		"another directory with the same name": func(d string) error {
			return errors.Join(os.Rename(d+"/folder", d+"/former"), os.Rename(d+"/hers", d+"/folder"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := tree(t)
			must(t, os.MkdirAll(dir+"/hers/sub", 0o755))
			must(t, os.WriteFile(dir+"/hers/sub/file", nil, 0o755))
			must(t, os.Chown(dir+"/hers/sub/file", alice, alice))
			must(t, os.Symlink(dir+"/folder", dir+"/link"))
			m := &Memory{eager: true}
			must(t, m.Program(dir+"/link/sub/file"))
			must(t, replace(dir))
			if _, ok := errors.AsType[*Error](m.Program(dir + "/link/sub/file")); !ok {
				t.Error("the path passes")
			}
		})
	}
}

// TestMemoryRemembers checks that unchanged paths are not examined again, and new ones not remembered.
func TestMemoryRemembers(t *testing.T) {
	_, file := tree(t)
	m := &Memory{eager: true}
	must(t, m.Check(file))
	must(t, m.Program(file))
	for what, list := range map[string]map[string][]part{"Check": m.checked, "Program": m.programs} {
		if len(list) != 1 || len(list[file]) < 4 || list[file][0].at != "/" || !same(list[file]) {
			t.Errorf("%s remembers %v", what, list)
		}
	}
	m.checked["/no/such/file"] = m.checked[file]
	must(t, m.Check("/no/such/file")) // by the parts alone

	late := &Memory{}
	must(t, late.Check(file))
	if len(late.checked) != 0 {
		t.Errorf("remembers %v, which may change within one tick of the clock", late.checked)
	}
}

func TestMemoryOfMissingDirectories(t *testing.T) {
	dir, _ := tree(t)
	m := &Memory{eager: true}
	must(t, m.CheckDirectory(dir+"/folder/none/at/all"))
	if err := m.Check(dir + "/folder/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing path: %v", err)
	}
	must(t, os.Chmod(dir+"/folder", 0o777))
	if _, ok := errors.AsType[*Error](m.CheckDirectory(dir + "/folder/none/at/all")); !ok {
		t.Error("passes, although others can make it")
	}
}

// TestMemoryDoesNotRememberScripts checks the interpreter of a script each time.
func TestMemoryDoesNotRememberScripts(t *testing.T) {
	dir, file := tree(t)
	must(t, os.WriteFile(dir+"/shell", []byte("a binary"), 0o755))
	must(t, os.WriteFile(file, []byte(fmt.Sprintf("#!%s/shell\n", dir)), 0o755))
	m := &Memory{eager: true}
	must(t, m.Program(file))
	must(t, os.Chown(dir+"/shell", alice, alice))
	if _, ok := errors.AsType[*Error](m.Program(file)); !ok {
		t.Error("passes, although its interpreter is of another user")
	}
}

func BenchmarkProgram(b *testing.B) {
	testenv.Require(b, testenv.Root)
	b.Run("examined", func(b *testing.B) {
		for b.Loop() {
			must(b, Users{}.Program("/bin/sh"))
		}
	})
	m := &Memory{}
	b.Run("remembered", func(b *testing.B) {
		for b.Loop() {
			must(b, m.Program("/bin/sh"))
		}
	})
}
