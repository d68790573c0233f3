package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// generator makes sites and jobs up. Numbers are small, so that much of it is contended,
// and whole or binary fractions, so that sums are exact in any order.
type generator struct {
	*rand.Rand
	parallel bool
	id       uint32
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 17))}
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// some returns each element of a list with a probability of percent.
func some[T any](g *generator, percent int, list ...T) (chosen []T) {
	for _, x := range list {
		if g.chance(percent) {
			chosen = append(chosen, x)
		}
	}
	return chosen
}

// attributes are slots, some standard ones, and one of each kind.
var attributes = []siteAttribute{
	{name: "slots", typ: "INT", relop: "<=", requestable: "YES", consumable: "YES", standard: 1, urgency: 1000},
	{name: "h_rt", typ: "TIME", relop: "<=", requestable: "YES", consumable: "NO"},
	{name: "np_load_avg", typ: "DOUBLE", relop: ">=", requestable: "NO", consumable: "NO"},
	{name: "num_proc", typ: "INT", relop: "==", requestable: "YES", consumable: "NO"},
	{name: "arch", typ: "STRING", relop: "==", requestable: "YES", consumable: "NO"},
	{name: "mem", typ: "INT", relop: "<=", requestable: "YES", consumable: "YES", urgency: 10},
	{name: "lic", typ: "INT", relop: "<=", requestable: "YES", consumable: "YES", standard: 1},
	{name: "tok", typ: "INT", relop: "<=", requestable: "YES", consumable: "JOB", urgency: 100},
	{name: "frc", typ: "INT", relop: "<=", requestable: "FORCED", consumable: "YES"},
	{name: "key", typ: "INT", relop: "<=", requestable: "FORCED", consumable: "NO"},
	{name: "excl", typ: "BOOL", relop: "EXCL", requestable: "YES", consumable: "YES"},
	{name: "temp", typ: "INT", relop: ">=", requestable: "YES", consumable: "NO"},
	{name: "cap", typ: "INT", relop: "<=", requestable: "YES", consumable: "NO"},
	{name: "hot", typ: "DOUBLE", relop: ">=", requestable: "YES", consumable: "NO"},
	{name: "free", typ: "DOUBLE", relop: "<=", requestable: "YES", consumable: "NO"},
	{name: "lab", typ: "STRING", relop: "==", requestable: "YES", consumable: "NO", urgency: 50},
	{name: "not", typ: "STRING", relop: "!=", requestable: "YES", consumable: "NO"},
	{name: "flag", typ: "BOOL", relop: "==", requestable: "YES", consumable: "NO"},
}

func (g *generator) small(low, high int) string { return strconv.Itoa(low + g.IntN(high-low+1)) }

func (g *generator) values(percent int) map[string]string {
	v := map[string]string{}
	maybe := func(name, text string) {
		if g.chance(percent) {
			v[name] = text
		}
	}
	maybe("mem", g.small(0, 8))
	maybe("lic", g.small(0, 4))
	maybe("tok", g.small(0, 4))
	maybe("excl", pick(g, "TRUE", "TRUE", "TRUE", "FALSE"))
	maybe("temp", g.small(1, 4))
	maybe("cap", g.small(1, 4))
	maybe("lab", pick(g, "x", "xy", "z"))
	maybe("not", pick(g, "x", "z"))
	maybe("flag", pick(g, "TRUE", "FALSE"))
	if g.chance(percent / 5) {
		v["frc"] = g.small(1, 3)
	}
	if g.chance(percent / 5) {
		v["key"] = g.small(1, 3)
	}
	return v
}

func (g *generator) access(percent int) (a siteAccess) {
	if g.chance(percent) {
		a.users = some(g, 50, "staff", "guests", "others")
	}
	if g.chance(percent) {
		a.xusers = some(g, 30, "staff", "guests", "others")
	}
	if g.chance(percent) {
		a.projects = some(g, 60, "p1", "p2", "p3")
	}
	if g.chance(percent) {
		for _, p := range some(g, 30, "p1", "p2", "p3") {
			if !slices.Contains(a.projects, p) {
				a.xprojects = append(a.xprojects, p)
			}
		}
	}
	return a
}

