package qclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/testenv"
)

// TestWorkingDirectoryIsNoLink checks that a job with -cwd runs where it was submitted, also if the
// submitter reached the directory through a link that is replaced before the job starts.
func TestWorkingDirectoryIsNoLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "current")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "release"), 0o700), os.Symlink("release", link)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link) // also sets PWD
	if got, err := workingDirectory(); err != nil || got != filepath.Join(dir, "release") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRemovedWorkingDirectory checks that commands which do not need the working directory work after it
// has been removed: a program that watches jobs must not take that for the end of its jobs.
func TestRemovedWorkingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "removed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for name, works := range map[string]bool{"qstat": true, "qdel": true, "qconf": true, "qsub": false, "qalter": false} {
		c := &Command{Name: name, Args: []string{"1"}, Stderr: io.Discard}
		if _, _, err := c.request(t.Context()); (err == nil) != works {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefaultOptionsInSharedDirectory checks that a file with default options in a directory that
// others can write to is read if it is a regular file of the user. Nothing else at its path delays
// the command.
func TestDefaultOptionsInSharedDirectory(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(elsewhere, []byte("-N linked\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(path string) error { return os.WriteFile(path, []byte("-N own\n"), 0o600) }
	link := func(path string) error { return os.Symlink(elsewhere, path) }
	pipe := func(path string) error { return unix.Mkfifo(path, 0o666) }
	for name, c := range map[string]struct {
		make       func(path string) error
		home       bool
		want, warn string
	}{
		"a file":                  {make: write, want: "-N own\n"},
		"a link":                  {make: link, warn: "it is a symbolic link, expected a regular file"},
		"a link, at home":         {make: link, home: true, want: "-N linked\n"},
		"a pipe":                  {make: pipe, warn: "it is a pipe, expected a regular file"},
		"a pipe, at home":         {make: pipe, home: true, warn: "it is a pipe, expected a regular file"},
		"a link to a pipe":        {make: func(path string) error { return errors.Join(pipe(path+"x"), os.Symlink(path+"x", path)) }, warn: "it is a symbolic link, expected a regular file"},
		"a directory":             {make: func(path string) error { return os.Mkdir(path, 0o700) }, warn: "it is a directory, expected a regular file"},
		"another name of a file":  {make: func(path string) error { return errors.Join(write(path), os.Link(path, path+"2")) }, warn: "it has several hard links"},
		"another name, at home":   {make: func(path string) error { return errors.Join(write(path), os.Link(path, path+"2")) }, home: true, want: "-N own\n"},
		"nothing":                 {make: func(string) error { return nil }},
		"a file of somebody else": {make: func(path string) error { return errors.Join(write(path), os.Chown(path, 12345, -1)) }, warn: "it belongs to user ID 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, home := t.TempDir(), t.TempDir()
			if c.home {
				home = dir
			}
			path := filepath.Join(dir, ".sge_request")
			if strings.Contains(name, "somebody else") {
				testenv.Require(t, testenv.Root) // who alone gives files away
			}
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			var warnings strings.Builder
			text, err := (&Command{Stderr: &warnings}).read(t.Context(), command.NeededFile{Name: path}, dir, home)
			if string(text) != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v", text, err)
			}
			want := ""
			if c.warn != "" {
				want = "warning: " + path + " is not read: " + c.warn + "\n"
			}
			if warnings.String() != want {
				t.Errorf("warned %q, want %q", warnings.String(), want)
			}
		})
	}
}

// TestUnusableDefaultOptionsFailCommand checks that default options that cannot be used make the
// command fail: they are not ignored silently.
func TestUnusableDefaultOptionsFailCommand(t *testing.T) {
	for name, c := range map[string]struct {
		size int64
		text string
		want string
	}{
		"100 MB of zeros": {size: 100 << 20, want: "it has more than 4 MiB, which is the limit"},
		"a zero byte":     {text: "-N x\n-o \x00\n", want: "it contains a zero byte: it is not a text file"},
		"much text":       {text: strings.Repeat("# a comment\n", 400_000), want: "it has more than 4 MiB, which is the limit"},
	} {
		for _, file := range []string{".sge_request", ".sge_qstat", ".sge_ar_request"} {
			t.Run(name+" in "+file, func(t *testing.T) {
				home := t.TempDir()
				path := filepath.Join(home, file)
				if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Truncate(path, max(c.size, int64(len(c.text))))); err != nil {
					t.Fatal(err)
				}
				var warnings strings.Builder
				_, err := (&Command{Stderr: &warnings}).read(t.Context(), command.NeededFile{Name: path}, "/", home)
				if want := fmt.Sprintf("cannot read the default options in %q: %s", path, c.want); !errors.As(err, new(*defaultsError)) || err.Error() != want {
					t.Errorf("%v, want %s", err, want)
				}
			})
		}
	}
}

// TestNamedFiles checks that a file that the user names may be a link or a pipe, and that the
// command waits for it until a signal comes.
func TestNamedFiles(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "script"), []byte("sleep 1\n"), 0o600), os.Symlink("script", filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &Command{Stderr: &strings.Builder{}}
	if text, err := c.read(t.Context(), command.NeededFile{Name: "link"}, dir, ""); err != nil || string(text) != "sleep 1\n" {
		t.Errorf("%q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.read(ctx, command.NeededFile{Name: "pipe"}, dir, ""); !errors.Is(err, errInterrupted) {
		t.Errorf("%v", err)
	}
	// With a writer the one who still waits for the pipe comes to an end.
	f, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// TestNestedFiles checks that the command does not wait for files that a script or an option file
// names.
func TestNestedFiles(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "options"), []byte("-N n\n"), 0o600), os.Symlink("options", filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	c := &Command{Stderr: &strings.Builder{}}
	for name, want := range map[string]string{
		"options": "", "link": "", "pipe": "it is a pipe, expected a regular file", "/dev/zero": "it is a device, expected a regular file",
		"/": "it is a directory, expected a regular file", "missing": "No such file or directory",
	} {
		text, err := c.read(t.Context(), command.NeededFile{Name: name, Nested: true}, dir, "")
		switch {
		case want == "" && (err != nil || string(text) != "-N n\n"):
			t.Errorf("%s: %q, %v", name, text, err)
		case want != "" && (err == nil || reason(err) != want):
			t.Errorf("%s: %q, %v; expected %q", name, text, err, want)
		}
	}
}
