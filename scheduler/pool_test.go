package scheduler_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// pooled returns a host with 8 GB for 8 slots. Without name its requests are each for themselves.
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

// TestMemoryPool checks that jobs book the largest of their requests for memory, once.
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
		"zero":                       {"m_mem_free", requests("mf", "0"), 1, 8},
		"zero of the pool":           {"m_mem_free", requests("m_mem_free", "0", "vf", "0"), 1, 8},
		"less than a byte":           {"m_mem_free", requests("m_mem_free", "0.4"), 1, 8},
		"name and shortcut":          {"m_mem_free", requests("mf", "1M", "mem_free", "4G"), 1, 2},
		"shortcut and name":          {"m_mem_free", requests("mem_free", "1M", "mf", "4G"), 1, 2},
		"an exponent":                {"m_mem_free", requests("mf", "4e9"), 1, 2},
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

// TestMemoryPoolOfTwoUsers submits jobs of two users that request memory under all names, and adds
// up the requests of the running jobs: the sum never exceeds the pool, and free memory is used.
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

// TestMemoryPoolRefuses refuses what would enlarge the pool.
func TestMemoryPoolRefuses(t *testing.T) {
	for _, hard := range [][]qconf.Setting{
		requests("mf", "-1T"), requests("vf", "-0.5"), requests("mem_free", "-1", "h_vmem", "1G"), requests("m_mem_free", "-1K"), requests("mf", "-0x10"),
	} {
		var refused *scheduler.RequestError
		if _, err := pooled(t, "m_mem_free").Model().Category(&scheduler.Requests{User: "u", Hard: hard}); !errors.As(err, &refused) {
			t.Errorf("%v: error %v", hard, err)
		} else if hard[0].Value == "-1T" && refused.Text != `attribute "mem_free" is a request for memory but has a negative value` {
			t.Errorf("%v: %s", hard, refused.Text)
		}
	}
	if _, err := pooled(t, "NONE").Model().Category(&scheduler.Requests{User: "u", Hard: requests("mf", "-1T")}); err != nil {
		t.Errorf("without a pool: %v", err)
	}
}

// TestBookedMemoryIsTheLimit checks for random requests that a job books the amount to which the
// agent limits it.
func TestBookedMemoryIsTheLimit(t *testing.T) {
	model := pooled(t, "m_mem_free").Model()
	setting := rapid.Custom(func(t *rapid.T) qconf.Setting {
		amount := rapid.OneOf(
			rapid.SampledFrom([]string{"0", "0.4", "1", "1.5", "TRUE", "FALSE", "INFINITY", "0:0:1", "1:0:0.5", "+1", "1e0", "1e9", "1e18", "1e300", "0x10K", "010", "08", ".5G", "1.", "-0", "-1", "1_0", "1E3k", "2e", "+0x10", ""}),
			rapid.StringMatching(`[0-9]{1,6}(\.[0-9]{1,3})?[kKmMgGtT]?`))
		return qconf.Setting{
			Name:  rapid.SampledFrom([]string{"h_vmem", "h_rss", "mem_free", "mf", "m_mem_free", "mmf", "virtual_free", "vf", "h_data"}).Draw(t, "name"),
			Value: amount.Draw(t, "value"),
		}
	})
	host, _ := model.Host("n1")
	check := func(t interface{ Fatalf(string, ...any) }, hard []qconf.Setting) {
		c, err := model.Category(&scheduler.Requests{User: "u", Hard: hard})
		if err != nil {
			return // no such job
		}
		booked := scheduler.BookedAt(c, host, "m_mem_free")
		if limit := model.Cluster().BookedMemory("n1", hard); float64(limit) != booked || limit == 0 {
			t.Fatalf("%v books %v bytes and is limited to %d", hard, booked, limit)
		}
	}
	for _, name := range []string{"m_mem_free", "mmf", "mf"} {
		for _, amount := range []string{"0", "0.4", "1e0", "+1", "0:0:1", "TRUE", "1.5"} {
			check(t, requests(name, amount))
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.SliceOfN(setting, 0, 3).Draw(t, "hard")) })
}

