package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// promptly runs execd run, which must not wait for anything, and certainly not for a user.
func (w *world) promptly(t *testing.T, stdin *os.File, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	cmd := w.command(append([]string{"run"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if !late.Stop() {
		t.Fatalf("execd run %s hangs; %s", strings.Join(args, " "), &errs)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// rootsOwn makes a file that only root may read, at a place that only root can change.
func rootsOwn(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNamesInScripts checks that root reads files that a script or an option file names with the
// rights of the user, because the author of the script chose the names.
func TestNamesInScripts(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	roots := openDir(t) // as root's own as /root
	secret := rootsOwn(t, roots, "secret", "-v SECRET=root-knows\n")
	options := rootsOwn(t, roots, "options", "-@ "+secret+"\n")
	link := w.dir + "/link"
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	fifo(t, w, "pipe")
	if err := os.WriteFile(w.dir+"/endless", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(w.dir+"/endless", 1<<40); err != nil {
		t.Fatal(err)
	}
	nested := w.write(t, "nested", "-@ "+secret+"\n")
	// A file that everybody could read, in a directory that only root may enter; execd has
	// it open.
	if err := os.Mkdir(roots+"/closed", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(roots+"/closed/open", []byte("-v SECRET=root-knows\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(roots + "/closed/open")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for what, c := range map[string]struct{ name, want string }{
		"a file of root's":                {secret, "permission denied for user alice"},
		"a relative name of it":           {strings.Repeat("../", 20) + secret[1:], "permission denied for user alice"},
		"a link to it":                    {link, "permission denied for user alice"},
		"a file that names it":            {nested, "permission denied for user alice"},
		"a named pipe":                    {w.dir + "/pipe", "a pipe, expected a regular file"},
		"a device":                        {"/dev/zero", "a device, expected a regular file"},
		"a terminal":                      {"/dev/ptmx", "a device, expected a regular file"},
		"a directory":                     {w.dir, "a directory, expected a regular file"},
		"a descriptor of execd":           {"/proc/self/fd/0", "open " + roots + "/closed/open: permission denied for user alice"},
		"standard input":                  {"/dev/stdin", "open " + roots + "/closed/open: permission denied for user alice"},
		"the root directory of a process": {"/proc/self/root/" + secret, "permission denied"},
		"the environment of execd":        {"/proc/self/environ", "permission denied"},
		"a file without an end":           {w.dir + "/endless", "more than"},
		"a name that is too long":         {"/" + strings.Repeat("x", 300), "file name too long"},
		"the memory of a process":         {"/proc/1/mem", "permission denied"},
	} {
		t.Run(what, func(t *testing.T) {
			job := w.write(t, "job-"+strings.ReplaceAll(what, " ", "-"), "#!/bin/sh\n#$ -@ "+c.name+"\necho \"<$SECRET>\"\n")
			r := w.promptly(t, open, "--as", "alice", "-cwd", job)
			if r.status != 125 && r.status != 2 || r.stdout != "" || !matches(c.want, r.stderr) || strings.Contains(r.stderr, "root-knows") {
				t.Errorf("exit status %d, output %q, %s", r.status, r.stdout, r.stderr)
			}
		})
	}
	t.Run("in a file of options of root's own", func(t *testing.T) {
		r := w.promptly(t, nil, "--as", "alice", "-cwd", "-@", options, "-b", "y", "echo", "$SECRET")
		if r.status != 125 || r.stdout != "" || !strings.Contains(r.stderr, "permission denied") {
			t.Errorf("exit status %d, output %q, %s", r.status, r.stdout, r.stderr)
		}
	})
	t.Run("root's own name counts", func(t *testing.T) {
		r := w.promptly(t, nil, "--as", "alice", "-cwd", "-@", secret, "-b", "y", "echo", "$SECRET")
		if r.status != 0 || r.stdout != "root-knows\n" {
			t.Errorf("exit status %d, output %q, %s", r.status, r.stdout, r.stderr)
		}
	})
	t.Run("the user's own file counts", func(t *testing.T) {
		own := w.write(t, "own", "-v SECRET=of-alice\n")
		if err := os.Chmod(own, 0o600); err != nil {
			t.Fatal(err)
		}
		job := w.write(t, "job-own", "#!/bin/sh\n#$ -@ own\necho $SECRET\n")
		if r := w.promptly(t, nil, "--as", "alice", "-cwd", job); r.status != 0 || r.stdout != "of-alice\n" {
			t.Errorf("exit status %d, output %q, %s", r.status, r.stdout, r.stderr)
		}
	})
}

// TestNamesThatUsersExchange replaces a file that root has named before root reads it.
func TestNamesThatUsersExchange(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	fifo(t, w, "pipe")
	for _, args := range [][]string{{"pipe"}, {"-@", "pipe", "-b", "y", "true"}} {
		r := w.promptly(t, nil, append([]string{"--as", "alice", "-cwd"}, args...)...)
		if r.status != 125 || !strings.Contains(r.stderr, "expected a regular file") {
			t.Errorf("%q: exit status %d, %s", args, r.status, r.stderr)
		}
	}
}

// TestOptionAsAppliesToEarlierOptions checks that --as applies to files that are named before it on
// the command line, too, and to the owner of the job.
func TestOptionAsAppliesToEarlierOptions(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	options := w.write(t, "options", "-N named\n")
	job := w.write(t, "job", "#!/bin/sh\necho $(id -un) $JOB_NAME\n")
	for _, args := range [][]string{
		{"-@", options, "--as", "alice", "-cwd", job},
		{"--as", "alice", "-@", options, "-cwd", job},
		{"-cwd", "-@", options, "--as=alice", job},
	} {
		if r := w.promptly(t, nil, args...); r.status != 0 || r.stdout != "alice named\n" {
			t.Errorf("%q: exit status %d, output %q, %s", args, r.status, r.stdout, r.stderr)
		}
	}
}

// TestDefaultOptionsOfAnotherHome checks that root does not use default options from a directory
// that is not root's: under sudo and su, HOME may be that of the user.
func TestDefaultOptionsOfAnotherHome(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	roots := openDir(t)
	secret := rootsOwn(t, roots, "secret", "-v SECRET=root-knows\n")
	planted := w.dir + "/home/.sge_request"
	job := w.write(t, "job", "#!/bin/sh\necho \"<$SECRET>\"\n")
	for what, plant := range map[string]func() error{
		"a link to a file of root's": func() error { return os.Symlink(secret, planted) },
		"a link to another link": func() error {
			return os.Symlink(fmt.Sprintf("/proc/self/root%s", secret), planted)
		},
		"a file that names one": func() error { return os.WriteFile(planted, []byte("-@ "+secret+"\n"), 0o644) },
		"a named pipe":          func() error { return unix.Mkfifo(planted, 0o666) },
	} {
		if err := os.RemoveAll(planted); err != nil {
			t.Fatal(err)
		}
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		r := w.promptly(t, nil, "--as", "alice", "-wd", "/", job)
		if strings.Contains(r.stdout+r.stderr, "root-knows") || r.status == 0 && r.stdout != "<>\n" {
			t.Errorf("%s: exit status %d, output %q, %s", what, r.status, r.stdout, r.stderr)
		}
	}
}
