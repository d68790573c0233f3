package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/jobdir"
)

// onlineWatch lets the kernel record the jobs whose supervisors have written new usage
// (inotify(7)). So a report needs one system call for all jobs instead of one for each. No
// goroutine waits for these events, so that supervisors do not wake the agent (see watcher for the
// events that do). If there are too many watches, the files are checked instead.
type onlineWatch struct {
	fd int // -1 for none

	mu   sync.Mutex
	jobs map[int32]*entry // by watch
	buf  [8 << 10]byte
}

func newOnlineWatch() *onlineWatch {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		fd = -1
	}
	return &onlineWatch{fd: fd, jobs: map[int32]*entry{}}
}

// add watches the directory of a running job, and reports whether that succeeded. It only records
// later writes.
func (w *onlineWatch) add(e *entry) bool {
	if w == nil || w.fd < 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// A file gets its name when it is complete (jobdir.Dir.WriteFile).
	var wd int
	err := e.run.Dir.Use(func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(fd), unix.IN_MOVED_TO|unix.IN_ONLYDIR)
		return err
	})
	if err != nil {
		return false
	}
	e.watch = int32(wd) //nolint:gosec // the kernel's type
	w.jobs[e.watch] = e
	return true
}

// remove ends the watch of a job, if there is one: its directory may be kept.
func (w *onlineWatch) remove(e *entry) {
	if w == nil || w.fd < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[e.watch] == e {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(e.watch)) //nolint:gosec // the kernel's type; the watch may have been removed
		delete(w.jobs, e.watch)
	}
}

// written calls f, perhaps more than once, for each job with a write since the last call. It
// returns false if events were lost, so that any job may have written. f must not call w.
func (w *onlineWatch) written(f func(*entry)) (all bool) {
	if w == nil || w.fd < 0 {
		return true // then no job is watched
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all = true
	for {
		n, err := unix.Read(w.fd, w.buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return all && errors.Is(err, unix.EAGAIN)
		}
		all = w.take(w.buf[:n], f) && all
	}
}

// take does what written does for the events in one buffer (inotify(7)). The caller holds mu.
func (w *onlineWatch) take(events []byte, f func(*entry)) (all bool) {
	all = true
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events)) //nolint:gosec // the kernel's type
		mask := binary.NativeEndian.Uint32(events[unsafe.Offsetof(unix.InotifyEvent{}.Mask):])
		size := binary.NativeEndian.Uint32(events[unsafe.Offsetof(unix.InotifyEvent{}.Len):])
		name := events[unix.SizeofInotifyEvent:][:size]
		events = events[unix.SizeofInotifyEvent+size:]
		e := w.jobs[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			all = false
		case e == nil:
		case mask&unix.IN_IGNORED != 0: // the directory was removed
			delete(w.jobs, wd)
		case string(bytes.TrimRight(name, "\x00")) == jobdir.FileOnline:
			f(e)
		}
	}
	return all
}

func (w *onlineWatch) close() {
	if w != nil && w.fd >= 0 {
		unix.Close(w.fd)
	}
}
