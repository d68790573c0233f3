package oslite

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 2047, 2048, 2049, 100_000} {
		want := bytes.Repeat([]byte("x"), size)
		path := filepath.Join(dir, strconv.Itoa(size))
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
	}
	if b, err := Read("/proc/self/status"); err != nil || !bytes.HasPrefix(b, []byte("Name:")) {
		t.Errorf("/proc/self/status is %q, %v", b, err)
	}
	for _, path := range []string{dir + "/none", dir + "/none/file"} {
		if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Read(dir); err == nil {
		t.Error("a directory was read as a file")
	}
}

// TestKeptFileIsReadAgain checks that a file that is kept open is read with its current contents
// and length; a missing or unreadable one is opened again.
func TestKeptFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	k := Kept{Path: path}
	defer k.Close()
	if _, err := k.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	for _, size := range []int{3, 511, 512, 100_000, 0, 2} {
		want := bytes.Repeat([]byte{byte('a' + size%26)}, size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := k.Read()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: read %q, %v", size, got, err)
		}
	}
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Read(); err != nil || len(got) != 2 {
		t.Errorf("what is open is not read: %q, %v", got, err)
	}
	k.Close()
	k.Close()
	if _, err := k.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
	dir := Kept{Path: t.TempDir()}
	if _, err := dir.Read(); err == nil || dir.file != 0 {
		t.Errorf("a directory was read as a file, or is kept: %v", err)
	}
	load := Kept{Path: "/proc/uptime"}
	defer load.Close()
	first, err := load.Read()
	if err != nil || len(first) == 0 {
		t.Fatalf("%q, %v", first, err)
	}
	was := string(first)
	for deadline := time.Now().Add(time.Minute); ; {
		if now, err := load.Read(); err != nil || string(now) != was || time.Now().After(deadline) {
			if err != nil || string(now) == was {
				t.Errorf("/proc/uptime stays %q, %v", was, err)
			}
			return
		}
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 500 { // more than the buffer holds
		want = append(want, "a file with a long name "+strconv.Itoa(1000+i))
	}
	want = append(want, "12", "7", "x9")
	for _, name := range want {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Names(dir)
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d names, %v", len(got), err)
	}
	numbers, err := Numbers(dir)
	slices.Sort(numbers)
	if err != nil || !slices.Equal(numbers, []int{7, 12}) {
		t.Errorf("numbers %v, %v", numbers, err)
	}
	if _, err := Names(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Names("/proc/self/status"); err == nil {
		t.Error("a file was read as a directory")
	}
}