func (g *generator) site() *site {
	s := &site{
		attributes: attributes, groups: map[string][]string{},
		users: map[string][]string{"staff": {"ann", "@dev"}, "guests": {"cid"}, "others": {"@ops", "bob"}},
	}
	busy := pick(g, 0, 15, 40) // how much is configured
	s.global = &siteHost{name: "global", values: g.values(pick(g, 0, 10, 25))}
	if g.chance(busy / 4) {
		s.global.access = g.access(30)
	}
	for n := range 1 + g.IntN(6) {
		h := &siteHost{name: fmt.Sprintf("n%d", n+1), values: g.values(busy), access: g.access(busy / 4)}
		if g.chance(30) {
			h.values["slots"] = g.small(0, 6)
		}
		if g.chance(20) {
			h.scaling = map[string]float64{pick(g, "np_load_avg", "hot", "free", "mem"): pick(g, 0.5, 2)}
		}
		s.hosts = append(s.hosts, h)
	}
	var names []string
	for _, h := range s.hosts {
		names = append(names, h.name)
	}
	s.groups["@left"], s.groups["@right"] = some(g, 50, names...), some(g, 50, names...)
	if g.parallel {
		for n, rule := range []string{"$fill_up", "$round_robin", "$pe_slots", pick(g, "1", "2", "3")} {
			s.pes = append(s.pes, &sitePE{name: fmt.Sprintf("pe%d", n+1), rule: rule, slots: pick(g, 3, 6, 100), access: siteAccess{xusers: some(g, 5, "staff", "guests")}})
		}
	}
	for _, name := range []string{"z.q", "a.q", "m.q"}[:1+g.IntN(3)] {
		s.queues = append(s.queues, g.queue(s, name, busy))
	}
	if len(s.queues) > 1 && g.chance(25) {
		s.queues[0].subordinates = []siteSubordinate{{s.queues[1].name, g.IntN(3)}}
	}
	for n := range g.IntN(3) {
		s.quotas = append(s.quotas, g.quotaSet(fmt.Sprintf("set%d", n)))
	}
	g.scheduler(s)
	return s
}

func (g *generator) queue(s *site, name string, busy int) *siteQueue {
	q := &siteQueue{name: name}
	for _, h := range s.hosts {
		if len(q.at) > 0 && g.chance(25) {
			continue
		}
		i := &siteInstance{
			queue: name, host: h.name, slots: g.IntN(5), seqno: g.IntN(3), values: g.values(busy / 2),
			access: g.access(busy / 5), batch: !g.chance(8), interactive: !g.chance(30), runtime: "INFINITY", checkpoints: some(g, 30, "ck"),
		}
		if g.chance(20) {
			i.runtime = pick(g, "100", "1000")
		}
		if g.chance(40) {
			i.load = some(g, 25, [2]string{"np_load_avg", pick(g, "0.75", "1.75")}, [2]string{"free", "1"}, [2]string{"hot", "3"},
				[2]string{"mem", "1"}, [2]string{"arch", "lx*"}, [2]string{"flag", "FALSE"})
		}
		for _, p := range s.pes {
			if !g.chance(15) {
				i.pes = append(i.pes, p.name)
			}
		}
		q.at = append(q.at, i)
	}
	return q
}

func (g *generator) filter(items ...string) *siteFilter {
	f := &siteFilter{expanded: g.chance(50)}
	for _, item := range some(g, 40, items...) {
		if g.chance(15) {
			item = "!" + item
		}
		f.items = append(f.items, item)
	}
	if len(f.items) == 0 {
		f.items = []string{"*"}
	}
	slices.SortStableFunc(f.items, func(a, b string) int { return int(b[0]&1) - int(a[0]&1) })
	return f
}

