package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

// planningSite returns a cluster in which jobs compete for slots and memory.
func planningSite(g *generator) *site {
	s := &site{attributes: attributes, global: &siteHost{name: "global"}, groups: map[string][]string{}, users: map[string][]string{}}
	q := &siteQueue{name: "a.q"}
	for n := range 1 + g.IntN(4) {
		h := &siteHost{name: fmt.Sprintf("n%d", n+1), values: map[string]string{}}
		if g.chance(60) {
			h.values["mem"] = g.small(2, 8)
		}
		if g.chance(30) {
			h.values["excl"] = "TRUE"
		}
		s.hosts = append(s.hosts, h)
		q.at = append(q.at, &siteInstance{
			queue: "a.q", host: h.name, slots: 1 + g.IntN(4), batch: true, interactive: true,
			runtime: "INFINITY", pes: []string{"pe1", "pe2", "pe3"},
		})
	}
	if g.chance(30) {
		s.global.values = map[string]string{"lic": g.small(1, 4)}
	}
	s.queues = []*siteQueue{q}
	for n, rule := range []string{"$fill_up", "$round_robin", "$pe_slots"} {
		s.pes = append(s.pes, &sitePE{name: fmt.Sprintf("pe%d", n+1), rule: rule, slots: pick(g, 4, 100)})
	}
	if g.chance(40) {
		s.quotas = []*siteQuotaSet{{name: "few", enabled: true, rules: []*siteQuotaRule{{
			users: &siteFilter{expanded: g.chance(50), items: []string{"*"}}, limits: [][2]string{{"slots", g.small(1, 6)}},
		}}}}
	}
	s.scheduler.maxReservation = 1 + g.IntN(3)
	s.scheduler.weights = [5]float64{1, 0, 0, 0, 0}
	s.scheduler.more = fmt.Sprintf("schedule_interval 5\ndefault_duration %s\nparams DURATION_OFFSET=%s\n", pick(g, "INFINITY", "200"), pick(g, "0", "60"))
	return s
}

// timed is a job with a limit, and how long it really takes.
type timed struct {
	job  *naiveJob
	took int64
}

func (g *generator) timedJob(now int64) timed {
	g.id++
	limit := int64(5 * (1 + g.IntN(40)))
	j := &naiveJob{
		id: g.id, user: pick(g, "ann", "bob"), group: "dev", submitted: now, tasks: []int{1},
		hard: map[string]string{"h_rt": fmt.Sprint(limit)},
	}
	if g.chance(40) {
		j.hard["mem"] = g.small(1, 4)
	}
	if g.chance(10) {
		j.hard["excl"] = "TRUE"
	}
	if g.chance(40) {
		j.pe = pick(g, "pe1", "pe2", "pe3", "pe*")
		low := 1 + g.IntN(5)
		j.slots = pick(g, []int{low}, []int{low, low + 1})
	}
	return timed{j, 5 * (1 + g.Int64N(limit/5))}
}

// play is a simulation in steps of five seconds in which jobs keep their limits.
type play struct {
	*twin
	g    *generator
	now  int64
	took map[*naiveJob]int64
}

func newPlay(t fatal, g *generator, s *site) *play {
	p := &play{twin: newTwin(t, s), g: g, now: 10000, took: map[*naiveJob]int64{}}
	p.alone = true
	return p
}

func (p *play) add(x timed, reserve bool) bool {
	p.took[x.job] = x.took
	return p.submit(x.job, reserve)
}

// step ends what is over, and runs.
func (p *play) step() *scheduler.Decisions {
	for _, t := range slices.Clone(p.naive.running) {
		if t.started+p.took[t.job] <= p.now {
			p.end(t)
		}
	}
	want, d := p.run(p.now)
	for i, t := range want {
		p.start(&d.Starts[i], t)
	}
	p.audit(p.naive.running)
	return d
}

