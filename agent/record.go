package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/execd-project/execd/agent/admission"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// Files of a job directory that are the agent's. See State for when they are
// written.
const (
	fileSuspended = "suspended"
	fileClient    = "client" // a client has attached, or is about to, and has not detached
	fileEnding    = "ending"
	fileEnded     = "ended"
	fileTold      = "told"
	fileAcked     = "acknowledged"
	fileGPUs      = "gpu_usage"
)

// Record is the agent's record of a start, in the file "start" of the job directory
// (jobdir.FileStart). It holds the data that is not in the description of the job and cannot be
// determined again.
type Record struct {
	ID          job.ID    `json:"id"`
	Key         string    `json:"key"`
	Epoch       uint64    `json:"epoch,omitempty"`
	Received    time.Time `json:"received"`
	Owner       string    `json:"owner"`
	Group       string    `json:"group,omitempty"`
	Department  string    `json:"department,omitempty"`
	Name        string    `json:"name"`
	Queue       string    `json:"queue"`
	PE          string    `json:"pe,omitempty"`
	Slots       int       `json:"slots"` // on this host
	Grants      []Grant   `json:"grants"`
	Slave       bool      `json:"slave,omitempty"`
	Tickets     float64   `json:"tickets,omitempty"`
	Priority    int       `json:"priority,omitempty"` // -p
	Reservation int       `json:"reservation,omitempty"`
	Rerunnable  bool      `json:"rerunnable,omitempty"`
	// Simulated is how long a job lasts that is not run (SIMULATE_JOBS); 0 for others.
	Simulated time.Duration `json:"simulated,omitempty"`
	// Control says that tasks may be started in the job (control_slaves of
	// sge_pe(5)); MasterIsTask that the job itself takes one of its slots.
	Control      bool `json:"control,omitempty"`
	MasterIsTask bool `json:"master_is_task,omitempty"`
	// MasterForksSlaves says that the job starts its tasks on its own host by itself, and
	// DaemonForksSlaves that one task on each host does so.
	MasterForksSlaves bool `json:"master_forks_slaves,omitempty"`
	DaemonForksSlaves bool `json:"daemon_forks_slaves,omitempty"`
	// KeepDirectory is KEEP_ACTIVE of execd_params at the start of the job.
	Keep jobdir.KeepActive `json:"keep,omitempty"`
	// Category is the category field of the accounting.
	Category string `json:"category,omitempty"`
	// Booking holds the resources that the job takes of this host, and the part of its request that
	// matters for them; nil if only the master knows them.
	Booking *admission.Booking `json:"booking,omitempty"`
}

// ended is the content of the file "ended".
type ended struct {
	Number  uint64       `json:"number"` // of the report
	Told    bool         `json:"told"`   // the end was passed to accounting and observers; if false, a mark may say so
	Outcome *job.Outcome `json:"outcome"`
}

// ending is the content of the file "ending".
type ending struct {
	By Order `json:"by"`
}

func writeJSON(d launch.Files, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return d.WriteDurably(name, append(b, '\n'))
}

// readJSON reads a file of writeJSON. found is false if the file does not exist.
func readJSON(d *jobdir.Dir, name string, v any) (found bool, err error) {
	b, err := d.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		if err = json.Unmarshal(b, v); err != nil {
			err = fmt.Errorf("%s/%s: %w", d.Path(), name, err)
		}
	}
	return err == nil, err
}
