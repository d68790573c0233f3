package qstat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/execd-project/execd/internal/printable"
)

// Document is the JSON form of an output: an object with its lists. A nil list is left out, an
// empty list is not. docs/json.md describes all names, which do not change.
type Document struct {
	Jobs         []Job           `json:"jobs,omitzero"`
	Queues       []QueueInstance `json:"queues,omitzero"`
	Hosts        []Host          `json:"hosts,omitzero"`
	Summary      []QueueSummary  `json:"summary,omitzero"` // qstat -g c
	Details      []JobDetail     `json:"details,omitzero"` // qstat -j
	Reasons      []Reason        `json:"reasons,omitzero"` // qstat -j without a list
	Groups       []ReasonGroup   `json:"groups,omitzero"`
	Quotas       []QuotaRow      `json:"quotas,omitzero"`
	Reservations []Reservation   `json:"reservations,omitzero"`
	Shares       []ShareRow      `json:"shares,omitzero"`
	Schedule     []ScheduleEntry `json:"schedule,omitzero"`
}

// Document returns the cell's jobs, queue instances and hosts in the order of qstat: jobs with
// running tasks, then pending jobs, then finished jobs. Unlike the text, it lists each job once.
func (c *Cell) Document() *Document {
	s := c.sections(Options{})
	d := &Document{Jobs: make([]Job, 0, len(c.Jobs)), Queues: make([]QueueInstance, 0, len(c.Queues)), Hosts: slices.Clone(c.Hosts)}
	taken := make([]bool, len(c.Jobs))
	for _, list := range [][]int32{s.running, s.pending, s.ended} {
		for _, i := range list {
			if !taken[i] {
				taken[i] = true
				d.Jobs = append(d.Jobs, c.Jobs[i])
			}
		}
	}
	for i := range c.Jobs {
		if !taken[i] {
			d.Jobs = append(d.Jobs, c.Jobs[i])
		}
	}
	for _, q := range sortQueues(c.Queues) {
		d.Queues = append(d.Queues, *q)
	}
	return d
}

// AppendJSON appends the document and a line break. Numbers that are infinite or none
// are an error.
func (d *Document) AppendJSON(dst []byte) ([]byte, error) {
	buffer := bytes.NewBuffer(dst)
	e := json.NewEncoder(buffer)
	e.SetEscapeHTML(false) // names are read by people, too
	if err := e.Encode(d); err != nil {
		return dst, fmt.Errorf("cannot write the view as JSON: %w", err)
	}
	text := buffer.Bytes()
	if !bytes.ContainsFunc(text[len(dst):len(text)-1], printable.Special) {
		return text, nil
	}
	return printable.AppendJSON(text[:len(dst):len(dst)], text[len(dst):]), nil
}

var phases = [...]string{Pending: "pending", Running: "running", Finished: "finished"}

// MarshalText gives the phase its name in JSON.
func (p Phase) MarshalText() ([]byte, error) {
	if int(p) >= len(phases) {
		return nil, fmt.Errorf("cannot name the phase %d: expected 0 to %d", p, len(phases)-1)
	}
	return []byte(phases[p]), nil
}

// UnmarshalText reads the name of a phase.
func (p *Phase) UnmarshalText(text []byte) error {
	i := slices.Index(phases[:], string(text))
	if i < 0 {
		return errors.New("cannot read the phase " + string(text) + ": expected pending, running or finished")
	}
	*p = Phase(i)
	return nil
}
