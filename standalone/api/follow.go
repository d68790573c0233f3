package api

import (
	"context"

	agentapi "github.com/execd-project/execd/agent/api"
)

// The paths of the calls that follow all jobs of a user (DRMAA sessions).
const (
	PathEnds   = Path + "Ends"   // EndsRequest, EndsAnswer
	PathStates = Path + "States" // StatesRequest, StatesAnswer
)

// EndsRequest asks for the ends of the caller's jobs that follow the end with number After in the list
// Boot; both values are those of the previous answer. The daemon answers when there is a new end, or after
// a while without one. If Boot is empty or Now is set, it answers at once.
type EndsRequest struct {
	Boot  string `json:"boot,omitempty"`
	After uint64 `json:"after,omitempty"`
	Now   bool   `json:"now,omitempty"`
}

// EndsAnswer holds the ends of tasks.
type EndsAnswer struct {
	// Boot names the list that the daemon keeps for the caller. Last is the After of the next request.
	Boot string    `json:"boot"`
	Last uint64    `json:"last"`
	Ends []TaskEnd `json:"ends,omitempty"`
	// Missed is set if ends may be missing, because the daemon has begun a new list or has dropped old
	// ends. StatesRequest tells which jobs still exist.
	Missed bool `json:"missed,omitempty"`
	// Later is the number of seconds after which the caller, who has too many waiting calls, has to ask
	// again; 0 for at once.
	Later int `json:"later,omitempty"`
}

// TaskEnd is the end of a task or of a whole job.
type TaskEnd struct {
	Job  uint32 `json:"job"`
	Task uint32 `json:"task,omitempty"` // 0 if the job is not an array job
	// Left is set if the job has left with all its tasks, however they have ended. Outcome is nil then.
	Left bool `json:"left,omitempty"`
	// Error is set if the task is in error state, and has not left.
	Error     bool              `json:"error,omitempty"`
	Submitted int64             `json:"submitted,omitempty"` // in seconds since the epoch
	Outcome   *agentapi.Outcome `json:"outcome,omitempty"`
}

// StatesRequest asks for the states of jobs; without job numbers, for the states of all jobs of the
// caller.
type StatesRequest struct {
	Jobs []uint32 `json:"jobs,omitempty"`
}

// StatesAnswer holds the jobs that exist. Boot and Last have the values that an EndsAnswer would
// have at the same moment.
type StatesAnswer struct {
	Boot string     `json:"boot"`
	Last uint64     `json:"last"`
	Jobs []JobState `json:"jobs,omitempty"`
}

// JobState is the state of a job.
type JobState struct {
	Job   uint32      `json:"job"`
	Owner string      `json:"owner"`
	Array bool        `json:"array,omitempty"`
	Tasks []TaskState `json:"tasks"`
}

// TaskState is the state of the tasks First, First+Step, ... up to Last.
type TaskState struct {
	First int `json:"first"`
	Last  int `json:"last"`
	Step  int `json:"step"`
	// Running is set if the task was sent to a host, also if it is suspended.
	Running bool `json:"running,omitempty"`
	Error   bool `json:"error,omitempty"`
	// UserHold is the hold of qhold -h u. SystemHold is any other: of an operator, of the system, of
	// jobs that have to finish first, or of a start time (qsub -a).
	UserHold   bool `json:"user_hold,omitempty"`
	SystemHold bool `json:"system_hold,omitempty"`
	// UserSuspended is set by qmod -sj. SystemSuspended is any other suspension: by a queue, or by a
	// threshold.
	UserSuspended   bool `json:"user_suspended,omitempty"`
	SystemSuspended bool `json:"system_suspended,omitempty"`
}

// Ends waits for ends of the caller's jobs.
func (c *Client) Ends(ctx context.Context, q EndsRequest) (*EndsAnswer, error) {
	a := &EndsAnswer{}
	if err := c.call(ctx, PathEnds, q, a); err != nil {
		return nil, err
	}
	return a, nil
}

// States returns the states of jobs.
func (c *Client) States(ctx context.Context, q StatesRequest) (*StatesAnswer, error) {
	a := &StatesAnswer{}
	if err := c.call(ctx, PathStates, q, a); err != nil {
		return nil, err
	}
	return a, nil
}