func (g *generator) quotaSet(name string) *siteQuotaSet {
	set := &siteQuotaSet{name: name, enabled: !g.chance(10)}
	for range 1 + g.IntN(3) {
		r := &siteQuotaRule{}
		if g.chance(50) {
			r.users = g.filter("ann", "@staff", "b*", "*")
		}
		if g.chance(25) {
			r.projects = g.filter("p1", "p2", "*")
		}
		if g.chance(15) {
			r.pes = g.filter("pe1", "pe2", "*")
		}
		if g.chance(30) {
			r.queues = g.filter("a.q", "z*", "*")
		}
		if g.chance(40) {
			r.hosts = g.filter("n1", "@left", "*")
		}
		limit := func(percent int, name, text string) {
			if g.chance(percent) {
				r.limits = append(r.limits, [2]string{name, text})
			}
		}
		limit(60, "slots", g.small(0, 5))
		if r.hosts != nil && r.hosts.expanded {
			limit(40, "mem", pick(g, "$num_proc*2", "$num_proc", "$cap*2"))
		} else {
			limit(20, "mem", g.small(0, 6))
		}
		limit(20, "lic", g.small(0, 3))
		limit(10, "cap", g.small(1, 4))
		limit(10, "lab", pick(g, "x", "z"))
		limit(10, "excl", "TRUE")
		if !g.parallel {
			limit(10, "tok", g.small(0, 2))
			limit(5, "key", g.small(1, 3))
		}
		if len(r.limits) == 0 {
			limit(100, "slots", g.small(1, 4))
		}
		set.rules = append(set.rules, r)
	}
	return set
}

func (g *generator) scheduler(s *site) {
	c := &s.scheduler
	c.bySeqno = g.chance(40)
	if g.chance(15) {
		c.maxujobs = 1 + g.IntN(4)
	}
	if g.chance(60) {
		c.adjustments = some(g, 60, [2]string{"np_load_avg", "0.5"}, [2]string{"hot", "1"}, [2]string{"free", "0.25"}, [2]string{"mem", "1"})
		c.decay = pick[int64](g, 0, 100, 450)
	}
	c.formula = pick(g, []siteTerm{{"np_load_avg", 1}}, []siteTerm{{"hot", 1}}, []siteTerm{{"np_load_avg", 2}, {"mem", -0.5}}, []siteTerm{{"slots", -1}})
	c.weights = [5]float64{pick(g, 0, 1.0), pick(g, 0.5, 0.25, 0), pick(g, 0, 0.5), pick(g, 0, 0.25), pick(g, 0, 3600000.0)}
	if g.chance(15) {
		s.maxAJ = 1 + g.IntN(4)
	}
	if g.chance(30) {
		// Where nobody reserves, planning ahead changes nothing.
		c.maxReservation = 1 + g.IntN(3)
		c.more = "default_duration " + pick(g, "10", "300", "INFINITY") + "\n"
	}
}

// loadReport returns random load values of a host or of the cluster.
func (g *generator) loadReport(host string) map[string]string {
	v := map[string]string{}
	maybe := func(percent int, name, text string) {
		if g.chance(percent) {
			v[name] = text
		}
	}
	if host == "global" {
		maybe(10, "hot", g.small(0, 3))
		maybe(10, "free", g.small(1, 5))
		maybe(5, "lab", pick(g, "x", "z"))
		maybe(5, "cap", g.small(1, 4))
		return v
	}
	maybe(95, "np_load_avg", pick(g, "0", "0", "0.25", "0.5", "1.5"))
	maybe(80, "num_proc", g.small(1, 4))
	maybe(80, "arch", pick(g, "lx-amd64", "lx-amd64", "sol"))
	maybe(60, "hot", g.small(0, 3))
	maybe(60, "free", g.small(1, 5))
	maybe(30, "mem", g.small(0, 8))
	maybe(15, "cap", g.small(1, 4))
	maybe(15, "temp", g.small(1, 4))
	maybe(15, "lab", pick(g, "x", "z"))
	maybe(15, "flag", pick(g, "TRUE", "FALSE"))
	return v
}

