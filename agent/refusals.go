package agent

import (
	"sync"
	"time"

	"github.com/execd-project/execd/job"
)

const (
	// refusalQuiet is how long the log does not repeat why a job was refused: masters try the
	// same start again and again.
	refusalQuiet = 10 * time.Minute
	// mostRefusals is the number of jobs whose logged refusals are remembered.
	mostRefusals = 1000
)

// refusals remembers the logged refusals.
type refusals struct {
	mu   sync.Mutex
	said map[job.ID]saidRefusal
}

type saidRefusal struct {
	text    string
	at      time.Time
	omitted int // how often it was not repeated
}

// note reports whether to log a refusal now, and the number of equal ones left out before it.
func (r *refusals) note(id job.ID, text string, now time.Time) (omitted int, log bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.said[id]
	if age := now.Sub(last.at); known && last.text == text && age >= 0 && age < refusalQuiet {
		last.omitted++
		r.said[id] = last
		return 0, false
	}
	if r.said == nil || !known && len(r.said) >= mostRefusals {
		r.said = map[job.ID]saidRefusal{}
	}
	r.said[id] = saidRefusal{text: text, at: now}
	return last.omitted, true
}
