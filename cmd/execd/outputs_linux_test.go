package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// command runs another command of execd as root, which must not wait for anything.
func (w *world) rootCommand(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if !late.Stop() {
		t.Fatalf("execd %s hangs; %s", strings.Join(args, " "), &errs)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// TestOutputsBelowUsers checks that root writes to no other place through a path in a user's
// directory, whatever the user has put there.
func TestOutputsBelowUsers(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for what, plant := range map[string]func(victim, out string) error{
		"a link":               func(victim, out string) error { return os.Symlink(victim, out) },
		"a link to a new name": func(victim, out string) error { return os.Symlink(filepath.Dir(victim)+"/planted", out) },
		"a relative link": func(victim, out string) error {
			to, err := filepath.Rel(filepath.Dir(out), victim)
			return errors.Join(err, os.Symlink(to, out))
		},
		"a link to a link": func(victim, out string) error {
			return errors.Join(os.Symlink(victim, out+"2"), os.Symlink(out+"2", out))
		},
		"a link by a descriptor":      func(victim, out string) error { return os.Symlink("/proc/self/root"+victim, out) },
		"a pipe":                      func(_, out string) error { return unix.Mkfifo(out, 0o666) },
		"another name of root's file": os.Link,
		"a link in place of the directory": func(victim, out string) error {
			return errors.Join(os.Remove(filepath.Dir(out)), os.Symlink(filepath.Dir(victim), filepath.Dir(out)))
		},
	} {
		for command, c := range map[string]struct {
			out  string // below the directory of the user
			args func(w *world, dir string) []string
		}{
			"run --json": {"out.json", func(_ *world, dir string) []string {
				return []string{"run", "--as", "alice", "-wd", "/", "--json", dir + "/out.json", "-b", "y", "true"}
			}},
			"simulate --out": {"answers.txt", func(w *world, dir string) []string {
				return []string{"simulate", "--case", w.dir + "/case", "--out", dir}
			}},
			"import --conf": {"conf", func(w *world, dir string) []string {
				return []string{"import", "--force", "--from", w.dir + "/from", "--conf", dir + "/conf"}
			}},
		} {
			t.Run(command+"/"+what, func(t *testing.T) {
				t.Parallel()
				w := inWorld(t, asRoot)
				w.write(t, "case/jobs.txt", "root: qstat\n")
				w.write(t, "case/input/queues/q", plainQueue)
				w.write(t, "from/queues/q", plainQueue)
				victim := w.rootFile(t, "victim/file", "precious\n", 0o644)
				dir := w.dir + "/given"
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				target := victim
				if command == "import --conf" { // which replaces directories
					target = filepath.Dir(victim)
					if strings.Contains(what, "name") {
						return
					}
				}
				if err := plant(target, filepath.Join(dir, c.out)); err != nil {
					t.Fatal(err)
				}
				for _, path := range []string{w.dir, dir} {
					if err := os.Lchown(path, alice, alice); err != nil {
						t.Fatal(err)
					}
				}
				r := w.rootCommand(t, c.args(w, dir)...)
				unchanged(t, victim, "precious\n")
				names, err := os.ReadDir(filepath.Dir(victim))
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range names {
					if info, err := n.Info(); err != nil || info.Size() != int64(len("precious\n")) {
						t.Errorf("root has made %s (%v): exit status %d, %s", n.Name(), err, r.status, r.stderr)
					}
				}
				// All files of a simulation, and what has several names, are replaced.
				if r.status == 0 && !strings.HasPrefix(what, "another name") && (command != "simulate --out" || strings.Contains(what, "directory")) {
					t.Errorf("nothing was said: %s", r.stderr)
				}
				if r.status != 0 && !strings.Contains(r.stderr, "which other users can put there: the directory ") && !strings.Contains(r.stderr, "not a directory") {
					t.Errorf("exit status %d, %s", r.status, r.stderr)
				}
			})
		}
	}
}

// TestOutputsOfRoot checks that the same commands write to directories in which only root can make
// links.
func TestOutputsOfRoot(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	roots := openDir(t)
	if err := errors.Join(os.Mkdir(roots+"/real", 0o755), os.Symlink("real", roots+"/dir"), os.Symlink("real/file", roots+"/link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{roots + "/dir/out", roots + "/link", w.dir + "/home/new", "relative", roots + "/../" + filepath.Base(roots) + "/up"} {
		r := w.run(t, "--as", "alice", "-wd", "/", "--json", name, "-b", "y", "true")
		if !filepath.IsAbs(name) {
			name = filepath.Join(w.dir, name)
		}
		b, err := os.ReadFile(name)
		if r.status != 0 || err != nil || !strings.HasPrefix(string(b), "{\n") {
			t.Errorf("%s: exit status %d, %s: %q, %v", name, r.status, r.stderr, b, err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for dir, want := range map[string]fs.FileMode{roots: 0, roots + "/real": 0, w.dir + "/home": 0} {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				t.Errorf("%s is left (%v, %v)", e.Name(), err, want)
			}
		}
	}
}

// TestLinksInDirectoryThatRootReads checks that links that a user has put into a directory that
// root reads as a whole do not lead to root's files.
func TestLinksInDirectoryThatRootReads(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	roots := openDir(t)
	secret := rootsOwn(t, roots, "secret", "-bogus root-knows\n")
	word := rootsOwn(t, roots, "word", "root-knows\n")
	w.write(t, "case/input/queues/q", plainQueue)
	w.write(t, "case/jobs.txt", "root: qsub -@ secret -b y true\n")
	w.write(t, "from/queues/q", plainQueue)
	w.write(t, "names/queues/q", plainQueue)
	w.write(t, "cell/common/bootstrap", "spooling_method classic\nqmaster_spool_dir "+roots+"/spool\n")
	if err := errors.Join(os.Symlink(secret, w.dir+"/case/secret"), os.Symlink(word, w.dir+"/from/managers"),
		os.Mkdir(roots+"/hidden", 0o700), os.WriteFile(roots+"/hidden/root-knows", nil, 0o600), os.Symlink(roots+"/hidden", w.dir+"/names/operators"),
		os.Mkdir(roots+"/spool", 0o700), os.WriteFile(roots+"/spool/managers", []byte("root-knows\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"out":  {"simulate", "--case", w.dir + "/case", "--out", w.dir + "/out"},
		"conf": {"import", "--from", w.dir + "/from", "--conf", w.dir + "/conf"},
		"list": {"import", "--from", w.dir + "/names", "--conf", w.dir + "/list"},
		"new":  {"import", "--from", w.dir + "/cell", "--conf", w.dir + "/new"},
	} {
		r := w.rootCommand(t, args...)
		if strings.Contains(r.stdout+r.stderr, "root-knows") {
			t.Errorf("%q prints it: %s%s", args, r.stdout, r.stderr)
		}
		_ = filepath.WalkDir(w.dir+"/"+name, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "root-knows") {
					t.Errorf("%q has written it to %s (%v)", args, path, err)
				}
			}
			return nil
		})
		t.Logf("%q: exit status %d, %s%s", args, r.status, r.stdout, r.stderr)
	}
	// Where everybody can have put something, nobody's rights are the right ones.
	shared := openDir(t)
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if r := w.rootCommand(t, "import", "--from", shared, "--conf", w.dir+"/shared"); r.status != 3 || !strings.Contains(r.stderr, "may be written by everybody") {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestNiceValue checks that a job of execd run has the nice value with which execd run was started,
// unless a queue of the user's configuration sets another one.
func TestNiceValue(t *testing.T) {
	w := inWorld(t, asRoot)
	w.write(t, "conf/queues/q", plainQueue+"priority 9\n")
	for want, options := range map[string][]string{"6\n": nil, "9\n": {"--conf", "conf"}} {
		cmd := w.command(append(append([]string{"run", "--as", "alice"}, options...), "-b", "y", "nice")...)
		cmd.Args = append([]string{"sh", "-c", `renice -n 6 -p $$ >/dev/null; exec "$0" "$@"`}, cmd.Args...)
		cmd.Path = "/bin/sh"
		if r := finish(t, cmd); r.stdout != want {
			t.Errorf("%q: %+v, expected %s", options, r, want)
		}
	}
}
