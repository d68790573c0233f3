package quota

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/qconf"
)

// naive implements the manual literally, for one queue instance and one job at a time. Its only state
// is a map of the usage.
type naive struct {
	sets []*qconf.ResourceQuotaSet
	c    Compilation
	used map[string]float64 // by rule, key and complex; exclusive uses with a ! behind it
}

type naiveJob struct {
	Consumer
	requests map[string]float64
}

func (n *naive) admits(f qconf.QuotaFilter, name string, in func(item string) bool) bool {
	if name != "" && slices.ContainsFunc(f.XScope, in) {
		return false
	}
	return len(f.Scope) == 0 || name != "" && slices.ContainsFunc(f.Scope, in)
}

func glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func (n *naive) isFor(r *qconf.QuotaRule, c Consumer, queue, host string) bool {
	plain := func(name string) func(string) bool {
		return func(item string) bool { return glob(item, name) }
	}
	user := func(item string) bool {
		list, isList := strings.CutPrefix(item, "@")
		return !isList && glob(item, c.User) || isList && slices.ContainsFunc(n.c.UserSets, func(u *qconf.UserSet) bool {
			return glob(list, u.Name) && (slices.Contains(u.Users, c.User) || slices.Contains(u.UserGroups, c.Group))
		})
	}
	at := func(item string) bool {
		if strings.HasPrefix(item, "@") {
			return slices.ContainsFunc(n.c.Groups(host), func(g string) bool { return strings.EqualFold(g, item) })
		}
		return glob(item, host)
	}
	return n.admits(r.Users, c.User, user) && n.admits(r.Projects, c.Project, plain(c.Project)) &&
		n.admits(r.PEs, c.PE, plain(c.PE)) && n.admits(r.Queues, queue, plain(queue)) && n.admits(r.Hosts, host, at)
}

// each calls f for the rule of each set that applies.
func (n *naive) each(c Consumer, queue, host string, f func(name, key string, r *qconf.QuotaRule)) {
	for _, q := range n.sets {
		if !q.Enabled {
			continue
		}
		for i := range q.Rules {
			r := &q.Rules[i]
			if !n.isFor(r, c, queue, host) {
				continue
			}
			name := r.Name
			if name == "" {
				name = fmt.Sprint(i + 1)
			}
			var key strings.Builder
			for _, part := range []struct {
				f    qconf.QuotaFilter
				name string
			}{{r.Users, c.User}, {r.Projects, c.Project}, {r.PEs, c.PE}, {r.Queues, queue}, {r.Hosts, host}} {
				if part.f.Expanded {
					key.WriteString(part.name)
				}
				key.WriteByte('/')
			}
			f(q.Name+"/"+name, key.String(), r)
			break
		}
	}
}

// amount returns the amount of a complex that a job uses. ok is false if the limit does not apply
// to the job.
func (j *naiveJob) amount(x qconf.Complex) (amount float64, ok bool) {
	amount, ok = j.requests[x.Name]
	switch {
	case ok || x.Relop == "EXCL":
		return amount, true
	case x.Name == "slots":
		return 1, true
	case x.Name == "seats":
		return 2, true
	}
	return 0, false
}

// left returns the number of slots of a job that fit, and the reason if none does.
func (n *naive) left(j *naiveJob, queue, host string) (slots float64, reason string) {
	slots = math.Inf(1)
	n.each(j.Consumer, queue, host, func(name, key string, r *qconf.QuotaRule) {
		for _, l := range r.Limits {
			x, _ := n.c.Complexes.Find(l.Name)
			amount, ok := j.amount(x)
			if !ok || slots == 0 {
				continue
			}
			limit := limits[l.Value]
			used := n.used[name+" "+key+" "+x.Name]
			alone := n.used[name+" "+key+" "+x.Name+"!"]
			here := math.Inf(1)
			switch {
			case x.Relop == "EXCL" && amount > 0 && (limit == 0 || used+alone > 0), x.Relop == "EXCL" && amount == 0 && limit > 0 && alone > 0:
				here = 0
			case x.Relop == "EXCL":
			case x.Consumable == qconf.ConsumableJob && used+amount > limit:
				here = 0
			case x.Consumable == qconf.ConsumableYes && amount > 0:
				here = max(0, math.Floor((limit-used)/amount))
			case x.Consumable == qconf.ConsumableNo && (j.PE != "" || amount > limit):
				here = 0
			}
			if slots = min(slots, here); slots == 0 {
				reason = fmt.Sprintf("cannot run because it exceeds limit %q in rule %q", key, name)
			}
		}
	})
	return slots, reason
}

