package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/cell/requests"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/value"
	"github.com/execd-project/execd/submit"
)

// files is a configuration directory: the standard complexes and those of the file
// "complexes" are there.
type files map[string]string

func (f files) cluster(t testing.TB) *qconf.Cluster {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range f {
		if name == "complexes" {
			text = qconf.DefaultComplexes().Format() + text
		}
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := qconf.Load(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newBook(t testing.TB, c *qconf.Cluster, host string) *Book {
	t.Helper()
	b, problems := New(c, host)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return b
}

func ask(t testing.TB, options string) *submit.Request {
	t.Helper()
	r, err := submit.Parse(submit.Input{Args: append(strings.Fields(options), "-b", "y", "sleep")})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dump returns the visible state of all bookings.
func (b *Book) dump(now int64) string {
	var text strings.Builder
	o := b.state.Observe(now)
	list := func(name string, resources []scheduler.Resource) {
		fmt.Fprintf(&text, "%s:", name)
		for _, x := range resources {
			fmt.Fprintf(&text, " %c%c:%s=%s", x.Layer, x.Kind, b.model.Attributes()[x.Attribute].Name, x.Value.Format(value.Reason))
		}
		text.WriteByte('\n')
	}
	list("global", o.Host(scheduler.GlobalHost))
	for h := range b.model.Hosts() {
		list(b.model.HostName(scheduler.HostID(h)), o.Host(scheduler.HostID(h)))
		shape, _ := b.state.FreeCores(scheduler.HostID(h))
		fmt.Fprintln(&text, shape)
	}
	for i := range b.model.Instances() {
		_, used, _ := o.SlotsOf(scheduler.InstanceID(i))
		list(fmt.Sprintf("%s %d", b.model.InstanceName(scheduler.InstanceID(i)), used), o.Instance(scheduler.InstanceID(i)))
	}
	return text.String()
}

// site is a generated cluster, with a master, and an agent on each host.
type site struct {
	t      testing.TB
	r      *rand.Rand
	now    int64
	id     uint32
	files  files
	hosts  []string
	model  *scheduler.Model
	master *scheduler.State
	books  map[string]*Book
	tasks  []*siteTask
}

type siteTask struct {
	run      *scheduler.Running
	bookings map[string]Booking // by host
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (s *site) chance(percent int) bool { return s.r.IntN(100) < percent }

func newSite(t testing.TB, seed uint64) *site {
	s := &site{t: t, r: rand.New(rand.NewPCG(seed, 5)), now: 10000, hosts: []string{"n1", "n2", "n3"}, books: map[string]*Book{}}
	s.files = files{
		"complexes": "mem mem MEMORY <= YES YES 0 0\ntok tok INT <= YES JOB 0 0\ndev dev INT <= YES HOST 0 0\nlic lic INT <= YES YES 1 0\n" +
			"gpu gpu RSMAP <= YES YES 0 0\nkey key RSMAP <= YES JOB 0 0\nexcl excl BOOL EXCL YES YES 0 0\n",
		"hosts/global":   "hostname global\ncomplex_values " + pick(s.r, "NONE", "lic=6", "lic=6,key=3(x y z)", "tok=2") + "\n",
		"usersets/staff": "name staff\ntype ACL\nentries ann,@dev\n",
		"projects/p1":    "name p1\n",
		"hostgroups/@a":  "group_name @a\nhostlist n1 n2\n",
		"sched_conf":     "job_load_adjustments " + pick(s.r, "NONE", "np_load_avg=0.5") + "\n" + pick(s.r, "", "params BINDING_AWARE=true\n", "params BINDING_AWARE=true\n") + pick(s.r, "", "max_reservation 3\n"),
	}
	for _, h := range s.hosts {
		var values []string
		for _, v := range []string{"mem=8", "tok=2", "dev=3", "gpu=4(g0 g1 g2 g3)", "key=2(a b)", "excl=true", "lic=5", "slots=7"} {
			if s.chance(40) {
				values = append(values, v)
			}
		}
		if values == nil {
			values = []string{"NONE"}
		}
		s.files["hosts/"+h] = "hostname " + h + "\ncomplex_values " + strings.Join(values, ",") + "\n" + pick(s.r, "", "", "", "user_lists staff\n")
	}
	for _, q := range []string{"a.q", "b.q"} {
		s.files["queues/"+q] = "qname " + q + "\nhostlist " + pick(s.r, "n1 n2 n3", "@a n3", "n1 n2") + "\nslots " + pick(s.r, "2", "4", "3,[n2=6]") +
			"\npe_list fill round one two\nqtype BATCH INTERACTIVE\ncomplex_values " + pick(s.r, "NONE", "mem=6", "excl=true") +
			"\nload_thresholds " + pick(s.r, "NONE", "np_load_avg=1.75", "np_load_avg=1") + "\nh_rt " + pick(s.r, "INFINITY", "0:10:0") + "\n"
	}
	for name, rule := range map[string]string{"fill": "$fill_up", "round": "$round_robin", "one": "$pe_slots", "two": "2"} {
		s.files["pes/"+name] = "pe_name " + name + "\nslots 8\nallocation_rule " + rule + "\n"
	}
	if s.chance(60) {
		s.files["rqs"] = "{\n name q\n enabled TRUE\n limit users {*} hosts " + pick(s.r, "{*}", "n1", "*", "@a") + " to slots=" + pick(s.r, "3", "5") + pick(s.r, "", ",tok=1", ",mem=6") + "\n}\n"
	}
	cluster := s.files.cluster(t)
	var problems []error
	if s.model, problems = scheduler.NewModel(cluster, scheduler.Options{}); len(problems) > 0 {
		t.Fatal(problems)
	}
	s.master = scheduler.NewState(s.model)
	for _, h := range s.hosts {
		s.books[h] = newBook(t, cluster, h)
		s.report(h)
	}
	return s
}

func (s *site) report(host string) {
	topology := map[string]string{"n1": "SCCCC", "n2": "SCCSCC", "n3": "SCTTCTT"}[host]
	load := map[string]string{"np_load_avg": pick(s.r, "0", "0.5", "0.9", "1.2"), "num_proc": "4", "arch": "lx-amd64", "m_topology": topology, "m_topology_inuse": topology}
	if err := s.master.SetLoad(host, load); err != nil {
		s.t.Fatal(err)
	}
	if problems := s.books[host].SetLoad(load); len(problems) > 0 {
		s.t.Fatal(problems)
	}
}

// submit generates a job.
func (s *site) submit() (*scheduler.Job, *submit.Request) {
	var o []string
	maybe := func(percent int, options ...string) {
		if s.chance(percent) {
			o = append(o, pick(s.r, options...))
		}
	}
	parallel := s.chance(60)
	if parallel {
		o = append(o, pick(s.r, "-pe fill 2-5", "-pe round 3", "-pe one 1-3", "-pe two 2-6", "-pe f* 4"))
	}
	maybe(30, "-l mem=2", "-l mem=1")
	maybe(25, "-l tok=1", "-l tok=2")
	maybe(20, "-l dev=1", "-l dev=2")
	maybe(25, "-l gpu=1", "-l gpu=2")
	maybe(15, "-l key=1")
	maybe(10, "-l excl=true")
	maybe(15, "-l h_rt=60", "-l h_rt=0:20:0")
	maybe(10, "-l arch=lx*")
	maybe(25, "-binding linear:1", "-binding linear", "-binding striding:2:1")
	maybe(10, "-q a.q", "-q *@n1", "-q b.q@@a")
	maybe(10, "-P p1")
	if parallel {
		maybe(15, "-masterq a.q", "-masterq *@n2")
	}
	r := ask(s.t, strings.Join(o, " "))
	owner := pick(s.r, "ann", "bob")
	c, err := s.model.Category(requests.Of(owner, "users", r.Project, r))
	if err != nil {
		s.t.Fatal(err)
	}
	one, err := rangelist.Of(1, 1, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	s.id++
	j := &scheduler.Job{ID: s.id, Category: c, Owner: owner, Submitted: s.now, Tasks: one, Reserve: s.chance(20)}
	if err := s.master.Enqueue(j); err != nil {
		s.t.Fatal(err)
	}
	return j, r
}

// bookings are the parts of a start, by host.
func (s *site) bookings(x *scheduler.Start, r *submit.Request) map[string]Booking {
	parts := map[string]Booking{}
	total := 0
	for i, g := range x.Grants {
		settings := s.model.Settings(g.Instance)
		b, ok := parts[settings.Host]
		if !ok {
			b = Booking{
				ID: job.ID{Job: int(x.Job.ID)}, Owner: x.Job.Owner, Group: "users", Request: r, PE: s.model.PEName(x.PE),
				Slave: i > 0, Started: time.Unix(s.now, 0),
			}
		}
		b.Grants = append(b.Grants, Grant{Queue: settings.Queue, Slots: g.Slots, Names: s.model.Names(&g), Cores: g.Cores})
		parts[settings.Host] = b
		total += g.Slots
	}
	for host, b := range parts {
		b.Elsewhere = total
		for _, g := range b.Grants {
			b.Elsewhere -= g.Slots
		}
		if b.Elsewhere == 0 {
			b.Slave = false
		}
		parts[host] = b
	}
	return parts
}

// stored returns a booking as read after a restart.
func (s *site) stored(b Booking) Booking {
	text, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	var again Booking
	if err := json.Unmarshal(text, &again); err != nil {
		s.t.Fatal(err)
	}
	return again
}

func (s *site) start(x *scheduler.Start, r *submit.Request) {
	run := &scheduler.Running{Job: x.Job, Task: x.Task, Started: s.now, PE: x.PE, Grants: x.Grants, Limit: x.Duration}
	if err := s.master.Start(run); err != nil {
		s.t.Fatal(err)
	}
	s.master.Dequeue(x.Job)
	t := &siteTask{run: run, bookings: s.bookings(x, r)}
	s.tasks = append(s.tasks, t)
	for host, b := range t.bookings {
		b = s.stored(b)
		if err := s.books[host].Admit(&b, time.Unix(s.now, 0)); err != nil {
			s.t.Fatalf("%v\nat %d, %+v on %s: %v\n%s", s.files, s.now, b, host, err, s.books[host].dump(s.now))
		}
		if err := s.books[host].Take(&b, time.Unix(s.now, 0)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) end(i int) {
	t := s.tasks[i]
	if err := s.master.End(t.run); err != nil {
		s.t.Fatal(err)
	}
	for host, b := range t.bookings {
		if !s.books[host].End(b.ID) {
			s.t.Fatalf("job %s is not booked on %s", b.ID, host)
		}
	}
	s.tasks = slices.Delete(s.tasks, i, i+1)
}

// audit compares each book with a new one in which only the running jobs are booked.
func (s *site) audit() {
	s.t.Helper()
	cluster := s.files.cluster(s.t)
	for _, h := range s.hosts {
		fresh := newBook(s.t, cluster, h)
		fresh.SetLoad(s.books[h].load)
		used := 0
		for _, t := range s.tasks {
			b, ok := t.bookings[h]
			if !ok {
				continue
			}
			for _, g := range b.Grants {
				used += g.Slots
			}
			b = s.stored(b)
			if err := fresh.Start(&b); err != nil {
				s.t.Fatal(err)
			}
		}
		if diff := cmp.Diff(fresh.dump(s.now), s.books[h].dump(s.now)); diff != "" {
			s.t.Fatalf("the book of %s: -want +got:\n%s", h, diff)
		}
		if _, got := s.books[h].Usage(); got != used {
			s.t.Fatalf("%d slots of %s are in use, want %d", got, h, used)
		}
	}
}

// TestAgentsAdmitAllStartsOfMaster runs a master for a whole cluster, and an agent for each host:
// the agents admit all starts of the master, and their books are correct.
func TestAgentsAdmitAllStartsOfMaster(t *testing.T) {
	starts, parallel, slaves := 0, 0, 0
	for seed := range uint64(50) {
		s := newSite(t, seed)
		for range 12 {
			asked := map[*scheduler.Job]*submit.Request{}
			for range 1 + s.r.IntN(8) {
				j, r := s.submit()
				asked[j] = r
			}
			for i := range slices.Backward(s.tasks) {
				if s.chance(35) {
					s.end(i)
				}
			}
			if s.chance(40) {
				s.report(pick(s.r, s.hosts...))
			}
			d := s.master.Run(s.now)
			for i := range d.Starts {
				x := &d.Starts[i]
				s.start(x, asked[x.Job])
				if starts++; x.PE != scheduler.None {
					parallel++
				}
				if n := len(s.tasks[len(s.tasks)-1].bookings); n > 1 {
					slaves += n - 1
				}
				delete(asked, x.Job)
			}
			for j := range asked {
				s.master.Dequeue(j)
			}
			if s.chance(30) {
				s.audit()
			}
			s.now += int64(s.r.IntN(300))
		}
		s.audit()
	}
	if starts < 600 || parallel < 200 || slaves < 60 {
		t.Errorf("only %d jobs started, %d of them parallel, with %d parts of slaves", starts, parallel, slaves)
	}
}

// TestTwoMastersCannotOversubscribeHost books the starts of two independent masters: everything
// that an agent admits fits on the host.
func TestTwoMastersCannotOversubscribeHost(t *testing.T) {
	admitted, denied := 0, 0
	for seed := range uint64(40) {
		s := newSite(t, seed)
		b := s.books["n1"]
		now := time.Unix(s.now, 0)
		for range 40 {
			j, r := s.submit()
			d := s.master.Run(s.now)
			s.master.Dequeue(j)
			if len(d.Starts) == 0 {
				continue
			}
			x, ok := s.bookings(&d.Starts[0], r)["n1"]
			if !ok {
				continue
			}
			var refused *RefusedError
			switch err := b.Take(&x, now); {
			case err == nil:
				admitted++
			case errors.As(err, &refused):
				denied++
			default:
				t.Fatal(err)
			}
			s.fits(b)
			if s.chance(10) {
				ids := b.ids()
				b.End(pick(s.r, ids...))
			}
		}
	}
	if admitted < 100 || denied < 100 {
		t.Errorf("only %d were admitted, %d denied", admitted, denied)
	}
}

// fits adds up the bookings of a host and checks that they fit.
func (s *site) fits(b *Book) {
	s.t.Helper()
	mem, dev, slots := 0.0, 0.0, map[string]int{}
	elements := map[string]int{}
	alone, others := 0, 0
	for _, id := range b.ids() {
		e := b.jobs[id]
		n := 0
		for _, g := range e.Grants {
			n += g.Slots
			slots[g.Queue] += g.Slots
			for name, ids := range g.Names {
				for _, element := range ids {
					elements[name+" "+element]++
				}
			}
			for _, c := range g.Cores {
				elements["core "+c.String()]++
			}
		}
		excl := false
		for _, l := range e.Request.Resources {
			amount := float64(l.Value[0] - '0')
			switch l.Name {
			case "mem":
				mem += amount * float64(n)
			case "dev":
				dev += amount
			case "excl":
				excl = true
			}
		}
		if excl {
			alone++
		} else {
			others++
		}
	}
	host := s.files["hosts/n1"]
	switch {
	case strings.Contains(host, "mem=8") && mem > 8, strings.Contains(host, "dev=3") && dev > 3,
		strings.Contains(host, "slots=7") && slots["a.q"]+slots["b.q"] > 7,
		strings.Contains(host, "excl=true") && alone > 0 && alone+others > 1:
		s.t.Fatalf("%s: mem %v, dev %v, slots %v, %d alone, %d others", host, mem, dev, slots, alone, others)
	}
	for queue, n := range slots {
		q, err := b.cluster.Instance(queue, "n1")
		if err != nil || n > q.Slots {
			s.t.Fatalf("%d of %d slots of %s, %v", n, q.Slots, queue, err)
		}
	}
	for element, n := range elements {
		if n > 1 {
			s.t.Fatalf("%s is given %d times", element, n)
		}
	}
}
