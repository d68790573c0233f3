package procedures

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/internal/trust"
)

const text = `# what the cell may have run here
root	/opt/site/prolog.sh $job_id
root /opt/site/epilog.sh *

root /opt/site/plain
sgeadmin /opt/site/sensors/*.sh
root /opt/$queue/prolog
root /opt/site/sensors[^x]y
root /opt/site/v[!0-9].sh
root /opt/site/w\[!x
root /opt/site/log /var/log/*.log *.txt
`

func TestPermit(t *testing.T) {
	l, err := Parse("procedures", text)
	if err != nil {
		t.Fatal(err)
	}
	for command, permitted := range map[string]bool{
		"root@/opt/site/prolog.sh $job_id":                   true,
		"root@/opt/site/prolog.sh":                           false,
		"root@/opt/site/prolog.sh $job_id more":              false,
		"root@/opt/site/prolog.sh $job_owner":                false,
		"root@/opt/site/epilog.sh":                           true,
		"root@/opt/site/epilog.sh a b $job_name":             true,
		"root@/opt/site/epilog.sh/x":                         false,
		"root@/opt/site/plain":                               true,
		" \troot@/opt/site/plain":                            true,
		"root@/opt/site/plain x":                             false,
		"root@/opt/site/other":                               false,
		"root@plain":                                         false,
		"root@":                                              false,
		"sgeadmin@/opt/site/sensors/a.sh":                    true,
		"sgeadmin@/opt/site/sensors/sub/a.sh":                false,
		"sgeadmin@/opt/site/sensors/..sh":                    true,
		"sgeadmin@/opt/site/plain":                           false,
		"sgeadmin@/opt/site/sensors/../plain.sh":             false,
		"sgeadmin@/opt/site/sensors/$queue.sh":               false,
		"root@/opt/$queue/prolog":                            true,
		"root@/opt/site/sensors/a.sh":                        false,
		"root@/opt/site/../site/plain":                       false,
		"root@/opt//site/plain":                              false,
		"root@/opt/site/plain\nroot@/bin/sh":                 false,
		"root@/opt/site/epilog.sh\u00a0x":                    false,
		"root@/opt/site/sensors/y":                           false,
		"root@/opt/site/sensors-y":                           true,
		"root@/opt/site/va.sh":                               true,
		"root@/opt/site/v1.sh":                               false,
		"root@/opt/site/v!.sh":                               true,
		"root@/opt/site/w[!x":                                true,
		"root@/opt/site/w1":                                  false,
		"root@/opt/site/log /var/log/a.log b.txt":            true,
		"root@/opt/site/log /var/log/$stdout_path.log b.txt": false,
		"root@/opt/site/log /var/log/a.log $stdout_path.txt": false,
		"root@/opt/site/log /var/log/a.log $job_name.txt":    false,
		"root@/opt/site/log /var/log/a/b.log b.txt":          false,
		"alice@/opt/site/plain":                              false,
		"0@/opt/site/plain":                                  false,
		"ROOT@/opt/site/plain":                               false,
		"/opt/site/plain@root":                               false,
	} {
		user, _, _ := strings.Cut(strings.TrimLeft(command, " \t"), "@")
		err := l.Permit(user, command)
		if (err == nil) != permitted {
			t.Errorf("%q as %s: %v", command, user, err)
		}
		if _, ok := errors.AsType[*RefusedError](err); err != nil && (!ok || !strings.Contains(err.Error(), "procedures permits it")) {
			t.Errorf("%v", err)
		}
	}
	if err := (*List)(nil).Permit("root", "root@/anything"); err != nil {
		t.Errorf("without a file: %v", err)
	}
	empty, err := Parse("procedures", "# nothing\n")
	if err != nil || empty.Permit("root", "root@/anything") == nil {
		t.Errorf("an empty file permits something: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for line, problem := range map[string]string{
		"root":        "file:2: user root has no program",
		"root@ /x":    `file:2: "root@" is not a name of a user`,
		"* /x":        `file:2: "*" is not a name of a user`,
		"/opt/x":      `file:2: "/opt/x" is not a name of a user`,
		"root x":      `file:2: "x" is not an absolute path`,
		"root /x[":    `file:2: "/x[" is no pattern`,
		"root /x a[b": `file:2: "a[b" is no pattern`,
		"root /x[/]y": `file:2: "/x[/]y" is no pattern`,
		"root /a[/b":  `file:2: "/a[/b" is no pattern`,
	} {
		if _, err := Parse("file", "# first\n"+line+"\n"); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %s", line, err, problem)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "procedures")
	if l, err := Read(file); l != nil || err != nil {
		t.Errorf("no file: %v, %v", l, err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if l, err := Read(file); err != nil || l.Permit("root", "root@/opt/site/plain") != nil {
		t.Errorf("a file: %v", err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Read(file)
	if _, ok := errors.AsType[*trust.Error](err); !ok {
		t.Errorf("a file that everybody can write: %v", err)
	}
	if err := os.WriteFile(file, make([]byte, 100<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file without an end: %v", err)
	}
}

// TestMissing checks that a file that existed and is missing permits nothing, and neither does one
// behind a link that leads nowhere.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "procedures")
	if l, err := NewFile(file, false).Read(); l != nil || err != nil {
		t.Errorf("no file: %v, %v", l, err)
	}
	if _, err := NewFile(file, true).Read(); err == nil {
		t.Error("a required file is missing, and everything is permitted")
	}
	if l, err := Read(filepath.Join(dir, "none", "procedures")); l != nil || err != nil {
		t.Errorf("no directory: %v, %v", l, err)
	}
	f := NewFile(file, false)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if l, err := f.Read(); l == nil || err != nil {
		t.Errorf("a file: %v", err)
	}
	if err := os.Rename(file, file+"~"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a file that was moved away: %v", err)
	}
	if err := os.Rename(file+"~", file); err != nil {
		t.Fatal(err)
	}
	if l, err := f.Read(); l == nil || err != nil {
		t.Errorf("a file that is there again: %v", err)
	}
	if err := errors.Join(os.Symlink(filepath.Join(dir, "mount", "procedures"), filepath.Join(dir, "link")),
		os.Symlink(filepath.Join(dir, "mount"), filepath.Join(dir, "directory"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "directory/procedures", "directory/etc/procedures"} {
		if _, err := Read(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s leads nowhere, and everything is permitted", name)
		}
	}
}

// TestFileThatOthersCanRemoveIsRefused checks that the absence of the file is no permission if
// another user could have removed it.
func TestFileThatOthersCanRemoveIsRefused(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := os.Chown(dir, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(filepath.Join(dir, "procedures")); err == nil {
		t.Error("the absence of the file was trusted")
	}
}

// FuzzParse checks that for any text a permitted command has the user of a line and the path of its
// pattern.
func FuzzParse(f *testing.F) {
	f.Add(text, "root", "/opt/site/epilog.sh x")
	f.Add("root /a *\n", "root", "/a")
	f.Add("root /*/b ?\n", "root", "/../b c")
	f.Fuzz(func(t *testing.T, text, user, command string) {
		l, err := Parse("file", text)
		if err != nil {
			return
		}
		if l.Permit(user, user+"@"+command) != nil {
			return
		}
		first := strings.FieldsFunc(command, func(c rune) bool { return c == ' ' || c == '\t' })
		if len(first) == 0 || !strings.HasPrefix(first[0], "/") || filepath.Clean(first[0]) != first[0] {
			t.Errorf("%q is permitted", command)
		}
		for line := range strings.Lines(text) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == user && strings.Count(words[1], "/") >= strings.Count(first[0], "/") {
				return
			}
		}
		t.Errorf("%q as %q is permitted by no line", command, user)
	})
}