func (n *naive) book(j *naiveJob, grants []Grant, sign float64) {
	for i, g := range grants {
		n.each(j.Consumer, n.c.Queues[g.Queue], n.c.Hosts[g.Host], func(name, key string, r *qconf.QuotaRule) {
			for _, l := range r.Limits {
				x, _ := n.c.Complexes.Find(l.Name)
				amount, ok := j.amount(x)
				at := name + " " + key + " " + x.Name
				switch {
				case !ok || x.Consumable == qconf.ConsumableNo:
				case x.Relop == "EXCL" && amount > 0:
					n.used[at+"!"] += sign * float64(g.Slots)
				case x.Relop == "EXCL":
					n.used[at] += sign * float64(g.Slots)
				case x.Consumable == qconf.ConsumableJob && i > 0:
				case x.Consumable == qconf.ConsumableJob:
					n.used[at] += sign * amount
				default:
					n.used[at] += sign * float64(g.Slots) * amount
				}
			}
		})
	}
}

// limits are the values of limits that occur, with $num_proc*2 on each host.
var limits = map[string]float64{"0": 0, "1": 1, "2": 2, "5": 5, "12": 12, "TRUE": 1, "FALSE": 0, "$num_proc*2": 6}

func drawFilter(t *rapid.T, word string, items ...string) string {
	if rapid.IntRange(0, 2).Draw(t, word) > 0 {
		return ""
	}
	list := strings.Join(rapid.SliceOfN(rapid.SampledFrom(items), 1, 2).Draw(t, word+" items"), ",")
	if rapid.Bool().Draw(t, word+" expanded") {
		list = "{" + list + "}"
	}
	return word + " " + list + " "
}

func drawRule(t *rapid.T) string {
	hosts := drawFilter(t, "hosts", "n1", "n2", "n[12]", "*", "!n3", "@odd", "!@odd", "!n*")
	rule := drawFilter(t, "users", "alice", "bob", "a*", "*", "@staff", "!alice", "!@stuff", "@st*") +
		drawFilter(t, "projects", "p1", "p*", "*", "!*", "!p1", "p2") +
		drawFilter(t, "pes", "rr", "*", "!*", "!rr") +
		drawFilter(t, "queues", "a.q", "b*", "*", "!a.q") + hosts + "to "
	var all []string
	for _, name := range []string{"slots", "lic", "seats", "jlic", "rank", "excl"} {
		if rapid.IntRange(0, 2).Draw(t, name) > 0 {
			continue
		}
		values := []string{"0", "1", "2", "5", "12"}
		switch {
		case name == "excl":
			values = []string{"TRUE", "FALSE"}
		case strings.Contains(hosts, "{"):
			values = append(values, "$num_proc*2")
		}
		all = append(all, name+"="+rapid.SampledFrom(values).Draw(t, name+" limit"))
	}
	if len(all) == 0 {
		return rule + "NONE"
	}
	return rule + strings.Join(all, ",")
}

func drawJob(t *rapid.T, s *site) (*naiveJob, *Demand) {
	j := &naiveJob{requests: map[string]float64{}, Consumer: Consumer{
		User:    rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "user"),
		Group:   rapid.SampledFrom([]string{"", "wheel"}).Draw(t, "group"),
		Project: rapid.SampledFrom([]string{"", "p1", "p2"}).Draw(t, "project"),
		PE:      rapid.SampledFrom([]string{"", "", "rr", "mpi"}).Draw(t, "pe"),
	}}
	var requests []string
	for _, name := range []string{"lic", "seats", "jlic", "rank", "excl"} {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			v := rapid.IntRange(0, 3).Draw(t, "request")
			if name == "excl" {
				v = min(v, 1)
			}
			j.requests[name] = float64(v)
			requests = append(requests, fmt.Sprintf("%s=%d", name, v))
		}
	}
	return j, s.demand(j.Consumer, strings.Join(requests, ","))
}

type runningJob struct {
	*naiveJob
	demand *Demand
	grants []Grant
}

// TestCompiledIsLikeNaive compares the decisions of compiled quotas with those of naive while
// random jobs start and finish. Jobs that were checked exceed no limit, and when all jobs have
// finished, nothing is booked.
func TestCompiledIsLikeNaive(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for i := range rapid.IntRange(1, 3).Draw(t, "sets") {
			rules := make([]string, rapid.IntRange(1, 4).Draw(t, "rules"))
			for j := range rules {
				rules[j] = drawRule(t)
			}
			one := oneSet(fmt.Sprintf("s%d", i), strings.Join(rules, "\n"))
			if rapid.IntRange(0, 9).Draw(t, "disabled") == 0 {
				one = strings.Replace(one, "TRUE", "FALSE", 1)
			}
			text.WriteString(one)
		}
		t.Log(text.String())
		quotas, err := qconf.ParseResourceQuotas("rqs", []byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		c := compilation(outer)
		c.Hosts = []string{"n1", "n2", "n3"}
		sets, errs := Compile(quotas, c)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		s := &site{Sets: sets, t: outer, complexes: c.Complexes}
		values := func(int32, string) (float64, bool) { return 3, true }
		n := &naive{sets: quotas, c: c, used: map[string]float64{}}
		u := s.NewUsage()
		var running []runningJob
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(running) > 0 && rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				r := running[i]
				if err := u.Credit(r.demand, r.grants); err != nil {
					t.Fatal(err)
				}
				n.book(r.naiveJob, r.grants, -1)
				running = slices.Delete(running, i, i+1)
				continue
			}
			j, d := drawJob(t, s)
			if r := start(t, n, u, j, d, values); len(r.grants) > 0 {
				running = append(running, r)
			}
		}
		for _, r := range running {
			if err := u.Credit(r.demand, r.grants); err != nil {
				t.Fatal(err)
			}
		}
		if !u.IsEmpty() || len(u.free) != len(u.counters) {
			t.Fatal("something is left")
		}
	})
}

