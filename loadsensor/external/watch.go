package external

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher tells sensors that their file may have changed. It watches folders, since
// files are replaced rather than written. What it does not see (changes made by
// other clients of a file server) is seen when the sensor is asked.
type Watcher struct {
	fs   *fsnotify.Watcher
	done chan struct{}

	mu      sync.Mutex
	sensors map[*Sensor][]string // paths
}

// NewWatcher returns a Watcher that must be closed. It fails where the host has no
// watches left; sensors can do without.
func NewWatcher() (*Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot watch files: %w", err)
	}
	w := &Watcher{fs: watcher, done: make(chan struct{}), sensors: map[*Sensor][]string{}}
	go w.run()
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.fs.Close()
	<-w.done
}

func (w *Watcher) run() {
	defer close(w.done)
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			w.tell(filepath.Clean(e.Name))
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.tell("") // events were lost
		}
	}
}

// tell wakes the sensors with a file; all of them if it is not known which.
func (w *Watcher) tell(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, paths := range w.sensors {
		for _, p := range paths {
			if path == "" || p == path {
				s.FileChanged()
			}
		}
	}
}

// add watches the path, and what it links to, for a sensor; again if it did already,
// since a folder that was replaced is not watched any more.
func (w *Watcher) add(path string, s *Sensor) error {
	w.remove(s)
	paths := []string{filepath.Clean(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != paths[0] {
		paths = append(paths, target)
	}
	var errs []error
	for _, p := range paths {
		folder := filepath.Dir(p)
		// Not under the lock: a file server that is gone may not answer.
		if err := w.fs.Add(folder); err != nil {
			errs = append(errs, fmt.Errorf("cannot watch %q: %w", folder, err))
			continue
		}
		w.mu.Lock()
		w.sensors[s] = append(w.sensors[s], p)
		w.mu.Unlock()
	}
	return errors.Join(errs...)
}

// remove ends it for a sensor. The folder stays watched, since others may be in it.
func (w *Watcher) remove(s *Sensor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sensors, s)
}
