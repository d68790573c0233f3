package scheduler_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// pooled is a host with 8 GB for 8 slots. Without name its requests are each for themselves.
func pooled(t *testing.T, name string) *scheduler.State {
	t.Helper()
	return scheduler.NewState(modelOf(t, directory(map[string]string{
		"complexes":   "m_mem_free mmf MEMORY <= YES YES 1G 0\n",
		"conf/global": "qmaster_params MEMORY_POOL=" + name + "\n",
		"hosts/n1":    "hostname n1\ncomplex_values m_mem_free=8G,mem_free=1000G,virtual_free=1000G\n",
		"queues/q":    "qname q\nhostlist n1\nslots 8\nload_thresholds NONE\npe_list smp\n",
		"pes/smp":     "pe_name smp\nslots 100\nallocation_rule $pe_slots\n",
	})))
}

// TestMemoryPool has jobs book the largest of their requests for memory, once.
func TestMemoryPool(t *testing.T) {
	for name, c := range map[string]struct {
		pool  string
		hard  []qconf.Setting
		slots int
		fit   int // jobs that run at once
	}{
		"nothing":                    {"m_mem_free", nil, 1, 8},
		"nothing for two slots":      {"m_mem_free", nil, 2, 4},
		"h_vmem":                     {"m_mem_free", requests("h_vmem", "3G"), 1, 2},
		"h_vmem for two slots":       {"m_mem_free", requests("h_vmem", "1.5G"), 2, 2},
		"h_rss":                      {"m_mem_free", requests("h_rss", "4G"), 1, 2},
		"several":                    {"m_mem_free", requests("h_vmem", "4G", "mem_free", "3G", "h_rss", "4G", "vf", "2G"), 1, 2},
		"the pool is not the most":   {"m_mem_free", requests("m_mem_free", "1G", "mem_free", "4G"), 1, 2},
		"the pool is the most":       {"m_mem_free", requests("mmf", "4G", "h_vmem", "1G"), 1, 2},
		"less than a share":          {"m_mem_free", requests("vf", "512M"), 1, 8},
		"no amount":                  {"m_mem_free", requests("h_vmem", "INFINITY"), 1, 8},
		"no amount beside one":       {"m_mem_free", requests("h_vmem", "INFINITY", "mem_free", "4G"), 1, 2},
		"more than there is":         {"m_mem_free", requests("h_vmem", "9G"), 1, 0},
		"a limit of something else":  {"m_mem_free", requests("h_data", "9G", "s_vmem", "9G"), 1, 8},
		"no pool":                    {"NONE", requests("h_vmem", "4G"), 1, 8},
		"no pool, and the same name": {"NONE", requests("m_mem_free", "4G", "h_vmem", "5G"), 1, 2},
		"no complex":                 {"nosuch", requests("h_vmem", "4G"), 1, 8},
		"no consumable":              {"mem_total", requests("h_vmem", "4G"), 1, 8},
	} {
		s := pooled(t, c.pool)
		for id := range uint32(10) {
			r := &scheduler.Requests{User: "u", Hard: c.hard}
			if c.slots > 1 {
				n, err := rangelist.Of(c.slots, c.slots, 1)
				if err != nil {
					t.Fatal(err)
				}
				r.PE, r.Slots = "smp", n
			}
			enqueue(t, s, id+1, r)
		}
		if got := len(run(t, s, 100)); got != c.fit {
			t.Errorf("%s: %d jobs run at once, want %d", name, got, c.fit)
		}
	}
}

// TestMemoryPoolOfTwoUsers has two users request memory under all names, and adds up what the
// running jobs have requested: it is never more than the pool, and what is free is used.
func TestMemoryPoolOfTwoUsers(t *testing.T) {
	names := []string{"h_vmem", "h_rss", "mem_free", "m_mem_free", "virtual_free"}
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	s := pooled(t, "m_mem_free")
	booked := map[uint32]float64{}
	running := map[uint32]*scheduler.Running{}
	used := 0.0
	id := uint32(0)
	for now := int64(100); now < 400; now++ {
		for range rng.IntN(3) {
			id++
			var hard []qconf.Setting
			most := 0
			for range rng.IntN(4) {
				mib := 1 + rng.IntN(4000)
				name := names[rng.IntN(len(names))]
				for i := range hard { // of a name that comes twice the last counts
					if hard[i].Name == name {
						name = ""
						break
					}
				}
				if name != "" {
					most = max(most, mib)
					hard = append(hard, qconf.Setting{Name: name, Value: strconv.Itoa(mib) + "M"})
				}
			}
			if booked[id] = float64(most); most == 0 {
				booked[id] = 1024
			}
			enqueue(t, s, id, &scheduler.Requests{User: []string{"a", "b"}[rng.IntN(2)], Hard: hard})
		}
		for id, r := range run(t, s, now) {
			running[id] = r
			used += booked[id]
		}
		if used > 8*1024 {
			t.Fatalf("%d jobs have %v MB of %v", len(running), used, 8*1024)
		}
		for id, r := range running {
			if rng.IntN(3) == 0 {
				if err := s.End(r); err != nil {
					t.Fatal(err)
				}
				used -= booked[id]
				delete(running, id)
			}
		}
	}
}