// start compares all answers about a job, and books the slots that fit.
func start(t *rapid.T, n *naive, u *Usage, j *naiveJob, d *Demand, values Values) runningJob {
	var c Collector
	c.Reset(d, u, values)
	r := runningJob{naiveJob: j, demand: d}
	most := 1
	if j.PE != "" {
		most = rapid.IntRange(1, 5).Draw(t, "slots")
	}
	for q := range int32(2) {
		for h := range int32(3) {
			queue, host := n.c.Queues[q], n.c.Hosts[h]
			var want, got []string
			n.each(j.Consumer, queue, host, func(name, key string, _ *qconf.QuotaRule) { want = append(want, name+" "+key) })
			for name, key := range d.Applicable().Matches(q, h) {
				got = append(got, name+" "+key)
			}
			if !slices.Equal(want, got) {
				t.Fatalf("%+v in %s@%s: %q, want %q", j, queue, host, got, want)
			}
			slots, reason := n.left(j, queue, host)
			f, ok := d.Check(u, values, q, h)
			if ok != (slots > 0) || f.Text() != reason {
				t.Fatalf("%+v in %s@%s: %q, want %q", j, queue, host, f.Text(), reason)
			}
			empty := naive{sets: n.sets, c: n.c}
			if ever, _ := empty.left(j, queue, host); !ok && f.Never && ever > 0 {
				t.Fatalf("%+v in %s@%s would fit: %s", j, queue, host, f.Text())
			}
			if len(r.grants) == 0 {
				if left, _ := c.Left(q, h, true); float64(left) != min(slots, Unlimited) {
					t.Fatalf("%+v in %s@%s: %d slots are left, want %v", j, queue, host, left, slots)
				}
			}
			compareScope(t, d, u, values, f, q, h)
			left, _ := c.Left(q, h, len(r.grants) == 0)
			take := min(left, most)
			if take > 0 && rapid.Bool().Draw(t, "take") {
				mark := c.Mark()
				c.Take(q, h, take)
				if rapid.IntRange(0, 3).Draw(t, "undo") == 0 {
					c.Undo(mark)
					continue
				}
				most -= take
				r.grants = append(r.grants, Grant{q, h, take})
			}
		}
	}
	if len(r.grants) == 0 {
		return r
	}
	if err := u.Debit(d, r.grants); err != nil {
		t.Fatal(err)
	}
	n.book(j, r.grants, 1)
	compareUsage(t, n, u)
	return r
}

// compareScope checks that a job also fails at the other queues and hosts that a failure covers.
func compareScope(t *rapid.T, d *Demand, u *Usage, values Values, f Failure, queue, host int32) {
	if f.demand == nil {
		return
	}
	for q := range int32(2) {
		for h := range int32(3) {
			says := f.Everywhere || f.AllQueues && h == host || f.AllHosts && q == queue
			if says && !f.Covers(q, h) {
				t.Fatalf("%s at %d %d holds at %d %d, but does not cover it", f.Text(), queue, host, q, h)
			}
			if _, ok := d.Check(u, values, q, h); ok && f.Covers(q, h) {
				t.Fatalf("%s at %d %d covers %d %d, and it fits there", f.Text(), queue, host, q, h)
			}
		}
	}
}

// compareUsage compares the usage, and checks that it exceeds no limit.
func compareUsage(t *rapid.T, n *naive, u *Usage) {
	used := map[string]float64{}
	for id := range u.at {
		rule, key, attribute := u.sets.Describe(id)
		a, shared := u.Used(id)
		if attribute == "excl" {
			used[rule+" "+key+" excl!"], a = a, float64(shared)
		}
		if a != 0 {
			used[rule+" "+key+" "+attribute] = a
		}
	}
	both := func(m map[string]float64) map[string]float64 {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(_ string, v float64) bool { return v == 0 })
		return m
	}
	if !maps.Equal(both(used), both(n.used)) {
		t.Fatalf("used is %v, want %v", used, n.used)
	}
	for id := range u.at {
		r, i, _, _ := u.sets.counted(id)
		l := &r.limits[i]
		if a, _ := u.Used(id); l.attribute != "excl" && a > limits[l.text] {
			t.Fatalf("%s: %v of %s are used", r.name, a, l.text)
		}
	}
}
