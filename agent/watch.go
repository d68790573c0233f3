package agent

import (
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"
)

// pollEvery is the interval at which directories without a watch are checked.
const pollEvery = 250 * time.Millisecond

// watcher reports changes in the directories of jobs. If the kernel cannot watch a directory (NFS,
// or too many watches), the watcher checks it periodically.
type watcher struct {
	log    hclog.Logger
	notify *fsnotify.Watcher // nil if inotify is not available

	mu      sync.Mutex
	dirs    map[string]*watch
	polled  map[string]*watch
	polling bool // a goroutine checks the directories in polled
	closed  chan struct{}
	done    sync.WaitGroup
}

// watch is the result of one call of add: a later call may be for the same directory.
type watch struct {
	see func(name string)
}

func newWatcher(log hclog.Logger) *watcher {
	w := &watcher{log: log, dirs: map[string]*watch{}, polled: map[string]*watch{}, closed: make(chan struct{})}
	var err error
	if w.notify, err = fsnotify.NewBufferedWatcher(1024); err != nil {
		log.Warn("job directories cannot be watched, and are polled instead", "error", err)
	} else {
		w.done.Go(w.pass)
	}
	return w
}

// add watches a directory: f is called with the name of each changed file. An empty name means that
// any file, or none, may have changed. f must not block. The returned function ends this watch, but
// not a later one of the same directory.
func (w *watcher) add(dir string, f func(name string)) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := &watch{f}
	err := errors.New("the kernel provides no inotify instance")
	if w.notify != nil {
		err = w.notify.Add(dir)
	}
	if err != nil {
		w.polled[dir] = added
		if !w.polling {
			w.polling = true
			w.done.Go(w.poll)
		}
	} else {
		w.dirs[dir] = added
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.dirs[dir] == added {
			_ = w.notify.Remove(dir) // it may have been removed
			delete(w.dirs, dir)
		}
		if w.polled[dir] == added {
			delete(w.polled, dir)
		}
	}
}

// pass passes on the events of the kernel.
func (w *watcher) pass() {
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			w.mu.Lock()
			f := w.dirs[filepath.Dir(event.Name)]
			w.mu.Unlock()
			if f != nil {
				f.see(filepath.Base(event.Name))
			}
		case _, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			// Events were lost: any file may have changed.
			w.all(w.dirs)
		}
	}
}

// poll checks the directories without a watch, as long as there are any.
func (w *watcher) poll() {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-w.closed:
			return
		}
		w.all(w.polled)
		w.mu.Lock()
		more := len(w.polled) > 0
		w.polling = more
		w.mu.Unlock()
		if !more {
			return
		}
	}
}

func (w *watcher) all(dirs map[string]*watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range dirs {
		f.see("")
	}
}

func (w *watcher) close() {
	if w == nil {
		return
	}
	close(w.closed)
	if w.notify != nil {
		_ = w.notify.Close()
	}
	w.done.Wait()
}
