package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
)

func TestRefusalsInTheLog(t *testing.T) {
	var r refusals
	now := time.Unix(1e9, 0)
	count := func(id int, text string, every time.Duration, n int) (logged, omitted int) {
		for range n {
			now = now.Add(every)
			more, log := r.note(job.ID{Job: id}, text, now)
			if omitted += more; log {
				logged++
			}
		}
		return logged, omitted
	}
	if n, _ := count(1, "job 1 exists from another start", 20*time.Millisecond, 5000); n != 1 {
		t.Errorf("the same refusal is logged %d times in 100 seconds, want once", n)
	}
	if n, omitted := count(1, "no room", time.Millisecond, 1); n != 1 || omitted != 4999 {
		t.Errorf("another reason is logged %d times and says that %d were left out, want 1 and 4999", n, omitted)
	}
	if n, _ := count(2, "no room", time.Millisecond, 2); n != 1 {
		t.Errorf("another job is logged %d times, want once", n)
	}
	if n, _ := count(1, "no room", refusalQuiet, 3); n != 3 {
		t.Errorf("what goes on is logged %d times in half an hour, want 3 times", n)
	}
	for i := range 10 * mostRefusals {
		count(i, fmt.Sprint(i), 0, 1)
	}
	if len(r.said) > mostRefusals {
		t.Errorf("%d refusals are kept, want at most %d", len(r.said), mostRefusals)
	}
}
