package web

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/standalone/api"
)

// TestCharts draws the samples of the last day: those that are older and those of a clock that was set back are left
// out, and what a host lacks has no diagram.
func TestCharts(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(ago int64, used int) api.Sample {
		return api.Sample{Time: now.Unix() - ago, Slots: 4, UsedSlots: used, Memory: 8 << 30, UsedMemory: 2 << 30}
	}
	got := charts([]api.Sample{at(2*day, 4), at(day, 0), at(day/2, 3), at(day/4, 1), at(-60, 4)}, now)
	want := []chart{
		{"Slots", "Slots in use: 1 of 4, at most 3 in the last day", "0,99 500,26 750,75 1000,75", "0,100 0,99 500,26 750,75 1000,75 1000,100"},
		{"Memory", "Memory in use: 2.0 GiB of 8.0 GiB, at most 2.0 GiB in the last day", "0,75 500,75 750,75 1000,75", "0,100 0,75 500,75 750,75 1000,75 1000,100"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := charts([]api.Sample{at(2*day, 4)}, now); got != nil {
		t.Errorf("without samples of the day: %v", got)
	}
}
