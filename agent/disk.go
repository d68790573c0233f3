package agent

import (
	"fmt"
	"sync"
	"time"
)

// diskPatience is the time after which the agent treats the disk as not answering, for example
// because a file server is down or a file system is frozen.
const diskPatience = 10 * time.Second

// disk records the writes to the spool area that have not returned. A hanging write cannot be
// interrupted: the agent can only hold no lock during writes, and report the problem.
type disk struct {
	path     string
	patience time.Duration
	changed  func() // called when the result of hangs changes; never called with mu held

	mu     sync.Mutex
	writes map[*write]bool // true for late ones
}

// write is a write in progress.
type write struct {
	what  string
	since time.Time
}

func newDisk(path string, patience time.Duration, changed func()) *disk {
	return &disk{path: path, patience: patience, changed: changed, writes: map[*write]bool{}}
}

// begin records the start of a write, and returns the function that records its end.
func (d *disk) begin(what string) (end func()) {
	w := &write{what, time.Now()}
	d.mu.Lock()
	d.writes[w] = false
	d.mu.Unlock()
	timer := time.AfterFunc(d.patience, func() {
		d.mu.Lock()
		_, late := d.writes[w]
		if late {
			d.writes[w] = true
		}
		d.mu.Unlock()
		if late {
			d.changed()
		}
	})
	return func() {
		timer.Stop()
		d.mu.Lock()
		late := d.writes[w]
		delete(d.writes, w)
		d.mu.Unlock()
		if late {
			d.changed()
		}
	}
}

// hangs returns an error that names the oldest of the writes that are late, or nil.
func (d *disk) hangs() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var oldest *write
	for w, late := range d.writes {
		if late && (oldest == nil || w.since.Before(oldest.since)) {
			oldest = w
		}
	}
	if oldest == nil {
		return nil
	}
	return fmt.Errorf("the disk of %s does not answer: %s has not returned since %s", d.path, oldest.what, oldest.since.Format(time.RFC3339))
}
