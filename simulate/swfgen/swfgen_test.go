package swfgen

import (
	"bytes"
	"testing"

	"github.com/execd-project/execd/simulate/swf"
)

func TestEqualOptionsGiveEqualTraces(t *testing.T) {
	text := func(seed uint64) []byte { return Text(Generate(Options{Seed: seed, Jobs: 500})) }
	if !bytes.Equal(text(1), text(1)) {
		t.Error("the same options, another trace")
	}
	if bytes.Equal(text(1), text(2)) {
		t.Error("another seed, the same trace")
	}
}

func TestLoad(t *testing.T) {
	for _, o := range []Options{{}, {Seed: 3, Jobs: 20000, Processors: 1000, Load: 1.5}, {Processors: 1, Users: 1}} {
		_, records := Generate(o)
		defaults(&o)
		work := 0.0
		for i, r := range records {
			if r.Run > 0 {
				work += float64(r.Run * r.RequestedProcessors)
			}
			if i > 0 && r.Submit < records[i-1].Submit {
				t.Fatalf("%v: job %d comes too early", o, i)
			}
			if r.RequestedProcessors < 1 || r.RequestedProcessors > int64(o.Processors) || r.Run > r.RequestedTime || r.User > int64(o.Users) ||
				r.Run <= 0 != (r.Status == swf.Cancelled) {
				t.Fatalf("%+v: %+v", o, r)
			}
		}
		// The rate depends on the time of day, so the mean is only approximate.
		if got := work / float64(records[len(records)-1].Submit) / float64(o.Processors); got < 0.6*o.Load || got > 1.6*o.Load {
			t.Errorf("%+v: the load is %v", o, got)
		}
	}
}
