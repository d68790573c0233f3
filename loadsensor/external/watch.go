package external

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher tells sensors that their file may have changed. It watches directories, because files are
// usually replaced rather than modified. It does not see changes by other clients of a file server;
// these are noticed when the sensor is asked.
type Watcher struct {
	fs   *fsnotify.Watcher
	done chan struct{}

	mu      sync.Mutex
	sensors map[*Sensor][]string // paths
}

// NewWatcher returns a Watcher, which the caller must close. It fails if the host has no inotify
// watches left; sensors also work without a Watcher.
func NewWatcher() (*Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot watch files: %w", err)
	}
	w := &Watcher{fs: watcher, done: make(chan struct{}), sensors: map[*Sensor][]string{}}
	go w.run()
	return w, nil
}

// Close stops the Watcher.
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

// tell notifies the sensors with this file, or all sensors if path is empty.
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

// add watches the path, and the targets of its links, for a sensor. It also renews an existing
// watch, because a directory that was replaced is no longer watched.
func (w *Watcher) add(path string, s *Sensor) error {
	w.remove(s)
	paths := []string{filepath.Clean(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != paths[0] {
		paths = append(paths, target)
	}
	var errs []error
	for _, p := range paths {
		folder := filepath.Dir(p)
		// Without the lock: a file server that is down may not answer.
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

// remove stops watching for a sensor. The directory stays watched, since it may contain other
// sensors.
func (w *Watcher) remove(s *Sensor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sensors, s)
}
