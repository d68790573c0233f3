package standalone

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/standalone/store"
)

// checkpoints holds, for tasks that have migrated, the data for their restart (qsub(1), -ckpt),
// which the cell does not use.
type checkpoints map[string]checkpoint

type checkpoint struct {
	Restart job.Restart `json:"restart"`
	PID     int         `json:"pid,omitempty"` // of the process that was checkpointed
}

// checkpointPrefix begins the keys of their records.
const checkpointPrefix = ownPrefix + "checkpoint/"

func checkpointKey(job, task uint32) string {
	return fmt.Sprintf("%s%d.%d", checkpointPrefix, job, task)
}

// keepCheckpoint records the data for the restart of a task in the next commit.
func (m *Master) keepCheckpoint(r *run, o *job.Outcome) {
	key := checkpointKey(r.job, r.task)
	c := checkpoint{o.Restart, o.CheckpointPID}
	if m.checkpoints[key] == c {
		return
	}
	change := store.Change{Key: key}
	if o.Restart == job.FirstRun {
		delete(m.checkpoints, key)
	} else {
		m.checkpoints[key] = c
		change.Value, _ = json.Marshal(c) // numbers can be encoded
	}
	m.batch.records = append(m.batch.records, change)
}

// forgetCheckpoints removes the records of a job that has left the queue.
func (m *Master) forgetCheckpoints(job uint32) {
	for key := range m.checkpoints {
		if strings.HasPrefix(key, fmt.Sprintf("%s%d.", checkpointPrefix, job)) {
			delete(m.checkpoints, key)
			m.batch.records = append(m.batch.records, store.Change{Key: key})
		}
	}
}

// restoreCheckpoints reads the records from the store.
func (m *Master) restoreCheckpoints() {
	m.checkpoints = checkpoints{}
	for key, value := range m.store.All(checkpointPrefix) {
		var c checkpoint
		if err := json.Unmarshal(value, &c); err != nil {
			m.log.Warn("a job will be run again without its checkpoint", "record", key, "error", err)
			continue
		}
		m.checkpoints[key] = c
	}
}
