package scripts

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/testenv"
)

func write(t *testing.T, f *Folder, text []byte) (sum string) {
	t.Helper()
	sum = cell.ScriptSum(text)
	if err := errors.Join(f.Write(sum, text), f.Sync()); err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestTexts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scripts")
	f := In(path)
	if err := f.Sweep(nil); err != nil { // there is none
		t.Error(err)
	}
	texts := [][]byte{[]byte("#!/bin/sh\n"), bytes.Repeat([]byte{0, 0xff}, 1<<20), {}}
	for _, text := range texts {
		for range 2 {
			write(t, f, text)
		}
	}
	for _, f := range []*Folder{f, In(path)} {
		var reading sync.WaitGroup
		for _, text := range texts {
			for range 4 {
				reading.Go(func() {
					if got, err := f.Read(cell.ScriptSum(text)); err != nil || !bytes.Equal(got, text) {
						t.Errorf("%d bytes, expected %d, %v", len(got), len(text), err)
					}
				})
			}
		}
		reading.Wait()
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != len(texts) {
		t.Errorf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(path, "x"+newSuffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	needed := cell.ScriptSum(texts[0])
	if err := f.Sweep(func(sum string) bool { return sum == needed }); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) != 1 || entries[0].Name() != needed {
		t.Errorf("%v, %v", entries, err)
	}
	for range 2 { // also where it is gone
		if err := f.Remove(needed); err != nil {
			t.Error(err)
		}
	}
}

// TestLostTexts checks that the error for a lost or wrong text differs from the error of a disk
// that fails.
func TestLostTexts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scripts")
	for name, damage := range map[string]func(file string) error{
		"gone":      os.Remove,
		"truncated": func(file string) error { return os.Truncate(file, 3) },
		"changed":   func(file string) error { return os.WriteFile(file, []byte("#!/bin/sh\nrm\n"), 0o600) },
	} {
		sum := write(t, In(path), []byte("#!/bin/sh\n: "+name))
		if err := damage(filepath.Join(path, sum)); err != nil {
			t.Fatal(err)
		}
		if text, err := In(path).Read(sum); !errors.Is(err, ErrLost) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	sum := cell.ScriptSum([]byte("x"))
	if err := os.Mkdir(filepath.Join(path, sum), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := In(path).Read(sum); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("what cannot be read: %v", err)
	}
}

// TestFullDisk checks that a text that does not fit leaves no file behind, and that removing a text
// frees its space.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f := In(filepath.Join(dir, "scripts"))
	text := func(i byte) []byte { return bytes.Repeat([]byte{i}, 300<<10) }
	for i := range byte(3) {
		write(t, f, text(i))
	}
	sum := cell.ScriptSum(text(3))
	if err := f.Write(sum, text(3)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(f.path); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := f.Remove(cell.ScriptSum(text(0))); err != nil {
		t.Error(err)
	}
	write(t, f, text(3))
}
