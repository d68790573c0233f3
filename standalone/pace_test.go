package standalone

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
)

// TestNoScheduling checks that a schedule_interval of 0 switches scheduling off (sched_conf(5)).
func TestNoScheduling(t *testing.T) {
	for interval, want := range map[string]bool{"0:0:0": false, "0:0:15": true} {
		cluster, err := qconf.Load(fstest.MapFS{"sched_conf": {Data: []byte("schedule_interval " + interval + "\n")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1, 0)
		c := cell.New(now.Unix(), cluster, cell.Options{})
		var p pace
		p.demand()
		if got := p.due(c, now); got != want {
			t.Errorf("%s: a run is due: %v", interval, got)
		}
		if got := p.wait(c, now) == 0; got != want {
			t.Errorf("%s: nothing is waited for: %v", interval, got)
		}
	}
}
