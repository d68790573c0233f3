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
	fileClient    = "client" // somebody has attached, or is to, and has not said that he goes
	fileEnding    = "ending"
	fileEnded     = "ended"
	fileTold      = "told"
	fileAcked     = "acknowledged"
)

// Record is what an agent keeps of a start, in the file "start" of the job
// directory (jobdir.FileStart): what is neither in the description of the job nor
// found out again.
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
	// KeepDirectory is KEEP_ACTIVE of execd_params when the job came.
	Keep jobdir.KeepActive `json:"keep,omitempty"`
	// Category is the category field of the accounting.
	Category string `json:"category,omitempty"`
	// Booking is what the job takes of this host, and has what of its request counts
	// for that; nil where the master alone knows.
	Booking *admission.Booking `json:"booking,omitempty"`
}

// ended is the content of the file "ended".
type ended struct {
	Number  uint64       `json:"number"` // of the report
	Told    bool         `json:"told"`   // those who are to know of it do; else there may be a mark that says so
	Outcome *job.Outcome `json:"outcome"`
}

// mark notes something about the end of a job, whose file "ended" gets a second name. Where
// there are no such names, or no such file for want of room, it is a file of its own.
func mark(d launch.Files, name string) error {
	if d.Mark(fileEnded, name) == nil {
		return nil
	}
	return d.WriteFile(name, nil)
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

// readJSON reads what writeJSON has written. found is false where there is no such
// file.
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
