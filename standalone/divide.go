package standalone

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/standalone/store"
)

// Confirm prepares the jobs of a daemon of one process for a launcher, which starts only what users have confirmed: it
// calls add with the digests of all jobs, and then stores the keys of these with the jobs. It runs as root, before a
// front could have changed the jobs. It may be repeated.
func Confirm(h *daemon.Host, c clock.Clock, add func([]daemon.Confirmed) error) (err error) {
	m, err := New(h, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var list []daemon.Confirmed
	var changes []store.Change
	for _, j := range m.cell.Jobs() {
		key := j.Submission
		if key == "" {
			key = rand.Text()
			change := m.cell.Confirmed(j, key)
			changes = append(changes, store.Change{Key: change.Key, Value: change.Value})
		}
		digest := command.Submitted(j, j.Request(), m.terminals[j.ID()] != nil).Digest(key)
		list = append(list, daemon.Confirmed{Job: int(j.ID()), Owner: j.Owner(), Key: key, Digest: digest})
	}
	// The digests are on the disk before the keys: a job whose key the launcher does not know could not start.
	if err := add(list); err != nil {
		return fmt.Errorf("cannot confirm jobs: %w", err)
	}
	if len(changes) == 0 {
		return nil
	}
	return m.store.Commit(changes)
}
