package qacct

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/accounting"
)

// within runs a call that could block, with a timeout.
func within(t *testing.T, stdin *os.File, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := Command{Args: args, Stdin: stdin, Stdout: &o, Stderr: &e, Now: noon}
		status, _ = c.Run()
	}()
	select {
	case <-done:
		return status, o.String(), e.String()
	case <-time.After(2 * time.Minute):
		t.Fatalf("qacct %q does not end", args)
		return 0, "", ""
	}
}

func TestSpecialFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		fifo:              "it is a pipe",
		"/dev/zero":       "it is a device",
		dir:               "it is a directory",
		"/dev/../dev/tty": "it is a device",
	} {
		status, out, errs := within(t, nil, "-f", file)
		if status != ExitFailed || out != "no jobs running since startup\n" || !strings.Contains(errs, file+": ") || !strings.Contains(errs, want) {
			t.Errorf("qacct -f %s: status %d, %q, %q", file, status, out, errs)
		}
	}
}

// TestEndlessInput checks that qacct stops reading inherited input that never ends.
func TestEndlessInput(t *testing.T) {
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	status, _, errs := within(t, zero, "-f", "-")
	if status != ExitFailed || !strings.Contains(errs, "cannot read the standard input: line 1: the line has more than 256 MiB") {
		t.Errorf("status %d, %q", status, errs)
	}
}

// TestInheritedPipe checks that qacct reads a pipe that the caller has opened: qacct -f <(zcat
// accounting.1.gz).
func TestInheritedPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, _ = w.Write(accounting.AppendClassic(nil, example(7)))
	w.Close()
	name := filepath.Join("/dev/fd", strconv.Itoa(int(r.Fd())))
	status, out, errs := within(t, nil, "-f", name, "-j", "7")
	if status != ExitGood || !strings.Contains(out, "\njobnumber    7 ") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

func TestCompressedFile(t *testing.T) {
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	_, _ = z.Write(accounting.AppendClassic(nil, example(7)))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "accounting.1.gz")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := call(t, "", "", "-f", file, "-j", "7")
	if want := "error: cannot read " + file + ": it is compressed with gzip; use zcat FILE | qacct -f -\n"; status != ExitFailed || out != "" || errs != want {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

// TestLongLine checks that a line that is too long for a record is reported, and makes the command
// fail.
func TestLongLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accounting")
	text := append(bytes.Repeat([]byte("x"), 150<<20), '\n')
	if err := os.WriteFile(file, accounting.AppendClassic(text, example(7)), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := call(t, "", "", "-f", file)
	if status != ExitFailed || !strings.Contains(errs, "line 1 of "+file+": the line has more than 4 MiB, which is the limit\n") {
		t.Errorf("status %d, %q", status, errs)
	}
	if !strings.Contains(out, "3600") {
		t.Errorf("the record behind it is not counted: %s", out)
	}
}
