package serve

import (
	"sync"

	"github.com/execd-project/execd/agent/api"
)

// input buffers the data for the standard input of a job that the job has not read yet, up to
// api.InputWindow bytes.
type input struct {
	mu     sync.Mutex
	news   sync.Cond
	bytes  []byte
	size   int // including data taken out of bytes that is not in the pipe yet
	ended  bool
	closed bool
}

func newInput() *input {
	i := &input{}
	i.news.L = &i.mu
	return i
}

// add returns false if the client has sent more than it may.
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

// end marks the end of the input, which is passed on to the job.
func (i *input) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	i.news.Signal()
}

// close ends the input and discards buffered data.
func (i *input) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.news.Signal()
}

// take waits for data and returns all buffered data. An empty result means the end of the input;
// ended reports whether to pass it on to the job.
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