// TestMemoryPoolInReservations checks that jobs use the memory of their advance reservation, and no
// more.
func TestMemoryPoolInReservations(t *testing.T) {
	for name, c := range map[string]struct {
		reserved []qconf.Setting
		jobs     [][]qconf.Setting
		run      int
		outside  int    // jobs without requests that run beside the reservation
		gets     string // by a job that requests nothing; empty for the default
	}{
		"nothing reserved, one request":      {nil, [][]qconf.Setting{requests("h_vmem", "1G")}, 1, 6, ""},
		"nothing reserved, more requested":   {nil, [][]qconf.Setting{requests("h_vmem", "3G")}, 0, 6, ""},
		"nothing reserved, nothing asked":    {nil, [][]qconf.Setting{nil, nil}, 2, 6, ""},
		"one takes all":                      {nil, [][]qconf.Setting{requests("mf", "2G"), nil}, 1, 6, ""},
		"both in half":                       {nil, [][]qconf.Setting{requests("mf", "512M"), nil}, 2, 6, ""},
		"little reserved":                    {requests("mf", "1M"), [][]qconf.Setting{nil, nil}, 2, 6, "1048576"},
		"little reserved, the same asked":    {requests("mf", "1M"), [][]qconf.Setting{requests("vf", "1M"), requests("mf", "0")}, 2, 6, "1048576"},
		"little reserved, much asked":        {requests("mf", "1M"), [][]qconf.Setting{requests("vf", "1G")}, 0, 6, "1048576"},
		"much reserved":                      {requests("h_vmem", "2G"), [][]qconf.Setting{nil, requests("vf", "2G")}, 2, 4, "2147483648"},
		"the reservation is used up by one":  {requests("h_vmem", "2G"), [][]qconf.Setting{requests("mf", "3G"), nil}, 1, 4, "2147483648"},
		"the reservation is enough for both": {requests("h_vmem", "2G"), [][]qconf.Setting{requests("mf", "3G"), requests("mf", "1G")}, 2, 4, "2147483648"},
	} {
		s := pooled(t, "m_mem_free")
		two, err := rangelist.Of(2, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		category, err := s.Model().Category(&scheduler.Requests{User: "u", Hard: c.reserved, PE: "smp", Slots: two})
		if err != nil {
			t.Fatal(err)
		}
		pe, grants, ok := s.FindReservation(category, 0, 1000, 0)
		if !ok {
			t.Fatalf("%s: no place", name)
		}
		if err := s.AddReservation(&scheduler.Reservation{ID: 7, End: 1000, Category: category, PE: pe, Grants: grants}); err != nil {
			t.Fatal(err)
		}
		for i, hard := range c.jobs {
			enqueue(t, s, uint32(i+1), &scheduler.Requests{User: "u", Hard: hard, Reservation: 7})
		}
		started := run(t, s, 100)
		if len(started) != c.run {
			t.Errorf("%s: %d jobs run, want %d", name, len(started), c.run)
		}
		for _, r := range started {
			if err := s.End(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		plain, err := s.Model().Category(&scheduler.Requests{User: "u", Reservation: 7})
		if err != nil {
			t.Fatal(err)
		}
		got := s.MemoryFromReservation(plain)
		if c.gets == "" && len(got) != 0 || c.gets != "" && !slices.Equal(got, requests("m_mem_free", c.gets)) {
			t.Errorf("%s: a job without a request gets %v, want %q", name, got, c.gets)
		}
		for id := range uint32(10) {
			enqueue(t, s, id+100, &scheduler.Requests{User: "u"})
		}
		outside := 0
		for id := range run(t, s, 200) {
			if id >= 100 {
				outside++
			}
		}
		if outside != c.outside {
			t.Errorf("%s: %d jobs run beside the reservation, want %d", name, outside, c.outside)
		}
	}
}