func (g *generator) requests(percent int) map[string]string {
	v := map[string]string{}
	maybe := func(percent int, name, text string) {
		if g.chance(percent) {
			v[name] = text
		}
	}
	maybe(percent, "mem", g.small(0, 4))
	maybe(percent/2, "lic", g.small(0, 2))
	maybe(percent/2, "tok", g.small(0, 2))
	maybe(percent/2, "frc", g.small(0, 2))
	maybe(percent/2, "key", g.small(1, 2))
	maybe(percent/2, "excl", pick(g, "TRUE", "TRUE", "FALSE"))
	g.simpleRequests(v, percent/3)
	return v
}

func (g *generator) simpleRequests(v map[string]string, percent int) {
	maybe := func(name, text string) {
		if g.chance(percent) {
			v[name] = text
		}
	}
	maybe("h_rt", pick(g, "50", "500"))
	maybe("arch", pick(g, "lx*", "sol", "!sol"))
	maybe("temp", g.small(1, 5))
	maybe("cap", g.small(1, 5))
	maybe("hot", g.small(0, 4))
	maybe("free", g.small(0, 4))
	maybe("lab", pick(g, "x", "x*", "!z"))
	maybe("not", pick(g, "x", "y"))
	maybe("flag", pick(g, "TRUE", "FALSE"))
	maybe("num_proc", g.small(1, 4))
}

// job makes a job up. Few kinds of requests make categories with several jobs.
func (g *generator) job(s *site, now int64) *naiveJob {
	g.id++
	j := &naiveJob{
		id: g.id, user: pick(g, "ann", "bob", "cid"), group: pick(g, "dev", "ops"), hard: map[string]string{}, soft: map[string]string{},
		submitted: now - int64(g.IntN(50)), tasks: []int{1},
	}
	if g.chance(60) {
		j.hard = g.requests(30)
	}
	if g.chance(30) {
		j.project = pick(g, "p1", "p2", "p3")
	}
	if g.chance(15) && !g.parallel {
		g.simpleRequests(j.soft, 30)
	}
	references := []string{s.queues[0].name, "*@" + s.queues[0].at[0].host, s.queues[len(s.queues)-1].name, "*.q@n?"}
	if slices.Contains(s.groups["@left"], s.queues[0].at[0].host) {
		references = append(references, s.queues[0].name+"@@left")
	}
	if g.chance(15) {
		j.queues = some(g, 40, references...)
	}
	if g.chance(10) && !g.parallel {
		j.softQueues = some(g, 40, references...)
	}
	if g.chance(10) {
		j.masterQueues = some(g, 40, references...)
	}
	if g.parallel && g.chance(60) {
		if g.chance(20) {
			j.hard["tok"] = g.small(1, 2)
		}
		j.pe = pick(g, "pe1", "pe2", "pe3", "pe4", "pe*", "pe[13]")
		low := 1 + g.IntN(4)
		j.slots = pick(g, []int{low}, []int{low}, []int{low, low + 1, low + 2}, []int{1, 4, 7})
	}
	if g.chance(8) {
		j.checkpoint = "ck"
	}
	if g.chance(8) {
		j.immediate = true
	}
	if g.chance(20) {
		j.array = true
		j.tasks = [][]int{{1, 2, 3}, {2, 4, 6, 8}, {5}}[g.IntN(3)]
		if g.chance(30) {
			j.limit = 1 + g.IntN(3)
		}
	}
	if g.chance(20) {
		j.priority = pick(g, -100, 10, 500)
	}
	if g.chance(10) {
		j.deadline = now + int64(g.IntN(300)) - 50
	}
	if g.chance(10) {
		j.override = float64(1 + g.IntN(3))
	}
	if g.chance(8) {
		j.excluded = []string{s.hosts[g.IntN(len(s.hosts))].name}
	}
	return j
}
