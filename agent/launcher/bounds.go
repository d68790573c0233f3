package launcher

import (
	"fmt"
	"sync"
)

// Limits of the memory that orders take up.
const (
	// mostTogether is how many bytes the contents and scripts of all orders may have that are carried out at the same
	// time, except verifications: more than one largest order.
	mostTogether = 128 << 20
	// mostObjectsOf and mostValuesOf are how many objects and lists, and how many values, a content may have. Each of
	// them takes up many more bytes in memory than in a message.
	mostObjectsOf, mostValuesOf = 1 << 18, 1 << 20
)

// mostOf returns how many bytes the content of an order may have that is a file in memory.
func mostOf(k kind) int {
	switch k {
	case kindPrepare, kindKeep, kindVerify, kindConfigure:
		return mostContent
	case kindNote, kindPrioritise, kindMail:
		return 2 << 20
	default:
		return 4 << 10
	}
}

// checkSize refuses JSON with too many values.
func checkSize(text []byte) error {
	objects, values, quoted := 0, 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			objects++
		case c == ',':
			values++
		}
	}
	if objects > mostObjectsOf || values > mostValuesOf {
		return tooManyValues(values, objects)
	}
	return nil
}

func tooManyValues(values, objects int) error {
	return fmt.Errorf("a content has %d values and %d objects and lists, at most %d and %d are possible", values, objects, mostValuesOf, mostObjectsOf)
}

// budget is the number of bytes that the orders being carried out may still take up.
type budget struct {
	mu   sync.Mutex
	more *sync.Cond
	left int64
}

func newBudget(bytes int64) *budget {
	b := &budget{left: bytes}
	b.more = sync.NewCond(&b.mu)
	return b
}

// take waits until there are n bytes.
func (b *budget) take(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left < n {
		b.more.Wait()
	}
	b.left -= n
}

// give returns n bytes.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	b.more.Broadcast()
}
