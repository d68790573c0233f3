package jobdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/job"
)

// TestOthersLockNoDirectory checks that other users cannot lock the directories. A user with a lock
// could prevent the start or the report of a job, or the start of a daemon.
func TestOthersLockNoDirectory(t *testing.T) {
	needRoot(t)
	path := filepath.Join(publicDir(t, 0o755), "spool")
	for _, name := range []string{"", dirActiveJobs, dirJobScripts} {
		must(t, os.Mkdir(filepath.Join(path, name), 0o755)) // the mode of an earlier version
	}
	s, err := OpenSpool(path)
	must(t, err)
	defer s.Close()
	dir, err := s.Create(simple(job.ID{Job: 1}), CreateOptions{})
	must(t, err)
	defer dir.Close()
	for _, p := range []string{path, filepath.Join(path, dirActiveJobs), filepath.Join(path, dirJobScripts), dir.Path()} {
		info, err := os.Stat(p)
		must(t, err)
		if mode := info.Mode().Perm(); mode&0o044 != 0 || mode&0o011 != 0o011 {
			t.Errorf("%s has mode %04o, expected that others can pass and not read", p, mode)
		}
	}
}
