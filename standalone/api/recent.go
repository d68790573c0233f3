package api

import (
	"context"

	agentapi "github.com/execd-project/execd/agent/api"
)

// PathRecent is the path of the call for the latest events: it takes nothing and returns a RecentAnswer.
const PathRecent = Path + "Recent"

// RecentAnswer holds the latest events of the cell, and the use of the host over the last day.
type RecentAnswer struct {
	Events  []Event  `json:"events,omitempty"`  // the oldest first
	Samples []Sample `json:"samples,omitempty"` // the oldest first
}

// Event is something that has happened to a job.
type Event struct {
	Time int64  `json:"time"` // seconds since 1970
	Job  uint32 `json:"job"`
	Task uint32 `json:"task,omitempty"` // 0 for the whole job
	Name Text   `json:"name,omitempty"` // of the job
	User string `json:"user"`           // the owner of the job
	What string `json:"what"`           // such as "started"
	Bad  bool   `json:"bad,omitempty"`  // the job has failed
}

// Sample is the use of a host at one time. Memory is in bytes.
type Sample struct {
	Time       int64   `json:"time"` // seconds since 1970
	Slots      int     `json:"slots"`
	UsedSlots  int     `json:"used_slots"`
	Memory     float64 `json:"memory"`
	UsedMemory float64 `json:"used_memory"`
	GPUs       int     `json:"gpus"`
	UsedGPUs   int     `json:"used_gpus"`
}

// Recent returns the latest events and the use of the host over the last day.
func (c *Client) Recent(ctx context.Context) (*RecentAnswer, error) {
	a := &RecentAnswer{}
	if err := c.call(ctx, PathRecent, agentapi.Empty{}, a); err != nil {
		return nil, err
	}
	return a, nil
}
