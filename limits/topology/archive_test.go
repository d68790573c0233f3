package topology

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A machine is a text archive of testdata: the files of sysfs, with one directory per line, and the
// expected result.
type machine struct {
	name    string
	files   map[string]string // by absolute path
	allowed Allowed
}

// read returns a Reader of the machine's files.
func (m machine) read(path string) ([]byte, error) {
	text, ok := m.files[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(text + "\n"), nil
}

// loadMachine reads an archive; testdata/README describes the format.
func loadMachine(t testing.TB, path string) machine {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := machine{name: strings.TrimSuffix(filepath.Base(path), ".txt"), files: map[string]string{}}
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		dir, rest, found := strings.Cut(line, ": ")
		if !found {
			t.Fatalf("%s:%d: cannot read %q: expected DIR: NAME=VALUE; NAME=VALUE", path, i+1, line)
		}
		for item := range strings.SplitSeq(rest, "; ") {
			name, value, found := strings.Cut(item, "=")
			if !found {
				t.Fatalf("%s:%d: cannot read %q: expected NAME=VALUE", path, i+1, item)
			}
			if dir != "allowed" {
				m.files["/sys/devices/system/"+dir+"/"+name] = value
				continue
			}
			set, err := ParseList(value)
			if err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			switch name {
			case "cpus":
				m.allowed.CPUs = set
			case "mems":
				m.allowed.Mems = set
			default:
				t.Fatalf("%s:%d: cannot allow %q", path, i+1, name)
			}
		}
	}
	return m
}

func machines(t testing.TB) []machine {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archives in testdata: %v", err)
	}
	var ms []machine
	for _, p := range paths {
		ms = append(ms, loadMachine(t, p))
	}
	return ms
}
