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
