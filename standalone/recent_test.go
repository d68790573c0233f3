package standalone

import (
	"testing"

	"github.com/execd-project/execd/standalone/api"
)

// TestRecentEventsAreBounded adds many events: the latest ones are kept, in the same memory.
func TestRecentEventsAreBounded(t *testing.T) {
	r := &recent{}
	const added = 20 * maxEvents
	for i := range added {
		r.add(api.Event{Job: uint32(i)}, int64(i))
	}
	if len(r.events) != maxEvents || cap(r.events) > 2*maxEvents || r.events[0].Job != added-maxEvents || r.events[maxEvents-1].Time != added-1 {
		t.Errorf("%d events in room for %d, from job %d to time %d", len(r.events), cap(r.events), r.events[0].Job, r.events[len(r.events)-1].Time)
	}
}
