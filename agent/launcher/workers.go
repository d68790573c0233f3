package launcher

import "sync"

// mostIdle is the number of goroutines that wait for the next order.
const mostIdle = 4

// workers are goroutines that carry out orders. A goroutine that has carried one out waits for the next: its stack has the
// size that orders need, which a new goroutine would have to grow again.
type workers struct {
	wait *sync.WaitGroup
	next chan func()

	mu   sync.Mutex
	idle int
}

func newWorkers(wait *sync.WaitGroup) *workers { return &workers{wait: wait, next: make(chan func())} }

// do calls a function in a goroutine.
func (w *workers) do(f func()) {
	select {
	case w.next <- f:
	default:
		w.wait.Go(func() { w.work(f) })
	}
}

// end ends the goroutines that wait. do must not be called any more.
func (w *workers) end() { close(w.next) }

func (w *workers) work(f func()) {
	for more := true; more; {
		f()
		if !w.rest() {
			return
		}
		f, more = <-w.next
		w.awake()
	}
}

func (w *workers) rest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle == mostIdle {
		return false
	}
	w.idle++
	return true
}

func (w *workers) awake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle--
}
