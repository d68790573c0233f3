package quota

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/value"
)

// complexesOfTests are more complexes than those that are built in.
const complexesOfTests = `
lic    lic   INT      <=    YES     YES  0     0
seats  se    INT      <=    YES     YES  2     0
jlic   jl    INT      <=    YES     JOB  0     0
mem    me    MEMORY   <=    YES     YES  0     0
span   sp    TIME     <=    YES     YES  0     0
part   pt    DOUBLE   <=    YES     YES  0     0
rank   ra    INT      <=    YES     NO   0     0
least  le    INT      >=    YES     NO   0     0
os     os    STRING   ==    YES     NO   NONE  0
color  co    CSTRING  !=    YES     NO   NONE  0
forced fo    INT      <=    FORCED  NO   0     0
must   must  INT      <=    FORCED  YES  0     0
excl   ex    BOOL     EXCL  YES     YES  0     0
gpus   gp    RSMAP    <=    YES     YES  0     0
`

// site is a small cluster with rules.
type site struct {
	*Sets
	t         testing.TB
	complexes *qconf.Complexes
	values    map[string]float64
}

func compilation(t testing.TB) Compilation {
	t.Helper()
	complexes, err := qconf.ParseComplexes("complexes", []byte(complexesOfTests))
	if err != nil {
		t.Fatal(err)
	}
	return Compilation{
		Complexes: complexes,
		UserSets: []*qconf.UserSet{
			{Name: "staff", Users: []string{"alice", "bob"}},
			{Name: "stuff", Users: []string{"carol"}, UserGroups: []string{"wheel"}},
		},
		Queues: []string{"a.q", "b.q"},
		Hosts:  []string{"n1", "N2.site", "n3"},
		Groups: func(host string) []string {
			if host == "n1" || host == "n3" {
				return []string{"@odd", "@All"}
			}
			return []string{"@All"}
		},
		HostNames: expression.HostNames{IgnoreFQDN: true},
	}
}

// oneSet returns a set with rules, one in a line.
func oneSet(name, rules string) string {
	return "{\nname " + name + "\nenabled TRUE\nlimit " + strings.ReplaceAll(strings.TrimSpace(rules), "\n", "\nlimit ") + "\n}\n"
}

