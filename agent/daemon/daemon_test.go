package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/qconf"
)

func TestConflictingOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--listen :6446":                "--listen needs",
		"--tls-cert x":                  "--listen or --web, which is missing",
		"--listen-loopback 127.0.0.1:1": "need each other",
		"--token-file x":                "need each other",
		"--nonsense":                    "nonsense",
		"stray":                         `unexpected argument "stray"`,
		"--conf /nonexistent":           "/nonexistent",
		"--hang-up soon":                `--hang-up "soon", expected a time`,
		"--hang-up 0s":                  `--hang-up "0s", expected a time`,
		"--health-interval 5":           `--health-interval "5", expected a time`,
		"--health-interval 0s":          `--health-interval "0s", expected a time`,
		"--log-level loud":              `"loud" is no level`,
		"--log-level kitchen=debug":     `no part "kitchen"`,
	} {
		c := Command{Args: strings.Fields(args), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Executable: "/nonexistent/execd"}
		status, err := c.Run()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
		if _, usage := errors.AsType[*options.UsageError](err); usage != (status == options.ExitUsage) {
			t.Errorf("%s: exit status %d for %v", args, status, err)
		}
	}
}

// TestOptionsOfAnAgentAlone checks that execd standalone refuses options of execd agent, and names
// them.
func TestOptionsOfAnAgentAlone(t *testing.T) {
	for _, args := range []string{
		"--listen :6446", "--listen=:6446", "-listen :6446", "--master gridengine", "--master=m1.site",
		"--listen-loopback 127.0.0.1:1", "--token-file x", "--master gridengine --log-json", "--log-json --listen :1",
	} {
		c := Command{Name: "standalone", Args: strings.Fields(args), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Executable: "/nonexistent/execd"}
		status, err := c.Run()
		if _, usage := errors.AsType[*options.UsageError](err); !usage || status != options.ExitUsage || !strings.Contains(err.Error(), "is an option of execd agent") {
			t.Errorf("%s: exit status %d, %v", args, status, err)
		}
	}
	for args, want := range map[string]string{
		"--metric :1": "unknown option --metric (did you mean --metrics?)", "--health-user": "--health-user needs a value: --health-user USER", "--xyzzy": "unknown option --xyzzy",
		"--spool-per-usr 1": "unknown option --spool-per-usr (did you mean --spool-per-user?)", "--hang-up soon": `--hang-up "soon"`,
		"--tls-cert x": "for --web, which is missing", "--web :8443": "--web needs --tls-cert and --tls-key", "--web 8443 --tls-cert x --tls-key y": `--web "8443"`,
		"--one-process --front-user execd": "contradict each other",
	} {
		c := Command{Name: "standalone", Args: strings.Fields(args), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Executable: "/nonexistent/execd"}
		if _, err := c.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", args, err, want)
		}
	}
}

// TestSpoolBelowDirectoryOfUserIsRefused checks that root's daemon stores nothing in directories
// that a user can change.
func TestSpoolBelowDirectoryOfUserIsRefused(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(dir+"/user/root", 0o755), os.Symlink("user/root", dir+"/link"), os.Chown(dir+"/user", 12345, 12345),
		os.Mkdir(dir+"/all", 0), os.Chmod(dir+"/all", 0o777), os.Mkdir(dir+"/tmp", 0), os.Chmod(dir+"/tmp", 0o777|os.ModeSticky),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for option, below := range map[string]string{"--accounting": "file", "--audit": "file", "--socket": "run/socket"} {
		for place, refused := range map[string]bool{
			"user": true, "user/root": true, "link": true, "all": true, "all/new/folder": true, "tmp": option == "--audit", "root": false, "new/folder": false,
		} {
			path := filepath.Join(dir, place, below)
			c := Command{Args: []string{option, path}, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Executable: "/nonexistent/execd"}
			status, err := c.Run()
			if status != ExitCannotRun || err == nil || refused != (strings.HasPrefix(err.Error(), option+": ") && strings.Contains(err.Error(), "is not trusted: ")) {
				t.Errorf("%s %s: exit status %d, %v", option, place, status, err)
			}
		}
	}
}

