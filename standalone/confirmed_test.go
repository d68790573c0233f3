package standalone

import (
	"context"
	"slices"
	"testing"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/submit"
)

// TestKeepAfterCommit checks that the launcher is told to forget submissions only after what the jobs have instead of
// them is in the store: without that the jobs have the old ones.
func TestKeepAfterCommit(t *testing.T) {
	for _, fails := range []bool{false, true} {
		m, _ := testMaster(t)
		r, err := submit.Parse(submit.Input{Args: []string{"-h", "-b", "y", "true"}, Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.cell.Submit(1, cell.Caller{User: "alice", Group: "users", Host: "node1", Submission: "key"}, r); err != nil {
			t.Fatal(err)
		}
		m.events, m.stopped, m.commands = make(chan func()), make(chan struct{}), healthy{}
		m.host.Cluster = m.cell.Cluster
		told := make(chan []string, 2)
		m.host.Keep = func(keys []string) error {
			told <- keys
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.keepSubmissions(ctx)
		}()
		(<-m.events)()
		if fails {
			if err := m.store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.commit(); (err != nil) != fails {
			t.Fatal(err)
		}
		if !fails {
			if keys := <-told; !slices.Equal(keys, []string{"key"}) {
				t.Errorf("the launcher keeps %q", keys)
			}
		}
		cancel()
		<-done
		if len(told) > 0 {
			t.Errorf("after a commit that has failed (%t) the launcher keeps %q", fails, <-told)
		}
	}
}