// TestReservationIsKept lets a job of the highest priority reserve while others come and
// go: it starts no later than at the time that was found for it first.
func TestReservationIsKept(t *testing.T) {
	late, kept := 0, 0
	for seed := range uint64(80) {
		g := newGenerator(seed)
		p := newPlay(seedT{t, seed}, g, planningSite(g))
		for range 30 {
			p.add(g.timedJob(p.now), false)
		}
		p.step()
		first := g.timedJob(p.now)
		first.job.priority = 1000
		if !p.add(first, true) {
			continue
		}
		promised := int64(0)
		for range 200 {
			d := p.step()
			for _, r := range d.Reservations {
				if r.Job.ID != first.job.id {
					continue
				}
				if r.At <= p.now {
					p.t.Fatalf("at %d a place is reserved from %d on: it is free now", p.now, r.At)
				}
				if promised != 0 && r.At > promised {
					p.t.Fatalf("at %d: %s of %+v, was promised for %d\n%s", p.now, grantsText(p.model, r.PE, r.Grants), r, promised, p)
				}
				promised = r.At
			}
			if first.job.active > 0 {
				break
			}
			if promised != 0 && p.now >= promised {
				p.t.Fatalf("at %d the job does not run, and %d was promised\n%s", p.now, promised, p)
			}
			p.now += 5
			if g.chance(50) {
				p.add(g.timedJob(p.now), g.chance(20))
			}
		}
		if promised > 0 {
			late++
			if first.job.active > 0 {
				kept++
			}
		}
	}
	if kept < 15 || kept < late {
		t.Errorf("of %d jobs that reserved, %d started", late, kept)
	}
}

// TestAdvanceReservationIsFree makes advance reservations while jobs come and go. When
// their time comes, nobody uses what they have.
func TestAdvanceReservationIsFree(t *testing.T) {
	made := 0
	for seed := range uint64(60) {
		g := newGenerator(seed)
		s := planningSite(g)
		s.quotas = nil // which do not hold for advance reservations
		p := newPlay(seedT{t, seed}, g, s)
		var all []*reserved
		for range 120 {
			for range g.IntN(3) {
				p.add(g.timedJob(p.now), g.chance(20))
			}
			if g.chance(10) {
				if r := p.reserve(uint32(len(all) + 1)); r != nil {
					all = append(all, r)
					made++
				}
			}
			p.step()
			for _, r := range all {
				if p.now >= r.ar.End && !r.gone {
					p.state.RemoveReservation(r.ar)
					r.gone = true
				}
			}
			p.auditReservations(all)
			p.now += 5
		}
	}
	if made < 60 {
		t.Errorf("only %d advance reservations were made", made)
	}
}

type reserved struct {
	ar   *scheduler.Reservation
	job  *naiveJob // what it asks for
	gone bool
}

// reserve makes an advance reservation where there is a place for one.
func (p *play) reserve(id uint32) *reserved {
	x := p.g.timedJob(p.now)
	start := p.now + int64(5*p.g.IntN(60))
	end := start + x.took
	c, err := p.model.Category(p.requests(x.job))
	if err != nil {
		p.t.Fatal(err)
	}
	pe, grants, ok := p.state.FindReservation(c, start, end, p.now)
	if !ok {
		return nil
	}
	ar := &scheduler.Reservation{ID: id, Start: start, End: end, Category: c, PE: pe, Grants: grants}
	addReservation(p.t, p.state, ar)
	return &reserved{ar: ar, job: x.job}
}

// auditReservations counts the reservations whose time it is as if they were tasks.
func (p *play) auditReservations(all []*reserved) {
	p.t.Helper()
	tasks := slices.Clone(p.naive.running)
	for _, r := range all {
		if p.now < r.ar.Start || p.now >= r.ar.End {
			continue
		}
		t := &naiveTask{job: r.job, pe: p.model.PEName(r.ar.PE), task: 1}
		for _, g := range r.ar.Grants {
			t.grants = append(t.grants, naiveGrant{p.model.InstanceName(g.Instance), g.Slots})
		}
		tasks = append(tasks, t)
	}
	p.audit(tasks)
}

