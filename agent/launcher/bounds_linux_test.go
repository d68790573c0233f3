package launcher

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForgedSizes checks that the launcher refuses contents that would use much more memory than their length, and
// long contents of orders that are always short.
func TestForgedSizes(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		order, body string
		want        string
	}{
		{"prioritise", `{"jobs":[` + strings.Repeat("{},", mostObjectsOf) + `{}]}`, "objects and lists"},
		{"keep", `{"keys":[` + strings.Repeat(`"",`, mostValuesOf) + `""]}`, "values"},
		{"keep", `{"keys":["\"` + strings.Repeat(`,`, mostValuesOf) + `"]}`, ""},
		{"hello", "{}" + strings.Repeat(" ", 4<<10), "at most 4096 are possible"},
		{"note", `{"id":{"job":7}` + strings.Repeat(" ", 2<<20) + "}", "at most 2097152 are possible"},
		{"verify", "{}" + strings.Repeat(" ", mostContent), "at most 16777216 are possible"},
	} {
		fd, err := memory("body", []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		got := w.send(fmt.Sprintf(`{"version":2,"number":1,"order":%q,"memory":true}`, c.order), fd)
		unix.Close(fd)
		if c.want != "" {
			w.refusedWith(c.order, got, c.want)
		} else if got != nil {
			t.Errorf("%s: %v", c.order, got)
		}
	}
}

// TestBudget checks that an order waits until the other orders have left it enough memory.
func TestBudget(t *testing.T) {
	b := newBudget(10)
	b.take(6)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.take(5)
		b.give(5)
	}()
	b.mu.Lock()
	select {
	case <-done:
		t.Error("there is more memory than there may be")
	default:
	}
	b.mu.Unlock()
	b.give(6)
	<-done
	b.take(10)
}
