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
			var list []string
			for _, j := range m.cell.Jobs() {
				if j.Submission != "" {
					list = append(list, j.Submission)
				}
			}
			keys <- list
		})
		if err != nil {
			return
		}
		if err := m.host.Keep(<-keys); err != nil {
			m.log.Warn("the launcher keeps submissions of jobs that have left", "error", err)
		}
		if !m.pause(ctx, keepingPause) {
			return
		}
	}
}
