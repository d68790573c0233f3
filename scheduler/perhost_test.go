package scheduler_test

import (
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// TestPerHostConsumable checks that a job with several slots on a host takes a consumable of the kind
// HOST once there, and once on each other host.
func TestPerHostConsumable(t *testing.T) {
	m := modelOf(t, directory(map[string]string{
		"complexes":    "seat seat INT <= YES HOST 0 0\n",
		"hosts/n1":     "hostname n1\ncomplex_values seat=3\n",
		"hosts/n2":     "hostname n2\ncomplex_values seat=1\n",
		"hosts/global": "hostname global\ncomplex_values seat=100\n",
		"queues/q":     "qname q\nhostlist n1 n2\nslots 4\nload_thresholds NONE\npe_list fill\nseq_no 1,[n2=2]\n",
		"pes/fill":     "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
	}))
	s := scheduler.NewState(m)
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Hard: request("seat", "1"), PE: "fill", Slots: slotsOf(t, "6")})
	first := run(t, s, 100)
	if first[1] == nil {
		t.Fatal("six slots on two hosts do not start")
	}
	left := func(host string) float64 {
		id, _ := m.Host(host)
		seat, _ := m.Attribute("seat")
		for _, r := range s.Observe(100).Host(id) {
			if r.Attribute == seat {
				return r.Value.Number()
			}
		}
		return -1
	}
	for host, want := range map[string]float64{"n1": 2, "n2": 0, "global": 98} {
		if got := left(host); got != want {
			t.Errorf("%s has %v seats left, want %v", host, got, want)
		}
	}
	// Two slots are free on n2, but no seat.
	enqueue(t, s, 2, &scheduler.Requests{User: "u", Hard: request("seat", "1"), PE: "fill", Slots: slotsOf(t, "1")})
	if len(run(t, s, 110)) != 0 {
		t.Error("a job starts where there is no seat")
	}
	if err := s.End(first[1]); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]float64{"n1": 3, "n2": 1, "global": 100} {
		if got := left(host); got != want {
			t.Errorf("%s has %v seats left after the end, want %v", host, got, want)
		}
	}
}