// TestJobsInAdvanceReservation starts jobs inside: they use the reservation and nothing
// else, and what it leaves stays for others.
func TestJobsInAdvanceReservation(t *testing.T) {
	m := modelOf(t, directory(map[string]string{
		"complexes":   "mem mem INT <= YES YES 0 0\n",
		"hosts/n1":    "hostname n1\ncomplex_values mem=4\n",
		"queues/a.q":  "qname a.q\nhostlist n1\nslots 3\nload_thresholds NONE\n",
		"sched_conf":  "max_reservation 0\ndefault_duration 100\n",
		"conf/global": "",
	}))
	s := scheduler.NewState(m)
	job := func(id, ar uint32, mem string) *scheduler.Job {
		r := &scheduler.Requests{User: "alice", Group: "users", Reservation: ar}
		if mem != "" {
			r.Hard = settings(map[string]string{"mem": mem})
		}
		j := serialJob(t, m, id, r)
		submit(t, s, j)
		return j
	}
	c, err := m.Category(&scheduler.Requests{User: "alice", Group: "users", Hard: settings(map[string]string{"mem": "2"})})
	if err != nil {
		t.Fatal(err)
	}
	_, grants, ok := s.FindReservation(c, 1000, 2000, 900)
	if !ok {
		t.Fatal("an empty cluster has no place for a reservation")
	}
	ar := &scheduler.Reservation{ID: 7, Start: 1000, End: 2000, Category: c, PE: scheduler.None, Grants: grants}
	addReservation(t, s, ar)
	starts := func(now int64, want ...uint32) *scheduler.Decisions {
		t.Helper()
		d := s.Run(now)
		var got []uint32
		for i := range d.Starts {
			got = append(got, d.Starts[i].Job.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("at %d the jobs %v start, want %v", now, got, want)
		}
		return d
	}
	inside, second, outside, greedy := job(1, 7, "2"), job(2, 7, ""), job(3, 0, "2"), job(4, 0, "1")
	// Before its time nobody gets in. Jobs of a hundred seconds do not end before it.
	starts(999, outside.ID)
	starts(500, outside.ID, greedy.ID)
	// Of three slots one is reserved, and of four of memory two.
	d := starts(1000, inside.ID, outside.ID)
	if text := startText(m, &d.Starts[0]); text != "1.1  a.q@n1=1" {
		t.Errorf("in the reservation starts %s", text)
	}
	for i := range d.Starts {
		x := d.Starts[i]
		if err := s.Start(&scheduler.Running{Job: x.Job, Task: x.Task, Started: 1000, PE: x.PE, Grants: x.Grants}); err != nil {
			t.Fatal(err)
		}
		s.Dequeue(x.Job)
	}
	if got := s.ReservedSlots(grants[0].Instance, 1000); got != 1 {
		t.Errorf("%d slots are reserved, want 1", got)
	}
	starts(1001) // the reservation is full, and there is no memory left outside
	s.Dequeue(second)
	free := job(5, 0, "")
	starts(1001, free.ID)
	for _, r := range s.Running() {
		if r.Job == inside {
			if err := s.End(r); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	s.RemoveReservation(ar)
	starts(2000, greedy.ID, free.ID)
}

// TestShares lets users with different shares run jobs all the time: what they use comes to
// be in the proportion of their shares.
func TestShares(t *testing.T) {
	m := modelOf(t, directory(map[string]string{
		"hosts/n1":   "hostname n1\n",
		"queues/a.q": "qname a.q\nhostlist n1\nslots 10\nload_thresholds NONE\n",
		"sched_conf": "weight_tickets_share 100000\nweight_ticket 1\nweight_urgency 0\nhalftime 24\n",
	}))
	shares := []float64{60, 30, 10}
	nodes := []tickets.Node{{Name: "Root", Parent: tickets.None, Shares: 1}}
	for u, n := range shares {
		nodes = append(nodes, tickets.Node{Name: fmt.Sprintf("u%d", u), Kind: tickets.UserNode, Index: int32(u), Shares: n})
	}
	tree, err := tickets.NewTree(nodes, len(shares), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := scheduler.NewState(m)
	ledger := &tickets.Ledger{Users: make([]tickets.UserUsage, len(shares))}
	s.Entitlements = scheduler.Entitlements{Users: make([]tickets.Entity, len(shares)), Tree: tree, Ledger: ledger}
	decay := tickets.NewDecay(24, nil)
	id, used := uint32(0), make([]float64, len(shares))
	waiting := make([]int, len(shares))
	for cycle := range 400 {
		now := int64(1000 + 600*cycle)
		for _, r := range slices.Clone(s.Running()) {
			if err := s.End(r); err != nil {
				t.Fatal(err)
			}
			ledger.Decay(decay, now)
			var amounts, none tickets.Amounts
			amounts[tickets.CPU] = 600
			ledger.Book(r.Job.User.Index(), tickets.None, &amounts, &none)
			if cycle > 100 {
				used[r.Job.User.Index()] += 600
			}
		}
		for u := range shares {
			for ; waiting[u] < 10; waiting[u]++ {
				id++
				j := serialJob(t, m, id, &scheduler.Requests{User: fmt.Sprintf("u%d", u), Group: "users"})
				j.Submitted, j.User, j.Leaf = now, tickets.RefTo(int32(u)), tree.Leaf(int32(u), tickets.None)
				submit(t, s, j)
			}
		}
		d := s.Run(now)
		if len(d.Starts) != 10 {
			t.Fatalf("in cycle %d %d jobs start, want 10", cycle, len(d.Starts))
		}
		for i := range d.Starts {
			x := &d.Starts[i]
			s.Dequeue(x.Job)
			waiting[x.Job.User.Index()]--
			if err := s.Start(&scheduler.Running{Job: x.Job, Task: x.Task, Started: now, PE: x.PE, Grants: x.Grants}); err != nil {
				t.Fatal(err)
			}
		}
	}
	sum := used[0] + used[1] + used[2]
	for u, n := range shares {
		if got := 100 * used[u] / sum; got < n-5 || got > n+5 {
			t.Errorf("user %d with %v %% of the shares has used %.1f %%", u, n, got)
		}
	}
}

// TestJobsThatCanNeverStartReserveNothing submits jobs that can never start with the present
// configuration: no resources are reserved for them.
func TestJobsThatCanNeverStartReserveNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		ask   scheduler.Requests
	}{
		{name: "no access to the cluster", files: map[string]string{"hosts/global": "hostname global\nxuser_lists them\n"}},
		{name: "no access to the host", files: map[string]string{"hosts/n1": "hostname n1\nxuser_lists them\n"}},
		{name: "forced everywhere", files: map[string]string{"hosts/global": "hostname global\ncomplex_values frc=2\n"}},
		{name: "forced on the host", files: map[string]string{"hosts/n1": "hostname n1\ncomplex_values frc=2\n"}},
		{name: "wrong project", files: map[string]string{"hosts/global": "hostname global\nprojects p1\n"}},
		{name: "more than there is", ask: scheduler.Requests{Hard: settings(map[string]string{"mem": "5"})}},
		{name: "less than the default", files: map[string]string{"hosts/n1": "hostname n1\ncomplex_values dflt=1\n"}},
		{
			name: "not exclusive", files: map[string]string{"hosts/n1": "hostname n1\ncomplex_values excl=FALSE\n"},
			ask: scheduler.Requests{Hard: settings(map[string]string{"excl": "TRUE"})},
		},
		{name: "nowhere defined", ask: scheduler.Requests{Hard: settings(map[string]string{"nowhere": "1"})}},
		{name: "quota", files: map[string]string{"rqs": "{\n name q\n enabled TRUE\n limit users * to slots=0\n}\n"}},
		{name: "more slots than the environment has", ask: scheduler.Requests{PE: "pe1", Slots: slotsOf(t, "4")}},
		{name: "more slots than the queue has", ask: scheduler.Requests{PE: "pe2", Slots: slotsOf(t, "3")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{
				"complexes": "mem mem INT <= YES YES 0 0\nfrc frc INT <= FORCED YES 0 0\ndflt dflt INT <= YES YES 2 0\n" +
					"excl excl BOOL EXCL YES YES 0 0\nnowhere nowhere INT <= YES YES 0 0\n",
				"hosts/n1":      "hostname n1\ncomplex_values mem=4\n",
				"queues/a.q":    "qname a.q\nhostlist n1\nslots 2\nload_thresholds NONE\npe_list pe1 pe2\n",
				"pes/pe1":       "pe_name pe1\nslots 3\nallocation_rule $fill_up\n",
				"pes/pe2":       "pe_name pe2\nslots 100\nallocation_rule $fill_up\n",
				"usersets/them": "name them\ntype ACL\nentries alice\n",
				"projects/p1":   "name p1\n",
				"sched_conf":    "max_reservation 5\ndefault_duration 100\n",
			}
			maps.Copy(files, c.files)
			m := modelOf(t, directory(files))
			s := scheduler.NewState(m)
			j := serialJob(t, m, 1, &c.ask)
			j.Reserve = true
			submit(t, s, j)
			if d := s.Run(1000); len(d.Starts) > 0 || len(d.Reservations) > 0 {
				t.Errorf("starts %+v, reservations %+v", d.Starts, d.Reservations)
			}
		})
	}
}

// TestQuotaOfJobConsumableWhilePlanning limits a consumable that a parallel job takes once, in runs
// that plan ahead.
func TestQuotaOfJobConsumableWhilePlanning(t *testing.T) {
	m := modelOf(t, directory(map[string]string{
		"complexes":  "tok tok INT <= YES JOB 0 0\n",
		"hosts/n1":   "hostname n1\ncomplex_values tok=9\n",
		"queues/a.q": "qname a.q\nhostlist n1\nslots 9\nload_thresholds NONE\npe_list fill\n",
		"pes/fill":   "pe_name fill\nslots 9\nallocation_rule $fill_up\n",
		"sched_conf": "max_reservation 3\ndefault_duration 0:10:0\njob_load_adjustments NONE\n",
		"rqs":        "{\n name q\n enabled TRUE\n limit hosts n1 to tok=2\n}\n",
	}))
	s := scheduler.NewState(m)
	for id := range uint32(4) {
		submit(t, s, serialJob(t, m, id+1, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: request("tok", "1")}))
	}
	for now := int64(1000); now < 1003; now++ {
		for i := range s.Run(now).Starts {
			x := s.Run(now).Starts[0]
			if now > 1000 || i > 1 {
				t.Errorf("at %d job %d starts", now, x.Job.ID)
			}
			s.Dequeue(x.Job)
			if err := s.Start(running(&x, now)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(s.Running()); n != 2 {
		t.Errorf("%d jobs run, want 2", n)
	}
}

// TestLookBack looks for the earliest times of parallel jobs in made up clusters with running
// jobs and reservations: it is the time up to which a job finds places where each time is looked
// at for itself.
func TestLookBack(t *testing.T) {
	times := map[int64]bool{}
	for seed := range uint64(150) {
		g := newGenerator(seed)
		site := planningSite(g)
		if g.chance(40) {
			g.parallel = true
			site = g.site()
			site.scheduler.maxReservation = 5
			site.scheduler.more = "default_duration 200\n"
		}
		p := newPlay(seedT{t, seed}, g, site)
		job := func() *naiveJob {
			if site.scheduler.bySeqno || len(site.queues) > 1 {
				return g.job(site, p.now)
			}
			return g.timedJob(p.now).job
		}
		for turn := range uint32(12) {
			for range 6 {
				j := job()
				p.took[j] = int64(5 * (1 + g.IntN(60)))
				p.submit(j, g.chance(50))
			}
			p.step()
			if g.chance(20) {
				p.reserve(1000 + turn)
			}
			for _, n := range p.naive.pending {
				j := p.jobs[n.id].job
				if !j.Category.Parallel() || len(n.soft)+len(n.softQueues) > 0 {
					continue
				}
				got, want := p.state.LookBack(j, p.now)
				if !slices.Equal(got, want) {
					p.t.Fatalf("at %d job %d finds places from %d on, want %d\n%s", p.now, n.id, got, want, p)
				}
				for _, at := range got {
					times[at-p.now] = true
				}
			}
			p.now += int64(5 * g.IntN(8))
		}
	}
	if len(times) < 60 {
		t.Errorf("only %d different times were found", len(times))
	}
}
