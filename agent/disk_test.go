package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLargeTmpdir checks that a job with many files in its TMPDIR does not take the host out of service: the agent must not
// take the time of their removal for that of a disk that does not answer.
func TestLargeTmpdir(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "/bin/true")
	w.mustStart(s)
	end := w.await(s.ID, Ended, Reported)
	w.agent.table.mu.Lock()
	var dir string
	for _, e := range w.agent.table.jobs {
		dir = e.run.Description.Tmpdir
	}
	w.agent.table.mu.Unlock()
	const many = 500
	for i := range many {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.agent.AcknowledgeJob(t.Context(), s.ID, end.Number); err != nil {
		t.Fatal(err)
	}
	d := w.agent.disk
	for deadline := time.Now().Add(patience); ; {
		d.mu.Lock()
		for write := range d.writes {
			if strings.HasPrefix(write.what, "removing the directory") {
				t.Errorf("the agent takes it for a write: %s", write.what)
				deadline = time.Now()
			}
		}
		d.mu.Unlock()
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) || !time.Now().Before(deadline) {
			break
		}
	}
	w.gone(s.ID)
}
