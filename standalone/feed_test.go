package standalone

import (
	"testing"
	"time"

	"github.com/execd-project/execd/standalone/api"
)

// TestFeedReturnsEveryEndOnce checks that a reader gets every end once, in parts of mostSent, until
// unread ends are dropped.
func TestFeedReturnsEveryEndOnce(t *testing.T) {
	x := feeds{}.forUser("alice", time.Now())
	end := uint32(0)
	add := func(n int) {
		for range n {
			end++
			x.add(api.TaskEnd{Job: end})
		}
	}
	read, rounds := uint64(0), 0
	for range 3 {
		add(2*mostNoted/3 + 7)
		for read < x.last {
			list, ok := x.behind(read)
			if !ok || len(list) == 0 || len(list) > mostSent {
				t.Fatalf("after %d of %d: %d ends, %v", read, x.last, len(list), ok)
			}
			for i := range list {
				if read++; uint64(list[i].Job) != read {
					t.Fatalf("end %d is of job %d", read, list[i].Job)
				}
			}
			rounds++
		}
	}
	if uint64(end) != read || rounds < 3*2*mostNoted/3/mostSent {
		t.Errorf("%d of %d ends were read, in %d answers", read, end, rounds)
	}
	add(2 * mostNoted)
	if _, ok := x.behind(read); ok {
		t.Error("ends were dropped, and the reader is not told")
	}
	if _, ok := x.behind(x.last + 1); ok {
		t.Error("the reader is ahead, and is not told")
	}
	if len(x.list) >= 2*mostNoted {
		t.Errorf("%d ends are kept", len(x.list))
	}
}
