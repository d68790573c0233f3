package standalone

import (
	"context"
	"fmt"
	"time"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/standalone/api"
)

// amended returns the confirmations of a client, by job.
func amended(list []api.Amended) (map[uint32]command.Confirmation, *agentapi.Error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > command.MostAmended {
		return nil, refuse(agentapi.InvalidArgument, fmt.Sprintf("the message confirms %d jobs, at most %d are possible at once", len(list), command.MostAmended))
	}
	of := make(map[uint32]command.Confirmation, len(list))
	for _, a := range list {
		if _, twice := of[a.Job]; twice {
			return nil, refuse(agentapi.InvalidArgument, fmt.Sprintf("the message confirms job %d twice", a.Job))
		}
		of[a.Job] = command.Confirmation{Key: a.Key, Digest: a.Digest}
	}
	return of, nil
}

// amendments returns the jobs to be confirmed in the form of the API.
func amendments(list []command.Amendment) (to []api.Amend) {
	for _, a := range list {
		to = append(to, api.Amend{Job: a.Job, UID: uint32(a.UID), Key: a.Key, Submission: a.Submission})
	}
	return to
}

// keepingPause is the time between two calls that have the launcher forget submissions of jobs that have left.
const keepingPause = 10 * time.Minute

// keepSubmissions tells the launcher at intervals which jobs are in the cell, so that it forgets
// the submissions of jobs that have left. It returns when the context ends.
func (m *Master) keepSubmissions(ctx context.Context) {
	for {
		keys := make(chan []string, 1)
		err := m.do(ctx, func() {
			list := m.submissions()
			// Without the commit, jobs that were changed have their earlier submissions.
			m.batch.answers = append(m.batch.answers, func(err error) {
				if err != nil {
					close(keys)
					return
				}
				keys <- list
			})
		})
		if err != nil {
			return
		}
		select {
		case list, committed := <-keys:
			if !committed {
				break // the next call makes up for this one
			}
			if err := m.host.Keep(list); err != nil {
				m.log.Warn("the launcher still has submissions of jobs that have left the queue", "error", err)
			}
		case <-ctx.Done():
			return
		}
		if !clock.Wait(ctx, m.clock, keepingPause) {
			return
		}
	}
}

// submissions returns the keys of the submissions of all jobs.
func (m *Master) submissions() (keys []string) {
	for _, j := range m.cell.Jobs() {
		if j.Submission != "" {
			keys = append(keys, j.Submission)
		}
	}
	return keys
}
