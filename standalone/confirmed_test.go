package standalone

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/submit"
)

// TestKeepAfterCommit checks that the master lets the launcher forget submissions only after the store has the
// submissions that replace them: if the commit fails, the jobs still need the old ones.
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

// TestAmendedIsBounded checks that a message of a user confirms each job once, and not any number of jobs: the digest of
// each is computed while all other users wait.
func TestAmendedIsBounded(t *testing.T) {
	many := make([]api.Amended, command.MostAmended+1)
	for i := range many {
		many[i] = api.Amended{Job: uint32(i), Key: "k", Digest: "d"}
	}
	for _, c := range []struct {
		list []api.Amended
		want string
	}{
		{many, "at most 4096"},
		{[]api.Amended{many[1], many[2], many[1]}, "confirms job 1 twice"},
		{many[1:], ""},
		{nil, ""},
	} {
		of, err := amended(c.list)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Message, c.want) || err == nil && len(of) != len(c.list) {
			t.Errorf("of %d confirmations %d are taken (%v), expected %q", len(c.list), len(of), err, c.want)
		}
	}
	if of, _ := amended(nil); of != nil {
		t.Error("a client that was not asked seems to have been asked")
	}
}
