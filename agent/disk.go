package agent

import (
	"fmt"
	"sync"
	"time"
)

// diskPatience is how long a write to the spool area may take before the agent takes the disk for
// one that does not answer: a file server that is gone, a file system that is frozen.
const diskPatience = 10 * time.Second

// disk knows the writes to the spool area that have not returned. A write that hangs cannot be
// interrupted: all that the agent can do is to hold no lock meanwhile, and to say so.
type disk struct {
	path     string
	patience time.Duration
	changed  func() // called when hangs returns something else; must not be called with mu held

	mu     sync.Mutex
	writes map[*write]bool // true of those that are late
}

// write is one that has begun.
type write struct {
	what  string
	since time.Time
}

func newDisk(path string, patience time.Duration, changed func()) *disk {
	return &disk{path: path, patience: patience, changed: changed, writes: map[*write]bool{}}
}

// begin notes that something is being written, and returns what notes that it was.
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