func newSite(t testing.TB, rules string) *site {
	t.Helper()
	quotas, err := qconf.ParseResourceQuotas("rqs", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	c := compilation(t)
	s, errs := Compile(quotas, c)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &site{Sets: s, t: t, complexes: c.Complexes}
}

// demand returns the demand of a job with requests like "lic=2,os=lx".
func (s *site) demand(c Consumer, requests string) *Demand {
	s.t.Helper()
	all := map[string]value.Request{}
	for r := range strings.FieldsFuncSeq(requests, func(r rune) bool { return r == ',' }) {
		name, text, _ := strings.Cut(r, "=")
		x, ok := s.complexes.Find(name)
		if !ok {
			s.t.Fatalf("there is no complex %s", name)
		}
		typ, err := attributeType(x.Type)
		if err != nil {
			s.t.Fatal(err)
		}
		if all[x.Name], err = value.ParseRequest(typ, s.names, text); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.For(c).Demand(func(name string) (value.Request, bool) {
		r, ok := all[name]
		return r, ok
	})
}

func (s *site) at(host int32, attribute string) (float64, bool) {
	v, ok := s.values[s.hosts[host]+":"+attribute]
	return v, ok
}

// who reads a consumer: user, project, parallel environment and group, "-" for none.
func who(text string) Consumer {
	var c Consumer
	for i, word := range strings.Fields(text) {
		if word != "-" {
			*[]*string{&c.User, &c.Project, &c.PE, &c.Group}[i] = word
		}
	}
	return c
}

// matches are rules and keys in one text.
func (s *site) matches(c Consumer, queue, host int32) string {
	var all []string
	for rule, key := range s.For(c).Matches(queue, host) {
		all = append(all, rule+" "+key)
	}
	return strings.Join(all, ", ")
}

// TestWhomARuleIsFor checks the filters of sge_resource_quota(5), FORMAT; the places are a.q or b.q on
// n1, N2.site or n3.
func TestWhomARuleIsFor(t *testing.T) {
	for what, c := range map[string]struct {
		filter, who string
		queue, host int32
		want        bool
	}{
		"no filter":                               {"", "alice", 0, 0, true},
		"a user":                                  {"users alice", "alice", 0, 0, true},
		"another user":                            {"users alice", "bob", 0, 0, false},
		"one of two users":                        {"users alice,bob", "bob", 0, 0, true},
		"every user":                              {"users *", "bob", 0, 0, true},
		"a pattern":                               {"users b*", "bob", 0, 0, true},
		"a pattern that is not matched":           {"users b*", "alice", 0, 0, false},
		"an excluded user":                        {"users !bob", "bob", 0, 0, false},
		"another user than the excluded one":      {"users !bob", "alice", 0, 0, true},
		"excluded, though included":               {"users *,!bob", "bob", 0, 0, false},
		"nobody":                                  {"users !*", "bob", 0, 0, false},
		"a user of a list":                        {"users @staff", "bob", 0, 0, true},
		"a user of no list":                       {"users @staff", "carol", 0, 0, false},
		"a group of a list":                       {"users @stuff", "dave - - wheel", 0, 0, true},
		"another group":                           {"users @stuff", "dave - - users", 0, 0, false},
		"a pattern for lists":                     {"users @st?ff", "carol", 0, 0, true},
		"a list that does not exist":              {"users @nosuch", "carol", 0, 0, false},
		"an excluded list":                        {"users !@staff", "alice", 0, 0, false},
		"excluded by the group":                   {"users !@stuff", "dave - - wheel", 0, 0, false},
		"not in the excluded list":                {"users !@staff", "carol", 0, 0, true},
		"in braces all is the same":               {"users {!@staff}", "carol", 0, 0, true},
		"a name of a list is not a user":          {"users staff", "alice", 0, 0, false},
		"a project":                               {"projects p1", "alice p1", 0, 0, true},
		"another project":                         {"projects p1", "alice p2", 0, 0, false},
		"no project is not in a list":             {"projects p1", "alice", 0, 0, false},
		"any project":                             {"projects *", "alice p1", 0, 0, true},
		"any project, and there is none":          {"projects *", "alice", 0, 0, false},
		"no project":                              {"projects !*", "alice", 0, 0, true},
		"no project, and there is one":            {"projects !*", "alice p1", 0, 0, false},
		"not that project":                        {"projects !p1", "alice p1", 0, 0, false},
		"not that project, and there is none":     {"projects !p1", "alice", 0, 0, true},
		"a pattern for projects":                  {"projects p?", "alice p1", 0, 0, true},
		"the original takes names as patterns":    {"projects p1", "alice p*", 0, 0, true},
		"a parallel environment":                  {"pes rr", "alice - rr", 0, 0, true},
		"a serial job":                            {"pes rr", "alice", 0, 0, false},
		"serial jobs have no excluded one":        {"pes !rr", "alice", 0, 0, true},
		"an excluded parallel environment":        {"pes !rr", "alice - rr", 0, 0, false},
		"only serial jobs":                        {"pes !*", "alice - rr", 0, 0, false},
		"a queue":                                 {"queues a.q", "alice", 0, 0, true},
		"another queue":                           {"queues a.q", "alice", 1, 0, false},
		"a pattern for queues":                    {"queues *.q", "alice", 1, 0, true},
		"an excluded queue":                       {"queues !a.q", "alice", 0, 0, false},
		"not the excluded queue":                  {"queues !a.q", "alice", 1, 0, true},
		"a queue that does not exist":             {"queues c.q", "alice", 0, 0, false},
		"a host":                                  {"hosts n1", "alice", 0, 0, true},
		"another host":                            {"hosts n1", "alice", 0, 1, false},
		"case and domain of hosts do not matter":  {"hosts n2", "alice", 0, 1, true},
		"the domain in the rule does not, either": {"hosts n2.elsewhere", "alice", 0, 1, true},
		"all hosts":                               {"hosts *", "alice", 0, 1, true},
		"a pattern for hosts":                     {"hosts n[13]", "alice", 0, 2, true},
		"an expression on hosts":                  {"hosts n1|n3", "alice", 0, 2, true},
		"a host group":                            {"hosts @odd", "alice", 0, 2, true},
		"another host than the group has":         {"hosts @odd", "alice", 0, 1, false},
		"the group of groups":                     {"hosts @all", "alice", 0, 1, true},
		"a pattern for host groups":               {"hosts @o*", "alice", 0, 0, true},
		"an excluded host group":                  {"hosts !@odd", "alice", 0, 0, false},
		"not in the excluded host group":          {"hosts !@odd", "alice", 0, 1, true},
		"a host of a group that is excluded":      {"hosts @odd,!n1", "alice", 0, 0, false},
		"a host group that does not exist":        {"hosts @nosuch", "alice", 0, 0, false},
		"all filters at once":                     {"users alice projects p1 pes rr queues a.q hosts n1", "alice p1 rr", 0, 0, true},
		"one of them is not matched":              {"users alice projects p1 pes rr queues a.q hosts n1", "alice p1 rr", 0, 1, false},
	} {
		s := newSite(t, oneSet("s", c.filter+" to slots=1"))
		if got := s.matches(who(c.who), c.queue, c.host); (got != "") != c.want {
			t.Errorf("%s: %s for %s at %d %d: %q", what, c.filter, c.who, c.queue, c.host, got)
		}
	}
}

func TestKeys(t *testing.T) {
	for filter, want := range map[string]string{
		"":                                  "s/1 /////",
		"users *":                           "s/1 /////",
		"users {*}":                         "s/1 alice/////",
		"users {@staff}":                    "s/1 alice/////",
		"users {!@stuff}":                   "s/1 alice/////",
		"projects {p1,p2} hosts {@all}":     "s/1 /p1///N2.site/",
		"pes {rr}":                          "s/1 //rr///",
		"users {alice} hosts {n2}":          "s/1 alice////N2.site/",
		"users alice hosts {n2}":            "s/1 ////N2.site/",
		"queues {*}":                        "s/1 ///b.q//",
		"queues {*} hosts {*}":              "s/1 ///b.q/N2.site/",
		"projects {!p2} pes {*} queues b.q": "s/1 /p1/rr///",
	} {
		s := newSite(t, oneSet("s", filter+" to slots=1"))
		if got := s.matches(who("alice p1 rr"), 1, 1); got != want {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
	// Who has no project is a consumer of his own.
	s := newSite(t, oneSet("s", "projects {!p2} to slots=1"))
	if got := s.matches(who("alice"), 0, 0); got != "s/1 /////" {
		t.Errorf("without a project: %s", got)
	}
}

func TestTheFirstRuleOfEachSetCounts(t *testing.T) {
	s := newSite(t, oneSet("one", "users bob to slots=1\nname second users alice queues a.q to slots=2\nto slots=3\nto slots=4")+
		strings.Replace(oneSet("off", "to slots=0"), "TRUE", "FALSE", 1)+
		oneSet("free", "users alice to NONE\nto slots=0")+
		oneSet("two", "hosts n1 to slots=1\nhosts {n3} to slots=1"))
	for _, c := range []struct {
		who         string
		queue, host int32
		want        string
	}{
		{"alice", 0, 0, "one/second /////, free/1 /////, two/1 /////"},
		{"alice", 1, 1, "one/3 /////, free/1 /////"},
		{"bob", 0, 2, "one/1 /////, free/2 /////, two/2 ////n3/"},
	} {
		if got := s.matches(who(c.who), c.queue, c.host); got != c.want {
			t.Errorf("%s at %d %d: %s, want %s", c.who, c.queue, c.host, got, c.want)
		}
	}
	for range s.For(who("alice")).Matches(0, 0) {
		break // a loop may end early
	}
	if first := s.For(who("alice")); first != s.For(who("alice")) {
		t.Error("the rules of a consumer are found twice")
	}
	if got := s.For(who("alice p1")).Demand(nil).Applicable().Consumer(); got != who("alice p1") {
		t.Errorf("the rules are for %v", got)
	}
}

func TestCompileReports(t *testing.T) {
	dynamic := "hosts {*} to "
	for what, c := range map[string]struct{ rule, want string }{
		"an unknown complex":           {"to nosuch=1", `rqs:4: limit: cannot limit "nosuch": there is no such complex`},
		"a value of another type":      {"to slots=many", `rqs:4: limit: cannot limit "slots": cannot read the INT value "many": it does not begin with a number, expected a number like 4, 0x10 or 2k, or INFINITY`},
		"a negative consumable":        {"to lic=-1", `rqs:4: limit: cannot limit "lic": cannot consume "-1": a consumable is not negative`},
		"an infinite consumable":       {"to mem=INFINITY", `rqs:4: limit: cannot limit "mem": cannot consume "INFINITY": a consumable is finite`},
		"a formula of nothing known":   {dynamic + "slots=$nosuch", `rqs:4: limit: cannot limit "slots": there is no complex "nosuch", which stands in "$nosuch"`},
		"a formula of a word":          {dynamic + "slots=$arch", `rqs:4: limit: cannot limit "slots": "arch" in "$arch" has the type STRING, expected a number`},
		"a formula for a word":         {dynamic + "os=$num_proc", `rqs:4: limit: cannot limit "os": a formula is a number, and the type is STRING`},
		"a part of a filter":           {"hosts (n1 to slots=1", `rqs:4: limit: hosts: cannot read the expression "(n1": it ends, expected an operator or ")" at position 3`},
		"a part of an excluded filter": {"hosts !n1& to slots=1", `rqs:4: limit: hosts: cannot read the expression "n1&": it ends, expected a name or pattern at position 3`},
	} {
		quotas, err := qconf.ParseResourceQuotas("rqs", []byte(oneSet("s", c.rule+"\nto slots=1")))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		s, errs := Compile(quotas, compilation(t))
		if len(errs) != 1 {
			t.Errorf("%s: %v", what, errs)
			continue
		}
		var e *qconf.Error
		if !errors.As(errs[0], &e) || e.Error() != c.want {
			t.Errorf("%s: %v, want %s", what, errs[0], c.want)
		}
		// All else holds.
		if f, ok := s.For(who("alice")).Demand(nil).Check(nil, nil, 0, 0); !ok {
			t.Errorf("%s: %s", what, f.Text())
		}
	}
	bad := []*qconf.ResourceQuotaSet{{Name: "s", Enabled: true, Rules: []qconf.QuotaRule{
		{Limits: []qconf.QuotaLimit{{Name: "slots", Value: "$num_proc", Dynamic: true}}},
		{Hosts: qconf.QuotaFilter{Expanded: true, Scope: []string{"*"}}, Limits: []qconf.QuotaLimit{{Name: "slots", Value: "2*$", Dynamic: true}}},
	}}}
	if _, errs := Compile(bad, compilation(t)); len(errs) != 2 {
		t.Errorf("dynamic limits for all hosts, and no formula: %v", errs)
	}
	if s, errs := Compile(bad, Compilation{Queues: make([]string, 1<<18), Hosts: make([]string, 1<<18)}); len(errs) != 1 || s.NewUsage() == nil {
		t.Errorf("too large a cluster: %v", errs)
	}
	if _, errs := Compile(bad, Compilation{}); len(errs) != 2 {
		t.Errorf("no complexes: %v", errs)
	}
}

// TestABrokenFilterMatchesNothing checks that an empty or invalid filter matches nothing.
func TestABrokenFilterMatchesNothing(t *testing.T) {
	quotas, err := qconf.ParseResourceQuotas("rqs", []byte(oneSet("s", "hosts (n1 to slots=0")))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := Compile(quotas, compilation(t))
	if f, ok := s.For(who("alice")).Demand(nil).Check(nil, nil, 0, 0); !ok {
		t.Error(f.Text())
	}
}

func TestFormatsOfRows(t *testing.T) {
	s := newSite(t, oneSet("f", "users {*} hosts {n1} to slots=10,lic=5,mem=4G,span=1:0:0,part=2.5,rank=0x10,os=lx*,excl=TRUE,jlic=3,gpus=4")+
		oneSet("h", "hosts {*} to lic=$num_proc")+oneSet("i", "pes {!p1} to excl=FALSE"))
	s.values = map[string]float64{"n1:num_proc": 6}
	u := s.NewUsage()
	book := func(c, requests string, grants ...Grant) {
		t.Helper()
		if err := u.Debit(s.demand(who(c), requests), grants); err != nil {
			t.Fatal(err)
		}
	}
	book("alice", "lic=2,mem=1.5G,span=600,part=0.75,gpus=1", Grant{0, 0, 1})
	book("bob p2 rr", "jlic=2,excl=true", Grant{0, 0, 2}, Grant{1, 0, 1})
	book("carol p1", "lic=1", Grant{0, 2, 1})
	var got []string
	for _, r := range u.List(Selection{}, s.at) {
		got = append(got, r.Rule+" "+r.LimitText()+" "+r.Filter)
	}
	want := []string{
		"f/1 slots=1/10 users alice hosts n1",
		"f/1 slots=3/10 users bob hosts n1",
		"f/1 lic=2/5 users alice hosts n1",
		"f/1 mem=1.500G/4.000G users alice hosts n1",
		"f/1 span=00:10:00/01:00:00 users alice hosts n1",
		"f/1 part=0.750000/2.500000 users alice hosts n1",
		"f/1 rank=0x10 users {*} hosts {n1}",
		"f/1 os=lx* users {*} hosts {n1}",
		"f/1 excl=0.000000/1.000000 users alice hosts n1",
		"f/1 excl=3.000000/1.000000 users bob hosts n1",
		"f/1 jlic=2/3 users bob hosts n1",
		"f/1 gpus=1/4 users alice hosts n1",
		"h/1 lic=2/6 hosts n1",
		"h/1 lic=1/9999 hosts n3",
		"i/1 excl=0.000000/0.000000 pes -",
		"i/1 excl=3.000000/0.000000 pes rr",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
