package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/job"
)

func TestWatcher(t *testing.T) {
	for name, watched := range map[string]bool{"watched": true, "looked at": false} {
		t.Run(name, func(t *testing.T) {
			w := newWatcher(hclog.NewNullLogger())
			defer w.close()
			if !watched && w.notify != nil {
				_ = w.notify.Close() // as a file system that tells nothing
			}
			dir := t.TempDir()
			called := make(chan bool, 100)
			remove := w.add(dir, func(string) {
				select {
				case called <- true:
				default:
				}
			})
			if err := os.WriteFile(filepath.Join(dir, "pid"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			select {
			case <-called:
			case <-time.After(patience):
				t.Fatal("nobody was told of a new file")
			}
			// The next job in that directory is not concerned by what ends the previous watch.
			again := make(chan bool, 1)
			next := w.add(dir, func(name string) {
				if name != "job_pid" && watched { // of the first one
					return
				}
				select {
				case again <- true:
				default:
				}
			})
			remove()
			remove()
			if err := os.WriteFile(filepath.Join(dir, "job_pid"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			select {
			case <-again:
			case <-time.After(patience):
				t.Fatal("the next watch has ended with the former one")
			}
			next()
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := len(w.dirs) + len(w.polled); n != 0 {
				t.Errorf("%d directories are left", n)
			}
		})
	}
}

// TestChangesThatWake checks that only the files that the goroutine of a job waits for wake it.
func TestChangesThatWake(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "pid": true, "job_pid": true, "terminal": true,
		".pid.new": false, ".job_pid.new": false, "trace": false, "error": false, "usage_online": false, ".usage_online.new": false,
	} {
		e := newEntry(job.ID{Job: 1}, Record{})
		e.noticeChange(name)
		if got := len(e.wake) == 1; got != want {
			t.Errorf("a change of %q wakes the goroutine: %v, expected %v", name, got, want)
		}
	}
}
