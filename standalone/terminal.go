package standalone

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/standalone/store"
)

// terminalPrefix begins the keys of records of the terminals of interactive jobs, by their
// numbers.
const terminalPrefix = ownPrefix + "terminal/"

// keepTerminal notes that a job is interactive, in the commit that has the job.
func (m *Master) keepTerminal(job uint32, t *launch.Interactive) {
	m.terminals[job] = t
	value, _ := json.Marshal(t) // numbers and a text can be encoded
	m.batch.records = append(m.batch.records, store.Change{Key: terminalPrefix + strconv.Itoa(int(job)), Value: value})
}

// forgetTerminals removes the terminals of jobs that have left the queue, with the next commit.
func (m *Master) forgetTerminals() {
	for job := range m.terminals {
		if m.cell.Job(job) == nil {
			delete(m.terminals, job)
			m.batch.records = append(m.batch.records, store.Change{Key: terminalPrefix + strconv.Itoa(int(job))})
		}
	}
}

// restoreTerminals reads the terminals from the store.
func (m *Master) restoreTerminals() {
	m.terminals = map[uint32]*launch.Interactive{}
	for key, value := range m.store.All(terminalPrefix) {
		job, err := strconv.ParseUint(strings.TrimPrefix(key, terminalPrefix), 10, 32)
		t := &launch.Interactive{}
		if err == nil {
			err = json.Unmarshal(value, t)
		}
		if err != nil {
			m.log.Warn("a job has lost its terminal", "record", key, "error", err)
			continue
		}
		m.terminals[uint32(job)] = t
	}
}
