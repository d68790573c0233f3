package quota

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/value"
)

// use is a job that runs: a consumer, requests and hosts, one for each slot, in a.q.
type use struct{ who, requests, hosts string }

func (s *site) use(u *Usage, jobs ...use) {
	s.t.Helper()
	for _, j := range jobs {
		if err := u.Debit(s.demand(who(j.who), j.requests), s.grants(j.hosts)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// grants are slots in a.q, one for each host.
func (s *site) grants(hosts string) []Grant {
	var all []Grant
	for h := range strings.FieldsSeq(hosts) {
		for i := range s.hosts {
			if s.names.Normalize(s.hosts[i]) == h {
				all = append(all, Grant{Host: int32(i), Slots: 1})
			}
		}
	}
	return all
}

// TestWhatFits checks cases that sge_resource_quota(5) does not specify; each was observed on the
// original.
func TestWhatFits(t *testing.T) {
	const (
		yes   = ""
		no    = "exceeded"
		never = "never"
	)
	for what, c := range map[string]struct {
		rule, who, requests string
		used                []use
		want                string
	}{
		"a slot":                                    {"to slots=1", "alice", "", nil, yes},
		"a slot beside others":                      {"to slots=2", "alice", "", []use{{"bob", "", "n1"}}, yes},
		"no slot is left":                           {"to slots=2", "alice", "", []use{{"bob", "", "n1 n2"}}, no},
		"more are used than there are":              {"to slots=2", "alice", "", []use{{"bob", "", "n1 n2 n3"}}, no},
		"no slots at all":                           {"to slots=0", "alice", "", nil, never},
		"of another consumer":                       {"users {*} to slots=1", "alice", "", []use{{"bob", "", "n1"}}, yes},
		"of the same consumer":                      {"users {*} to slots=1", "alice", "", []use{{"alice", "", "n1"}}, no},
		"of another host":                           {"hosts {*} to slots=1", "alice", "", []use{{"bob", "", "n2 n3"}}, yes},
		"of all hosts together":                     {"hosts * to slots=1", "alice", "", []use{{"bob", "", "n2"}}, no},
		"a resource that is not requested":          {"to lic=0", "alice", "", nil, yes},
		"a resource that is requested":              {"to lic=2", "alice", "lic=2", nil, yes},
		"too much of it":                            {"to lic=2", "alice", "lic=3", nil, never},
		"too much of what is left":                  {"to lic=3", "alice", "lic=2", []use{{"bob", "lic=2", "n1"}}, no},
		"by its shortcut":                           {"to se=1", "alice", "seats=2", nil, never},
		"nothing of it":                             {"to lic=0", "alice", "lic=0", nil, yes},
		"the default is used":                       {"to seats=1", "alice", "", nil, never},
		"the default was used":                      {"to seats=3", "alice", "", []use{{"bob", "", "n1"}}, no},
		"less than the default":                     {"to seats=3", "alice", "seats=1", []use{{"bob", "", "n1"}}, yes},
		"a size":                                    {"to mem=4G", "alice", "mem=4096M", nil, yes},
		"beside a size":                             {"to mem=4G", "alice", "mem=3G", []use{{"bob", "mem=1.1G", "n1"}}, no},
		"elements of a map":                         {"to gpus=2", "alice", "gpus=1", []use{{"bob", "gpus=2", "n1"}}, no},
		"of the job, once":                          {"to jlic=3", "alice", "jlic=1", []use{{"bob - rr", "jlic=2", "n1 n2"}}, yes},
		"of the job":                                {"to jlic=3", "alice", "jlic=2", []use{{"bob - rr", "jlic=2", "n1 n2"}}, no},
		"of each slot":                              {"to lic=3", "alice", "lic=1", []use{{"bob - rr", "lic=2", "n1 n2"}}, no},
		"all limits of a rule":                      {"to slots=9,lic=1", "alice", "lic=1", []use{{"bob", "lic=1", "n1"}}, no},
		"what is not consumed, and is less":         {"to rank=5", "alice", "rank=5", nil, yes},
		"what is not consumed, and is more":         {"to rank=5", "alice", "rank=6", nil, never},
		"what is not consumed, and not requested":   {"to rank=5", "alice", "", nil, yes},
		"what is not consumed is not used":          {"to rank=5", "alice", "rank=5", []use{{"bob", "rank=5", "n1"}}, yes},
		"the relation of the complex":               {"to least=5", "alice", "least=6", nil, yes},
		"the relation of the complex, not so":       {"to least=5", "alice", "least=4", nil, never},
		"a request is a pattern":                    {"to os=lx26", "alice", "os=lx*", nil, yes},
		"a limit is none":                           {"to os=l*", "alice", "os=lx", nil, never},
		"a limit as it is written":                  {"to os=l*", "alice", "os=l*", nil, yes},
		"another word, in any case":                 {"to color=red", "alice", "color=RED", nil, never},
		"what must be requested, and is not":        {"to forced=5", "alice", "", nil, never},
		"what must be requested, and is":            {"to forced=5", "alice", "forced=5", nil, yes},
		"what must be requested is consumed":        {"to must=5", "alice", "", nil, yes},
		"a parallel job need not request it":        {"to forced=5", "alice - rr", "", nil, yes},
		"a parallel job that requests it":           {"to rank=5", "alice - rr", "rank=1", nil, never},
		"a parallel job that requests a word":       {"to os=lx", "alice - rr", "os=lx", nil, never},
		"a parallel job that requests nothing":      {"to rank=5", "alice - rr", "", nil, yes},
		"a parallel job requests a slot":            {"to slots=2", "alice - rr", "", []use{{"bob", "", "n1"}}, yes},
		"to be alone":                               {"to excl=TRUE", "alice", "excl=TRUE", nil, yes},
		"to be alone, and somebody is there":        {"to excl=TRUE", "alice", "excl=TRUE", []use{{"bob", "", "n1"}}, no},
		"to be alone, and somebody does not care":   {"to excl=TRUE", "alice", "excl=TRUE", []use{{"bob", "excl=FALSE", "n1"}}, no},
		"to be alone, and somebody is":              {"to excl=TRUE", "alice", "excl=TRUE", []use{{"bob", "excl=TRUE", "n1"}}, no},
		"somebody is alone":                         {"to excl=TRUE", "alice", "", []use{{"bob", "excl=TRUE", "n1"}}, no},
		"somebody is alone elsewhere":               {"hosts {*} to excl=TRUE", "alice", "", []use{{"bob", "excl=TRUE", "n2"}}, yes},
		"not to be alone, and somebody is":          {"to excl=TRUE", "alice", "excl=FALSE", []use{{"bob", "excl=TRUE", "n1"}}, no},
		"not to be alone":                           {"to excl=TRUE", "alice", "", []use{{"bob", "", "n1"}}, yes},
		"nobody can be alone":                       {"to excl=FALSE", "alice", "excl=TRUE", nil, never},
		"nobody can be alone, and nobody wants":     {"to excl=FALSE", "alice", "", nil, yes},
		"nobody can be alone, but somebody already": {"to excl=FALSE", "alice", "", []use{{"bob", "excl=TRUE", "n1"}}, yes},
		"a dynamic limit":                           {"hosts {*} to slots=$num_proc*2-1", "alice", "", []use{{"bob", "", "n1 n1"}}, yes},
		"a dynamic limit, and no more":              {"hosts {*} to slots=$num_proc*2-1", "alice", "", []use{{"bob", "", "n1 n1 n1"}}, no},
		"a dynamic limit by a shortcut":             {"hosts {*} to slots=$p", "alice", "", []use{{"bob", "", "n1 n1"}}, no},
		"a dynamic limit that is not known":         {"hosts {*} to lic=$load_avg", "alice", "lic=9999", nil, yes},
		"a dynamic limit that is large then":        {"hosts {*} to lic=$load_avg", "alice", "lic=10000", nil, never},
		"a dynamic limit of what is not consumed":   {"hosts {*} to rank=$num_proc", "alice", "rank=3", nil, never},
		"a dynamic limit that is negative":          {"hosts {*} to slots=$num_proc-3", "alice", "", nil, never},
	} {
		s := newSite(t, oneSet("s", c.rule))
		s.values = map[string]float64{"n1:num_proc": 2, "n3:num_proc": 9}
		u := s.NewUsage()
		s.use(u, c.used...)
		d := s.demand(who(c.who), c.requests)
		f, ok := d.Check(u, s.at, 0, 0)
		got := yes
		switch {
		case !ok && f.Never:
			got = never
		case !ok:
			got = no
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q: %s", what, got, c.want, f.Text())
		}
		if _, ok := d.Check(nil, s.at, 0, 0); ok != (c.want != never) {
			t.Errorf("%s: into an empty cluster it fits: %v", what, ok)
		}
		var all Collector
		all.Reset(d, u, s.at)
		if n, again := all.Left(0, 0, true); (n > 0) != ok || again.Text() != f.Text() {
			t.Errorf("%s: %d slots are left, and one fits: %v", what, n, ok)
		}
		if forced := c.want == never && strings.Contains(c.rule, "forced"); f.Unforced != forced {
			t.Errorf("%s: it is not requested: %v", what, f.Unforced)
		}
	}
}

func TestValuesThatNobodyHas(t *testing.T) {
	s := newSite(t, oneSet("s", "hosts {*} to slots=$num_proc"))
	u := s.NewUsage()
	s.use(u, use{"alice", "", "n1"})
	if f, ok := s.demand(who("alice"), "").Check(u, nil, 0, 0); !ok {
		t.Error(f.Text())
	}
	if got := u.List(Selection{}, nil)[0]; got.LimitText() != "slots=1/9999" {
		t.Error(got.LimitText())
	}
}

func TestReasons(t *testing.T) {
	s := newSite(t, oneSet("one", "users {*} hosts {*} to slots=9,lic=0")+oneSet("two", "name cap users * to slots=0"))
	check := func(requests string) (string, Failure) {
		f, _ := s.demand(who("alice"), requests).Check(nil, nil, 0, 1)
		return f.Text(), f
	}
	got, f := check("lic=1")
	if want := `cannot run because it exceeds limit "alice////N2.site/" in rule "one/1"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rule, key, attribute := s.Describe(f.Counter)
	if rule != "one/1" || key != "alice////N2.site/" || attribute != "lic" {
		t.Errorf("it is about %s %s %s", rule, key, attribute)
	}
	if got, _ := check(""); got != `cannot run because it exceeds limit "/////" in rule "two/cap"` {
		t.Error(got)
	}
	if rule, key, attribute := s.Describe(1 << 60); rule+key+attribute != "" {
		t.Errorf("a counter of nobody is about %s %s %s", rule, key, attribute)
	}
	var none Failure
	if none.Text() != "" || none.Covers(0, 0) {
		t.Error("no failure has a reason")
	}
}

// TestScope asks at a.q@n1 and compares with what would be said elsewhere.
func TestScope(t *testing.T) {
	for what, c := range map[string]struct {
		rules                          string
		everywhere, allQueues, allHost bool
		covers                         string // places, by queue and host
		sortedOut                      string // queues and hosts
	}{
		"the whole cluster":                  {"to slots=0", true, true, true, "00 01 02 10 11 12", "all hosts 012"},
		"all hosts by name":                  {"hosts * to slots=0", true, true, true, "00 01 02 10 11 12", "all hosts 012"},
		"all queues by a pattern":            {"queues *.q to slots=0", true, true, true, "00 01 02 10 11 12", "queues 01"},
		"a queue":                            {"queues a.q to slots=0", false, false, true, "00 01 02", "queues 0"},
		"each queue":                         {"queues {*} to slots=0", false, false, true, "00 01 02", ""},
		"a host":                             {"hosts n1 to slots=0", false, true, false, "00 10", "hosts 0"},
		"each host":                          {"hosts {*} to slots=0", false, true, false, "00 10", ""},
		"hosts in a list":                    {"hosts n1,n3 to slots=0", false, true, false, "00 02 10 12", "hosts 02"},
		"hosts in braces":                    {"hosts {n1,n3} to slots=0", false, true, false, "00 10", "hosts 0"},
		"a queue and a host":                 {"queues a.q hosts n1 to slots=0", false, false, false, "00", ""},
		"a rule for another queue before it": {"queues b.q to slots=9\nto slots=0", false, false, true, "00 01 02", "queues 0"},
		"a rule for another host before it":  {"hosts n3 to slots=9\nto slots=0", false, true, false, "00 01 10 11", "hosts 01"},
		"a rule for another place before it": {"queues b.q hosts n3 to slots=9\nto slots=0", false, true, true, "00 01 02 10 11", "queues 0 hosts 01"},
		"a rule for another user before it":  {"users bob hosts n3 to slots=9\nto slots=0", true, true, true, "00 01 02 10 11 12", "hosts 01"},
		"a rule for no place before it":      {"hosts n9 to slots=9\nto slots=0", true, true, true, "00 01 02 10 11 12", "hosts 012"},
		"a rule for no queue before it":      {"queues c.q to slots=9\nto slots=0", true, true, true, "00 01 02 10 11 12", "queues 01"},
		"the same hosts before it":           {"hosts n2 to slots=9\nhosts * to slots=0", false, true, false, "00 02 10 12", "hosts 02"},
		"a queue, and a host before it":      {"hosts n2 to slots=9\nqueues a.q to slots=0", false, false, false, "00 02", ""},
		"for jobs in an environment":         {"hosts n2 to slots=9\npes !x to slots=0", false, true, false, "00 02 10 12", "hosts 02"},
		"a host, and a queue before it":      {"queues b.q to slots=9\nhosts n1 to slots=0", false, false, false, "00", ""},
		"hosts, and others before it":        {"users alice hosts n3 to slots=9\nhosts n1,n3 to slots=0", false, true, false, "00 10", "hosts 0"},
		"the same rule, but in another set":  {"hosts n3 to slots=9\nqueues a.q to slots=0", false, false, false, "00 01", ""},
	} {
		s := newSite(t, oneSet("s", c.rules))
		d := s.demand(who("alice"), "")
		f, ok := d.Check(nil, nil, 0, 0)
		if ok {
			t.Errorf("%s: it fits", what)
			continue
		}
		var covers []string
		for q := range int32(2) {
			for h := range int32(3) {
				if f.Covers(q, h) {
					covers = append(covers, string([]byte{'0' + byte(q), '0' + byte(h)}))
				}
			}
		}
		if got := sortedOut(&f, 0, 0); got != c.sortedOut {
			t.Errorf("%s: what is sorted out is %q, want %q", what, got, c.sortedOut)
		}
		if f.Everywhere != c.everywhere || f.AllQueues != c.allQueues || f.AllHosts != c.allHost || strings.Join(covers, " ") != c.covers {
			t.Errorf("%s: everywhere %v, all queues %v, all hosts %v, %v", what, f.Everywhere, f.AllQueues, f.AllHosts, covers)
		}
	}
}

func TestSettle(t *testing.T) {
	s := newSite(t, oneSet("a", "to slots=0")+oneSet("b", "to lic=0")+oneSet("c", "to slots=0,lic=0"))
	u := s.NewUsage()
	first := func() string {
		f, _ := s.demand(who("alice"), "lic=1").Check(u, nil, 0, 0)
		var c Collector
		c.Reset(s.demand(who("alice"), "lic=1"), u, nil)
		if _, again := c.Left(0, 0, true); again.Text() != f.Text() {
			t.Errorf("of a parallel job it is %s", again.Text())
		}
		rule, _, _ := strings.Cut(strings.TrimPrefix(f.Text(), `cannot run because it exceeds limit "/////" in rule "`), "/")
		return rule
	}
	bob := s.demand(who("bob"), "")
	if err := u.Debit(bob, s.grants("n1")); err != nil {
		t.Fatal(err)
	}
	if got := first(); got != "a" {
		t.Errorf("before Settle the first is %s", got)
	}
	u.Settle()
	if got := first(); got != "b" {
		t.Errorf("b was not changed, and the first is %s", got)
	}
	clone := u.Clone()
	s.use(u, use{"bob", "lic=1", "n1"})
	u.Settle()
	if got := first(); got != "a" {
		t.Errorf("a was changed first, and the first is %s", got)
	}
	if diff := cmp.Diff([]int32{1, 0, 2}, clone.order); diff != "" {
		t.Error(diff)
	}
	var rows []string
	for _, r := range clone.List(Selection{}, nil) {
		rows = append(rows, r.Rule+" "+r.LimitText())
	}
	if diff := cmp.Diff([]string{"a/1 slots=1/0", "c/1 slots=1/0"}, rows); diff != "" {
		t.Errorf("the clone: %s", diff)
	}
}

func TestDebitRefuses(t *testing.T) {
	s := newSite(t, oneSet("s", "users {*} to slots=9,part=2,excl=TRUE"))
	u := s.NewUsage()
	d := s.demand(who("alice"), "part=0.5")
	book := []Grant{{0, 0, 1}}
	if err := u.Debit(d, book); err != nil {
		t.Fatal(err)
	}
	before := u.List(Selection{}, nil)
	other := newSite(t, oneSet("s", "to slots=9")).demand(who("alice"), "")
	for what, err := range map[string]error{
		"rules of another":          u.Debit(other, book),
		"no slots":                  u.Debit(d, []Grant{{0, 0, 0}}),
		"a queue that is not there": u.Debit(d, []Grant{{2, 0, 1}}),
		"a host that is not there":  u.Credit(d, []Grant{{0, 3, 1}}),
		"a queue below 0":           u.Debit(d, []Grant{{-1, 0, 1}}),
		"a host below 0":            u.Debit(d, []Grant{{0, -1, 1}}),
		"more than is used":         u.Credit(d, []Grant{{0, 0, 1}, {0, 1, 1}}),
		"another request":           u.Credit(s.demand(who("alice"), "part=0.6"), book),
		"another consumer":          u.Credit(s.demand(who("bob"), "part=0.5"), book),
		"alone, and it was not":     u.Credit(s.demand(who("alice"), "part=0.5,excl=TRUE"), book),
		"too large a number":        u.Debit(s.demand(who("alice"), "part=1e308"), []Grant{{0, 0, 100}}),
		"infinity":                  u.Debit(s.demand(who("alice"), "part=INFINITY"), book),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		} else if !strings.HasPrefix(err.Error(), "cannot ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if diff := cmp.Diff(before, u.List(Selection{}, nil)); diff != "" {
		t.Errorf("something has changed: %s", diff)
	}
	if err := u.Credit(d, book); err != nil || !u.IsEmpty() || len(u.List(Selection{}, nil)) != 0 {
		t.Errorf("it is not empty: %v", err)
	}
}

func TestPlacesThatAreNone(t *testing.T) {
	s := newSite(t, oneSet("s", "queues {*} hosts {*} to slots=1\nto slots=1"))
	d := s.demand(who("alice"), "")
	for _, p := range []int32{-1, 3, 64, math.MaxInt32, math.MinInt32} {
		if f, ok := d.Check(nil, nil, p, p); !ok {
			t.Error(f.Text())
		}
	}
}

func TestCollector(t *testing.T) {
	s := newSite(t, oneSet("a", "pes {rr} to slots=4")+oneSet("b", "users {*} hosts {n1} to lic=5")+oneSet("c", "hosts * to jlic=3"))
	u := s.NewUsage()
	s.use(u, use{"bob", "lic=1", "n1"}, use{"bob", "jlic=2", "n1"})
	var c Collector
	left := func(host int32, master bool, want int) {
		t.Helper()
		if n, f := c.Left(0, host, master); n != want || (f.Text() == "") != (n > 0) {
			t.Errorf("on host %d, %d slots are left, want %d: %s", host, n, want, f.Text())
		}
	}
	c.Reset(s.demand(who("alice - rr"), "lic=2"), u, nil)
	left(0, true, 2) // of 5 licenses of alice there
	left(1, true, 4) // of 4 slots
	c.Take(0, 0, 1)
	mark := c.Mark()
	left(0, true, 1)
	left(1, true, 3)
	c.Take(0, 1, 3)
	left(0, false, 0)
	left(1, false, 0)
	c.Undo(mark)
	left(0, true, 1)
	left(1, true, 3)
	c.Undo(0)
	left(0, true, 2)
	left(1, true, 4)

	c.Reset(s.demand(who("carol - mpi"), ""), u, nil)
	left(0, true, Unlimited)

	// What a job needs once is needed where its master task runs only.
	c.Reset(s.demand(who("alice - rr"), "jlic=2"), u, nil)
	left(0, true, 0)
	left(0, false, 4)
	c.Reset(s.demand(who("alice - rr"), "jlic=1"), u, nil)
	left(0, true, 4)
	c.Take(0, 0, 4)
	left(0, true, 0)

	// More is used than there is.
	s.use(u, use{"bob - rr", "", "n1 n1 n1 n1 n1"})
	c.Reset(s.demand(who("alice - rr"), ""), u, nil)
	left(0, true, 0)
	// Into an empty cluster it fits.
	c.Reset(s.demand(who("alice - rr"), ""), nil, nil)
	left(0, true, 4)
}

// TestCollectorOfExclusiveJobs checks that a parallel job does not block itself, and that the usage of
// other jobs counts against all of its parts.
func TestCollectorOfExclusiveJobs(t *testing.T) {
	s := newSite(t, oneSet("s", "hosts {*} to excl=TRUE"))
	u := s.NewUsage()
	d := s.demand(who("alice - rr"), "excl=TRUE")
	var c Collector
	c.Reset(d, u, nil)
	c.Take(0, 0, 2)
	if n, _ := c.Left(0, 0, false); n != Unlimited {
		t.Errorf("%d slots are left", n)
	}
	if err := u.Debit(d, s.grants("n1 n1")); err != nil {
		t.Fatal(err)
	}
	for _, requests := range []string{"", "excl=TRUE"} {
		c.Reset(s.demand(who("bob - rr"), requests), u, nil)
		if n, _ := c.Left(0, 0, false); n != 0 {
			t.Errorf("%d slots are left beside it", n)
		}
		if n, _ := c.Left(0, 1, false); n != Unlimited {
			t.Errorf("%d slots are left elsewhere", n)
		}
	}
	claims := d.Claims(nil, nil, nil, 0, 0)
	if len(claims) != 1 {
		t.Fatal(claims)
	}
	if used, shared := u.Used(claims[0].Counter); used != 2 || shared != 0 {
		t.Errorf("%v and %v slots are used", used, shared)
	}
}

func TestClaims(t *testing.T) {
	s := newSite(t, oneSet("a", "to slots=4,rank=2")+oneSet("b", "users {*} hosts {*} to lic=$num_proc,jlic=3,excl=TRUE,seats=9")+oneSet("c", "users bob to slots=1"))
	s.values = map[string]float64{"n1:num_proc": 6}
	d := s.demand(who("alice"), "lic=2,jlic=1,rank=9")
	claims := d.Claims(nil, nil, s.at, 0, 0)
	var got []string
	for i := range claims {
		c := &claims[i]
		rule, key, attribute := s.Describe(c.Counter)
		text := rule + " " + key + " " + attribute + " " + value.OfNumber(value.Double, c.Each).String() + " of " + value.OfNumber(value.Double, c.Limit).String()
		if c.Once {
			text += " once"
		}
		if c.Exclusive {
			text += " exclusive"
		}
		got = append(got, text)
		if f := d.Failure(c, s.at, 0, 0); f.Counter != c.Counter || f.Never {
			t.Errorf("%s fails: %+v", text, f)
		}
	}
	if diff := cmp.Diff([]string{
		"a/1 ///// slots 1 of 4", "b/1 alice////n1/ lic 2 of 6", "b/1 alice////n1/ jlic 1 of 3 once",
		"b/1 alice////n1/ excl 0 of 1 exclusive", "b/1 alice////n1/ seats 2 of 9",
	}, got); diff != "" {
		t.Error(diff)
	}
	if f := d.Failure(&Claim{want: 99}, nil, 0, 0); f.Text() != "" {
		t.Error(f.Text())
	}
	if f := d.Failure(&Claim{index: 99}, nil, 0, 0); f.Text() != "" {
		t.Error(f.Text())
	}
	if bob := s.demand(who("bob"), "").Claims(nil, nil, s.at, 0, 0); !slices.ContainsFunc(bob, func(c Claim) bool { return c.Counter == claims[0].Counter }) {
		t.Error("the slots of the cluster have two counters")
	}
}

// TestCheckClaims checks the sets in their order: each of them with the demand alone, and then with the claim.
func TestCheckClaims(t *testing.T) {
	s := newSite(t, oneSet("a", "to slots=4")+oneSet("b", "to lic=1")+oneSet("c", "to slots=9"))
	d := s.demand(who("alice"), "lic=2")
	for refused, want := range map[string]string{"a/1": "a/1", "c/1": "b/1", "": "b/1"} {
		var asked []string
		f, ok := d.CheckClaims(nil, s.at, 0, 0, func(c *Claim) bool {
			rule, _, _ := s.Describe(c.Counter)
			asked = append(asked, rule)
			return rule != refused
		})
		if rule, _, _ := s.Describe(f.Counter); ok || rule != want || f.Never != (want == "b/1") {
			t.Errorf("%q is refused: got %q, %+v, %t", refused, rule, f, ok)
		}
		if !slices.Equal(asked, []string{"a/1"}) {
			t.Errorf("%q is refused: claims on %q", refused, asked)
		}
	}
	if _, ok := s.demand(who("alice"), "lic=1").CheckClaims(s.NewUsage(), s.at, 0, 0, func(*Claim) bool { return true }); !ok {
		t.Error("refused although all claims are granted")
	}
}

// TestASlotForEachTask checks that a site can set the default of slots; a task takes one.
func TestASlotForEachTask(t *testing.T) {
	complexes, err := qconf.ParseComplexes("complexes", []byte("slots s INT <= YES YES 3 1000\n"))
	if err != nil {
		t.Fatal(err)
	}
	quotas, err := qconf.ParseResourceQuotas("rqs", []byte(oneSet("s", "to s=1")))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := Compile(quotas, Compilation{Complexes: complexes, Queues: []string{"a.q"}, Hosts: []string{"n1"}})
	if f, ok := s.For(who("alice")).Demand(nil).Check(nil, nil, 0, 0); !ok {
		t.Error(f.Text())
	}
}

func TestRequestsAreOfTheComplexesType(t *testing.T) {
	r, err := value.ParseRequest(value.String, expression.HostNames{}, "lx")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, oneSet("s", "to rank=5"))
	d := s.For(who("alice")).Demand(func(string) (value.Request, bool) { return r, true })
	if _, ok := d.Check(nil, nil, 0, 0); ok {
		t.Error("a word is at most 5")
	}
}

// sortedOut returns the queues and hosts that a failure sorts out, of two queues and three hosts.
func sortedOut(f *Failure, queue, host int32) string {
	queues, hosts := make([]bool, 2), make([]bool, 3)
	var all []string
	if f.SortOut(queue, host, queues, hosts) {
		all = append(all, "all")
		f.SortOutHosts(hosts)
	}
	for i, list := range [][]bool{queues, hosts} {
		text := ""
		for k, out := range list {
			if out {
				text += string([]byte{'0' + byte(k)})
			}
		}
		if text != "" {
			all = append(all, []string{"queues", "hosts"}[i]+" "+text)
		}
	}
	return strings.Join(all, " ")
}
