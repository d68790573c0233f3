package serve

import (
	"sync"

	"github.com/execd-project/execd/agent/api"
)

// input is what a client has sent for the standard input of a job and the job has not
// taken yet, up to api.InputWindow.
type input struct {
	mu     sync.Mutex
	news   sync.Cond
	bytes  []byte
	size   int // with what has been taken out of bytes, and is not in the pipe yet
	ended  bool
	closed bool
}

func newInput() *input {
	i := &input{}
	i.news.L = &i.mu
	return i
}

// add returns false where there is more than a client may send.
func (i *input) add(p []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended || i.size+len(p) > api.InputWindow {
		return false
	}
	i.bytes = append(i.bytes, p...)
	i.size += len(p)
	i.news.Signal()
	return true
}

// end is for when nothing more comes, which the job is to be told.
func (i *input) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	i.news.Signal()
}

// close is for when nothing more comes. What is there is not taken any more.
func (i *input) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.news.Signal()
}

// take waits for something, and takes all that is there. Nothing is the end, of which
// ended reports whether the job is to be told.
func (i *input) take() (p []byte, ended bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.bytes) == 0 && !i.ended && !i.closed {
		i.news.Wait()
	}
	if i.closed {
		return nil, false
	}
	p, i.bytes = i.bytes, nil
	return p, i.ended
}

// taken makes room.
func (i *input) taken(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.size -= n
}