// TestCertificateThatUserCanReplaceIsRefused checks that a daemon does not use a certificate or
// token that another user can replace.
func TestCertificateThatUserCanReplaceIsRefused(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/user", 0o755), os.Chown(dir+"/user", 12345, 12345), os.WriteFile(dir+"/file", nil, 0o600), os.WriteFile(dir+"/user/file", nil, 0o600),
		os.Symlink("user/file", dir+"/link"), os.WriteFile(dir+"/shared", nil, 0o600), os.Chmod(dir+"/shared", 0o660), os.Chown(dir+"/shared", 0, 12345)); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"tls-cert", "tls-key", "tls-ca", "token-file"} {
		for file, refused := range map[string]bool{"file": false, "user/file": true, "link": true, "shared": true} {
			args := []string{"--listen-loopback", "127.0.0.1:0", "--token-file", dir + "/file"}
			if option != "token-file" {
				args = []string{"--listen", "127.0.0.1:0", "--master", "m", "--tls-cert", dir + "/file", "--tls-key", dir + "/file", "--tls-ca", dir + "/file"}
			}
			s, err := parse("agent", append(args, "--"+option, filepath.Join(dir, file), "--spool", dir+"/spool", "--socket", dir+"/run/s"))
			if err == nil {
				err = s.trust()
			}
			if got := err != nil && strings.HasPrefix(err.Error(), "--"+option+": ") && strings.Contains(err.Error(), "is not trusted: "); got != refused {
				t.Errorf("--%s %s: %v", option, file, err)
			}
		}
	}
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	if err := os.MkdirAll(filepath.Join(conf, "queues"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := &configuration{dir: conf, spool: dir}
	version := func() string {
		t.Helper()
		_, v, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	use := func() error {
		_, _, err := c.read()
		return err
	}
	const queue = "queues/long.q"
	own := version()
	if err := c.install(map[string]string{queue: "qname long.q\nslots 3\n"}, use); err != nil {
		t.Fatal(err)
	}
	good := version()
	if good == own {
		t.Error("what was installed is not used")
	}
	for name, files := range map[string]map[string]string{
		"a broken file": {queue: "qname long.q\nslots many\n"},
		"a way out":     {"../queues/x": ""},
		"a hidden file": {"queues/.x": ""},
		"no file":       {"": ""},
	} {
		if err := c.install(files, use); err == nil {
			t.Errorf("%s was installed", name)
		} else if strings.Contains(err.Error(), dir) {
			t.Errorf("%s: the error names a directory that the sender does not know: %v", name, err)
		}
		if version() != good {
			t.Errorf("%s has changed the configuration", name)
		}
	}
	// A push that was broken off between its two steps.
	if err := os.Rename(c.pushed(), c.pushed()+".old"); err != nil {
		t.Fatal(err)
	}
	if err := c.restore(); err != nil || version() != good {
		t.Errorf("after an installation that was broken off: %v", err)
	}
	if err := c.install(nil, use); err != nil || version() != own {
		t.Errorf("no files do not go back to the agent's own: %v", err)
	}
}

func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounting")
	if err := os.WriteFile(path, []byte("whole\nhal"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.close() }()
	results := make(chan error)
	for range 20 {
		go func() { results <- l.add([]byte("line\n")) }()
	}
	for range 20 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "whole\n"+strings.Repeat("line\n", 20) {
		t.Errorf("the file has %q, %v", b, err)
	}
	for line, want := range map[string]bool{"whole\n": true, "line\n": true, "ine\n": false, "other\n": false} {
		if got, err := l.has([]byte(line)); err != nil || got != want {
			t.Errorf("has %q: %v, %v", line, got, err)
		}
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.reopen(), l.add([]byte("next\n"))); err != nil {
		t.Fatal(err)
	}
	if there, err := l.has([]byte("whole\n")); err != nil || !there {
		t.Errorf("a line of the file that was moved away is there: %v, %v", there, err)
	}
	// Another file beside it is none of its earlier ones.
	if err := os.WriteFile(path+jsonSuffix, []byte("other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if there, err := l.has([]byte("whole\n")); err != nil || there {
		t.Errorf("the newest file beside it is not that of JSON: %v, %v", there, err)
	}
	l.others = []string{jsonSuffix}
	if there, err := l.has([]byte("whole\n")); err != nil || !there {
		t.Errorf("a line of the file that was moved away is there, beside that of JSON: %v, %v", there, err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "next\n" {
		t.Errorf("after it was moved away the file has %q, %v", b, err)
	}
}

// TestAddOnce checks that the record of a job that may have been written before is in the file
// once, and that all other records are in it as often as they are added.
func TestAddOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounting")
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line  string
		again bool
	}{{"a:1\n", false}, {"b:1\n", true}, {"b:1\n", true}, {"a:1\n", true}, {":1\n", true}, {"1\n", true}, {"a:1\n", false}} {
		if err := addOnce(l, []byte(c.line), c.again); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(path)
	if want := "a:1\nb:1\n:1\n1\na:1\n"; err != nil || string(b) != want {
		t.Errorf("the file has %q, expected %q; %v", b, want, err)
	}
}

// TestLedgerWithoutRoom checks that a record for which there is no space is not in the file, not
// even in part, and that the caller gets the error.
func TestLedgerWithoutRoom(t *testing.T) {
	l, err := openLedger(filepath.Join(t.TempDir(), "accounting"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.add([]byte("first\n")); err != nil {
		t.Fatal(err)
	}
	if err := l.file.Close(); err != nil {
		t.Fatal(err)
	}
	if l.file, err = os.Open(l.path); err != nil { // which cannot be written
		t.Fatal(err)
	}
	if err := l.add([]byte("second\n")); err == nil || !strings.Contains(err.Error(), l.path) {
		t.Errorf("%v", err)
	}
	if err := l.reopen(); err != nil {
		t.Fatal(err)
	}
	if err := l.add([]byte("third\n")); err != nil {
		t.Error(err)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(l.path); err != nil || string(b) != "first\nthird\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestChangeThatIsRefused checks that a refused change leaves the configuration unchanged: existing
// files, and missing ones.
func TestChangeThatIsRefused(t *testing.T) {
	spool := t.TempDir()
	c := &configuration{spool: spool, base: qconf.Builtin(2)}
	use := func() error {
		_, _, err := c.read()
		return err
	}
	const path, good, bad = "queues/long.q", "qname long.q\nhostlist NONE\nslots 3\n", "qname long.q\nslots many\n"
	texts := func(text string) map[string][]byte { return map[string][]byte{path: []byte(text)} }
	if err := c.change(texts(bad), use); err == nil || strings.Contains(err.Error(), spool) {
		t.Errorf("a broken change of what is built in: %v", err)
	}
	if dir := c.current(); dir != "" {
		t.Errorf("there is a configuration in %s", dir)
	}
	if err := c.change(texts(good), use); err != nil {
		t.Fatal(err)
	}
	_, before, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	for what, files := range map[string]map[string][]byte{
		"a broken change": texts(bad), "one that nobody wants": {path: nil, "queues/short.q": []byte("qname short.q\nhostlist NONE\n")},
	} {
		wanted := true
		err := c.change(files, func() error {
			if err := use(); err != nil || !wanted || files[path] != nil {
				return err
			}
			wanted = false
			return errors.New("no")
		})
		if err == nil {
			t.Errorf("%s is taken", what)
		}
		if _, after, err := c.read(); err != nil || after != before {
			t.Errorf("after %s the configuration has version %s, and had %s: %v", what, after, before, err)
		}
	}
}

// TestChangeOfAMissingKindThatIsRefused checks that a refused change leaves nothing in a directory
// without objects of its kind: a change writes the built-in objects of the kind to files, too.
func TestChangeOfAMissingKindThatIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sched_conf"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := &configuration{spool: t.TempDir(), dir: dir, base: qconf.Builtin(2)}
	all := func() string {
		t.Helper()
		var names []string
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			names = append(names, strings.TrimPrefix(path, dir))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	before, changed := all(), ""
	err := c.change(map[string][]byte{"usersets/one": []byte("name one\n"), "pes/two": []byte("pe_name two\n")}, func() error {
		if changed == "" {
			changed = all()
			return errors.New("no")
		}
		return nil
	})
	if err == nil || !strings.Contains(changed, "/usersets/defaultdepartment") {
		t.Errorf("%v, with the files %s", err, changed)
	}
	if after := all(); after != before {
		t.Errorf("the directory has %s, and had %s", after, before)
	}
}
