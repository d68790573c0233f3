package standalone

import (
	"testing"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/messages"
)

// TestPendingMessages reports a job that waits once for each time, and no job that has left or belongs
// to another user.
func TestPendingMessages(t *testing.T) {
	m, _ := testMaster(t)
	for _, key := range []string{"1 a", "1 b"} {
		if m.typed(key, "qsub", "-h", "-b", "y", "true"); m.commit() != nil {
			t.Fatal("no commit")
		}
	}
	first := m.cell.Jobs()[0].ID()
	ids := []uint32{first, first + 1, first + 2}
	m.typed("1 c", "qdel", "2")
	if err := m.commit(); err != nil {
		t.Fatal(err)
	}
	hour := []time.Duration{time.Hour, 2 * time.Hour}
	posted := func(owner string, times ...time.Duration) (list []*messages.Message) {
		m.news.ready = nil
		m.pendingFor(owner, ids, times)
		return m.news.ready
	}
	if list := posted("alice", hour...); len(list) != 0 {
		t.Errorf("before the time: %+v", list)
	}
	if list := posted("bob", 0); len(list) != 0 {
		t.Errorf("of another user: %+v", list)
	}
	later := clock.NewManual(m.clock.Now().Add(90 * time.Minute))
	m.clock = later
	if list := posted("alice", hour...); len(list) != 1 || list[0].Job.ID != first || list[0].After != 3600 || !list[0].UserOnly {
		t.Errorf("%+v", list)
	}
	if list := posted("", hour...); len(list) != 1 || !list[0].SiteOnly {
		t.Errorf("for the site: %+v", list)
	}
	if list := posted("alice", hour...); len(list) != 0 {
		t.Errorf("again: %+v", list)
	}
	later.Advance(time.Hour)
	if list := posted("alice", hour...); len(list) != 1 || list[0].After != 7200 {
		t.Errorf("%+v", list)
	}
}
