package standalone

import (
	"context"
	"time"
)

// keepingPause is the time between two calls that have the launcher forget submissions of jobs that have left.
const keepingPause = 10 * time.Minute

// keepSubmissions has the launcher forget the submissions of jobs that have left the cell, until the context ends.
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
				m.log.Warn("the launcher keeps submissions of jobs that have left", "error", err)
			}
		case <-ctx.Done():
			return
		}
		if !m.pause(ctx, keepingPause) {
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
