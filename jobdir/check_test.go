package jobdir

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// TestCheck replaces the area and its directories, and expects Check to notice.
func TestCheck(t *testing.T) {
	s := newSpool(t)
	must(t, s.Check())
	for _, path := range []string{s.path, s.path + "/" + dirActiveJobs, s.path + "/" + dirJobScripts} {
		must(t, os.Rename(path, path+".aside"))
		if err := s.Check(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without %s: %v", path, err)
		}
		must(t, os.Mkdir(path, 0o755))
		if err := s.Check(); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("with another %s: %v", path, err)
		}
		must(t, os.Remove(path))
		must(t, os.Rename(path+".aside", path))
		must(t, s.Check())
	}
}

// TestTrial checks that a trial is not listed as a job, and each trial begins with an empty directory.
func TestTrial(t *testing.T) {
	s := newSpool(t)
	for range 2 {
		d, err := s.BeginTrial()
		must(t, err)
		if names, err := list(d.fd); err != nil || len(names) > 2 {
			t.Errorf("it begins with %q, %v", names, err)
		}
		must(t, d.WriteFile(FilePID, []byte("1\n")))
		must(t, d.WriteFile(FileConfig, nil))
		must(t, d.Close())
		if ids, err := s.Jobs(); err != nil || len(ids) > 0 {
			t.Errorf("it is taken for the jobs %v, %v", ids, err)
		}
	}
	must(t, s.RemoveTrial())
	must(t, s.RemoveTrial())
	if entries, err := os.ReadDir(s.path + "/" + dirActiveJobs); err != nil || len(entries) > 0 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
