package gridengine

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/execd-project/execd/agent/gridengine/internal/capture"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// TestRememberedQueues translates the jobs of the captures twice, with and without the settings of those before: both
// give the same.
func TestRememberedQueues(t *testing.T) {
	shared := map[string]*queues{}
	jobs := 0
	deliveries(t, func(s *capture.Stream, j *message.Delivery, slave bool) {
		for _, g := range j.Tasks[0].Granted {
			alone := around(g.Host)
			want, err := startOf(j, slave, alone)
			if err != nil {
				continue // of another host
			}
			if shared[g.Host] == nil {
				shared[g.Host] = &queues{}
			}
			remembering := *alone
			remembering.queues = shared[g.Host]
			for range 2 {
				got, err := startOf(j, slave, &remembering)
				if err != nil {
					t.Fatal(err)
				}
				if a, b := got.Order.Queue, want.Order.Queue; !reflect.DeepEqual(a, b) {
					t.Errorf("%s: job %d has the queue\n%+v, want\n%+v", s.Release(), j.Job, a, b)
				}
			}
			jobs++
		}
	})
	if jobs < 10 {
		t.Errorf("there were only %d jobs", jobs)
	}
}

func TestQueuesAreDistinguished(t *testing.T) {
	c := &queues{}
	a := message.Queue{Name: "a.q", Slots: 1, Shell: "/bin/sh", HardRT: "0:1:0"}
	b := a
	b.HardRT = "0:2:0"
	for range 2 {
		for q, seconds := range map[*message.Queue]uint64{&a: 60, &b: 120} {
			got, err := c.of(q, "node1")
			if err != nil {
				t.Fatal(err)
			}
			if limit := &got.Limits[job.RT]; limit.Hard != seconds {
				t.Errorf("h_rt is %d, want %d", limit.Hard, seconds)
			} else {
				limit.Hard = 1 // of this job
			}
		}
	}
	if _, err := c.of(&message.Queue{Name: "b.q", Shell: "no path"}, "node1"); err == nil {
		t.Error("an invalid queue is no error")
	}
	for i := range 3 * mostQueues {
		q := a
		q.Name = fmt.Sprintf("q%d.q", i)
		if got, err := c.of(&q, "node1"); err != nil || got.Queue != q.Name || len(c.known) > mostQueues {
			t.Fatalf("queue %d is %q, %v; %d are remembered", i, got.Queue, err, len(c.known))
		}
	}
}

// BenchmarkQueues compares the settings of a queue that is new with those of one that is known.
func BenchmarkQueues(b *testing.B) {
	q := message.Queue{Name: "all.q", Slots: 1, Shell: "/bin/sh", Tmpdir: "/tmp", HardRT: "INFINITY", HardVmem: "INFINITY"}
	for name, c := range map[string]*queues{"new": nil, "known": {known: map[message.Queue]qconf.QueueInstance{}}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.of(&q, "node1"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
