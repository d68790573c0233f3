package qconf

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func noText() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Text" }, cmp.Ignore())
}

// parsed checks what a file means, or with which errors it is refused.
func parsed[T any](t *testing.T, want T, errs []string, got *T, err error) {
	t.Helper()
	refused(t, err, errs...)
	if err == nil {
		if diff := cmp.Diff(want, *got, noText()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestExecutionHosts(t *testing.T) {
	for sentence, c := range map[string]struct {
		text string
		want ExecHost
		errs []string
	}{
		"a name alone": {"hostname n1", ExecHost{Name: "n1"}, nil},
		"all attributes": {`hostname global
load_scaling np_load_avg=1.5, mem_free=-2e1
complex_values s=3,gpu=2(a  b),arch=lx
load_values arch=lx,m_topology=SC
processors 4
user_lists staff,admins
xuser_lists bad
projects p1 p2
xprojects p3
usage_scaling cpu=0.5,io=0
report_variables cpu np_load_avg
`, ExecHost{
			Name: "global", LoadScaling: []Weight{{"np_load_avg", 1.5}, {"mem_free", -20}},
			ComplexValues: []Setting{{"s", "3"}, {"gpu", "2(a b)"}, {"arch", "lx"}},
			UserLists:     []string{"staff", "admins"}, XUserLists: []string{"bad"}, Projects: []string{"p1", "p2"}, XProjects: []string{"p3"},
			UsageScaling: []Weight{{"cpu", 0.5}, {"io", 0}}, ReportVariables: []string{"cpu", "np_load_avg"},
		}, nil},
		"wrong values": {"hostname template\nload_scaling a=x\ncomplex_values slots\nusage_scaling mem_free=1\nuser_lists a/b\nslots 3", ExecHost{}, []string{
			`x:6: unknown attribute "slots" of a host, expected one of host_conf(5)`,
			`x:1: hostname: "template" is not a host name: the word is reserved`,
			`x:2: load_scaling: "x" is not a number in a=x, expected one like 0.25`,
			`x:3: complex_values: "slots" has no value, expected name=value`,
			`x:5: user_lists: "a/b" is not a name: it contains "/", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
			`x:4: usage_scaling: "mem_free" is not a kind of usage, expected cpu, mem or io`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			h, err := ParseHost("x", []byte(c.text))
			parsed(t, c.want, c.errs, h, err)
		})
	}
}

func TestUsersProjectsAndUserSets(t *testing.T) {
	u, err := ParseUser("u", []byte("name alice\noticket 0x10\nfshare 010\ndelete_time 5\ndefault_project p\n"))
	parsed(t, User{Name: "alice", OverrideTicket: 16, FunctionShare: 10, DeleteTime: time.Unix(5, 0).UTC(), DefaultProject: "p"}, nil, u, err)
	_, err = ParseUser("u", []byte("name default\noticket -1\nfshare 4294967296\ndelete_time soon\ndefault_project a b"))
	refused(t, err,
		`u:1: name: "default" is not a name: it stands for all others in the share tree`,
		`u:2: oticket: "-1" is out of range, expected a number from 0 to 4294967295`,
		`u:3: fshare: "4294967296" is out of range, expected a number from 0 to 4294967295`,
		`u:4: delete_time: "soon" is not a number, expected one from 0 to 4294967295`,
		`u:5: default_project: "a b" is not a name: it contains " ", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`)

	p, err := ParseProject("p", []byte("name p1\nacl a,b\nxacl c"))
	parsed(t, Project{Name: "p1", ACL: []string{"a", "b"}, XACL: []string{"c"}}, nil, p, err)
	_, err = p.With("xacl", "c b")
	refused(t, err, `p: xacl: user set "b" is in acl, too`)
	_, err = ParseProject("p", []byte("name p1\nacl a\nxacl b a"))
	refused(t, err, `p:3: xacl: user set "a" is in acl, too`)

	s, err := ParseUserSet("s", []byte("name s\ntype dept,ACL\nfshare 3\nentries alice,@staff bob\n"))
	parsed(t, UserSet{Name: "s", ACL: true, Department: true, FunctionShare: 3, Users: []string{"alice", "bob"}, UserGroups: []string{"staff"}}, nil, s, err)
	same(t, "printed", "name    s\ntype    ACL DEPT\nfshare  3\noticket 0\nentries alice,@staff,bob\n", s.Format(Wrapped))
	for _, who := range []struct {
		user, group string
		want        bool
	}{{"alice", "x", true}, {"carol", "staff", true}, {"staff", "x", false}, {"carol", "", false}, {"@staff", "alice", false}} {
		if s.Contains(who.user, who.group) != who.want {
			t.Error(who)
		}
	}
	_, err = ParseUserSet("s", []byte("name s\ntype ACL|DEPT\nentries @"))
	refused(t, err, `s:2: type: "ACL|DEPT" is not a type of a user set, expected ACL, DEPT or both`, `s:3: entries: empty name`)
	if s, err = s.With("type", "ACL"); err != nil || len(s.Warnings()) != 1 {
		t.Error("no warning about shares of an access list", err)
	}
}

func TestCalendars(t *testing.T) {
	c, err := ParseCalendar("c", []byte("calendar_name c\nyear 1.1.2030,\\\n  2.1.2030=on   3.1.2030\nweek none\n"))
	parsed(t, Calendar{Name: "c", Year: "1.1.2030,2.1.2030=on 3.1.2030"}, nil, c, err)
	_, err = ParseCalendar("c", []byte("calendar_name c\nyear mon;tue\nweek mon ,tue\n"))
	refused(t, err, `c:2: year: ";" is in no calendar, expected entries like mon-fri=8-18=off or 24.12.2030`,
		`c:3: week: "mon ,tue" has a comma next to a blank, expected entries like mon-fri=8-18=off or 24.12.2030`)
}

func TestTheSchedulersDefaults(t *testing.T) {
	c, err := ParseSchedulerConfig("", nil)
	parsed(t, SchedulerConfig{
		Algorithm: "default", ScheduleInterval: 15 * time.Second, QueueSortMethod: SortByLoad, JobLoadAdjustments: []Setting{{"np_load_avg", "0.50"}},
		LoadAdjustmentDecayTime: 450 * time.Second, LoadFormula: "np_load_avg", ScheddJobInfo: JobInfo{All: true},
		Params: SchedulerParams{DurationOffset: time.Minute, PERangeAlg: PERangeAuto}, Halftime: 168 * time.Hour,
		UsageWeights: []Weight{{"cpu", 1}, {"mem", 0}, {"io", 0}}, CompensationFactor: 5, WeightUser: .25, WeightProject: .25, WeightDepartment: .25, WeightJob: .25,
		ShareOverrideTickets: true, ShareFunctionalShares: true, MaxFunctionalJobsToSchedule: 200, ReportPJobTickets: true, MaxPendingTasksPerJob: 50,
		PolicyHierarchy: "OFS", WeightTicket: .5, WeightWaitingTime: .278, WeightDeadline: 3600000, WeightUrgency: .5, DefaultDuration: Forever,
	}, nil, c, err)
}

func TestSchedulerParameters(t *testing.T) {
	base := static(ParseSchedulerConfig("", nil))
	for _, c := range []struct {
		name, value, printed string // printed is the error where it begins with !
		got                  func(*SchedulerConfig) any
		want                 any
	}{
		{"params", "profile=TRUE, MONITOR=1 DURATION_OFFSET=0:2:0,JC_FILTER=0", "profile=TRUE,MONITOR=1 DURATION_OFFSET=0:2:0,JC_FILTER=0", func(c *SchedulerConfig) any { return c.Params }, SchedulerParams{Profile: true, Monitor: true, DurationOffset: 2 * time.Minute, PERangeAlg: PERangeAuto}},
		{"params", "PE_RANGE_ALG=bin", "PE_RANGE_ALG=bin", func(c *SchedulerConfig) any { return c.Params.PERangeAlg }, PERangeBin},
		{"params", "binding_aware=true", "binding_aware=true", func(c *SchedulerConfig) any { return c.Params.BindingAware }, true},
		{"params", "BINDING_AWARE=perhaps", `!BINDING_AWARE: "perhaps" is unknown, expected 0, 1, false or true`, nil, nil},
		{"params", "PE_RANGE_ALG=foo", `!PE_RANGE_ALG: "foo" is unknown, expected one of auto, least, bin, highest`, nil, nil},
		{"params", "PROFILE=2", `!PROFILE: "2" is unknown, expected 0, 1, false or true`, nil, nil},
		{"params", "FOO=1", `!"FOO=1" is unknown, expected NONE or PROFILE, MONITOR, JC_FILTER, DURATION_OFFSET, PE_RANGE_ALG, BINDING_AWARE, each with =value`, nil, nil},
		{"schedd_job_info", "job_list 1,3-5", "job_list 1,3-5", func(c *SchedulerConfig) any { return c.ScheddJobInfo }, JobInfo{Jobs: []Range{{1, 1}, {3, 5}}}},
		{"schedd_job_info", "false", "false", func(c *SchedulerConfig) any { return c.ScheddJobInfo }, JobInfo{}},
		{"schedd_job_info", "TRUE", `!"TRUE" is unknown, expected true, false, or job_list with job numbers like 7,10-12`, nil, nil},
		{"load_formula", "np_load_avg + $slots*-2", "np_load_avg+$slots*-2", func(c *SchedulerConfig) any { return c.LoadFormula }, "np_load_avg+$slots*-2"},
		{"load_formula", "load_avg*1e-3-slots*2E+1", "load_avg*1e-3-slots*2E+1", nil, nil},
		{"load_formula", "e-slots*2", "e-slots*2", nil, nil},
		{"load_formula", "-load_avg-3", "-load_avg-3", nil, nil},
		{"load_formula", "2*load_avg", `!"2*load_avg" has the weight "load_avg", expected a number after the operator`, nil, nil},
		{"load_formula", "load_avg*2*3", `!"load_avg*2*3" has a term with more than one weight`, nil, nil},
		{"load_formula", "load_avg+", `!"load_avg+" is not a formula: empty name`, nil, nil},
		{"load_formula", "none", `!"none" is not a load formula, expected one like np_load_avg`, nil, nil},
		{"queue_sort_method", "SEQNO", "seqno", func(c *SchedulerConfig) any { return c.QueueSortMethod }, SortBySeqNo},
		{"queue_sort_method", "sequence", `!"sequence" is unknown, expected one of load, seqno`, nil, nil},
		{"algorithm", "clever", `!"clever" is not an algorithm, expected default`, nil, nil},
		{"schedule_interval", "INFINITY", `!"INFINITY" is not possible here, expected a finite time`, nil, nil},
		{"maxujobs", "1.5", `!"1.5" is not a number, expected one from 0 to 4294967295`, nil, nil},
		{"job_load_adjustments", "none", "NONE", func(c *SchedulerConfig) any { return c.JobLoadAdjustments }, []Setting(nil)},
		{"job_load_adjustments", "la=1.0 , x=1G", "la=1.0,x=1G", func(c *SchedulerConfig) any { return c.JobLoadAdjustments }, []Setting{{"la", "1.0"}, {"x", "1G"}}},
		{"job_load_adjustments", "la=x", `!"x" is not a number in la=x, expected one like 0.5`, nil, nil},
		{"usage_weight_list", "cpu=.7,mem=2", "cpu=0.700000,mem=2.000000", func(c *SchedulerConfig) any { return c.UsageWeights }, []Weight{{"cpu", .7}, {"mem", 2}}},
		{"usage_weight_list", "cpu", `!"cpu" has no value, expected name=value`, nil, nil},
		{"halflife_decay_list", "cpu=60:mem=-1", "cpu=60:mem=-1", func(c *SchedulerConfig) any { return c.HalflifeDecayList }, []HalfLife{{"cpu", time.Hour}, {"mem", -time.Minute}}},
		{"halflife_decay_list", "cpu", `!"cpu" is not an element of the list, expected usage=minutes like cpu=60:mem=-1, or NONE`, nil, nil},
		{"halftime", "2", "2", func(c *SchedulerConfig) any { return c.Halftime }, 2 * time.Hour},
		{"flush_submit_sec", "2", "2", func(c *SchedulerConfig) any { return c.FlushSubmit }, 2 * time.Second},
		{"policy_hierarchy", "SF", "SF", func(c *SchedulerConfig) any { return c.PolicyHierarchy }, "SF"},
		{"policy_hierarchy", "OO", `!"OO" is not a policy hierarchy, expected the letters O, F, S, each once at most, or NONE`, nil, nil},
		{"policy_hierarchy", "ofs", `!"ofs" is not a policy hierarchy, expected the letters O, F, S, each once at most, or NONE`, nil, nil},
		{"max_pending_tasks_per_job", "0", `!"0" is out of range, expected a number from 1 to 4294967295`, nil, nil},
		{"weight_deadline", "1e3", "1000.000000", func(c *SchedulerConfig) any { return c.WeightDeadline }, 1000.0},
		{"weight_user", "1k", `!"1k" is not a number, expected one like 0.25`, nil, nil},
		{"share_override_tickets", "0", "FALSE", func(c *SchedulerConfig) any { return c.ShareOverrideTickets }, false},
		{"default_duration", "0", "0", func(c *SchedulerConfig) any { return c.DefaultDuration }, time.Duration(0)},
		{"default_duration", "600", "600", func(c *SchedulerConfig) any { return c.DefaultDuration }, 10 * time.Minute},
	} {
		got, err := base.With(c.name, c.value)
		if problem, bad := strings.CutPrefix(c.printed, "!"); bad {
			refused(t, err, c.name+": "+problem)
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		same(t, c.name+" "+c.value, c.printed, value(t, got.Text, c.name))
		if c.got != nil {
			same(t, c.name+" "+c.value, c.want, c.got(got))
		}
	}
	_, err := ParseSchedulerConfig("s", []byte("max_reservation 1\ndefault_duration 0:0:0\n"))
	refused(t, err, `s:2: default_duration: "0:0:0" is not possible with max_reservation 1, expected a time above 0, or INFINITY`)
}

func TestTermsOfFormulas(t *testing.T) {
	for formula, want := range map[string][][]string{
		"np_load_avg":    {{"np_load_avg"}},
		"-a+b*-2-$c*1.5": {{"a"}, {"b", "-2"}, {"$c", "1.5"}},
		"a*1e-3-b*2E+1":  {{"a", "1e-3"}, {"b", "2E+1"}},
		"e-slots":        {{"e"}, {"slots"}},
		"a-":             {{"a"}, {""}},
		"$num_proc*2+1":  {{"$num_proc", "2"}, {"1"}},
		"":               {{""}},
	} {
		same(t, formula, want, formulaTerms(formula))
	}
}

func TestShareTrees(t *testing.T) {
	tree, err := ParseShareTree("t", []byte("# x\nid=5\nname=Root\ntype=0\nshares=1\nchildnodes=9 , 7\n\nid = 7\nname= p\ntype=1\nshares=3\nchildnodes=8\nid=8\nname=default\ntype=0\nshares=4\nchildnodes=NONE\nid=9\nname=alice\ntype=0\nshares=2\nchildnodes=none\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &ShareNode{Name: "Root", Shares: 1, Children: []*ShareNode{
		{Name: "alice", Shares: 2}, {Name: "p", Project: true, Shares: 3, Children: []*ShareNode{{Name: "default", Shares: 4}}},
	}}
	if diff := cmp.Diff(want, tree.Root, cmpopts.IgnoreUnexported(ShareNode{})); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(tree.Format(), "id=2\nname=p\ntype=1\nshares=3\nchildnodes=3\n") || !strings.HasPrefix(tree.Format(), "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,2\n") {
		t.Error(tree.Format())
	}
}

func TestShareTreesThatAreRefused(t *testing.T) {
	node := func(id, name, rest string) string {
		return "id=" + id + "\nname=" + name + "\ntype=0\nshares=1\nchildnodes=" + rest + "\n"
	}
	for sentence, c := range map[string]struct {
		text string
		errs []string
	}{
		"nothing":                 {"", []string{"t: has no nodes, expected id=0 and the other lines of the root"}},
		"a child that is no node": {node("0", "Root", "1,2") + node("1", "a", "NONE"), []string{"t:5: childnodes: node 2 does not exist"}},
		"a circle with the root":  {node("0", "Root", "1") + node("1", "a", "0"), []string{"t:10: childnodes: node 0 is the root, which closes a circle"}},
		"a circle elsewhere":      {node("0", "Root", "1") + node("1", "a", "NONE") + node("2", "b", "3") + node("3", "c", "2"), []string{"t:11: id: node 2 is below itself", "t:16: id: node 3 is below itself"}},
		"a node below itself":     {node("0", "Root", "1") + node("1", "a", "NONE") + node("2", "b", "2"), []string{"t:11: id: node 2 is below itself"}},
		"two parents":             {node("0", "Root", "1,2") + node("1", "a", "2") + node("2", "b", "NONE"), []string{"t:10: childnodes: node 2 is a child of node 0 already"}},
		"no parent":               {node("0", "Root", "1") + node("1", "a", "NONE") + node("2", "b", "NONE"), []string{"t:11: id: node 2 is not below the first node, which is the root"}},
		"a number twice":          {node("0", "Root", "1") + node("1", "a", "NONE") + node("1", "b", "NONE"), []string{"t:11: id: the node in line 6 has the same number"}},
		"a name twice in a place": {node("0", "Root", "1,2") + node("1", "a", "NONE") + node("2", "a", "NONE"), []string{`t:12: name: "a" comes twice below the node "Root"`}},
		"a line that is missing":  {"id=0\nname=a\ntype=0\nchildnodes=NONE\n", []string{"t:1: shares: is missing, a node of the share tree needs it"}},
		"a line that comes twice": {"id=0\nname=a\nname=b\ntype=0\nshares=1\nchildnodes=NONE\n", []string{"t:3: name: comes twice in a node"}},
		"a line of no node":       {"name=a\n", []string{"t:1: name: belongs to no node, expected id=number first"}},
		"words": {"id=0\nname=a b\ntype=2\nshares=-1\nchildnodes=x\nusage=3\n", []string{
			`t:6: "usage=3" is no line of a share tree, expected one of id=, name=, type=, shares=, childnodes=value`,
			`t:2: name: "a b" is not a name: it contains " ", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
			`t:3: type: "2" is unknown, expected 0 for a user or a group, or 1 for a project`,
			`t:4: shares: "-1" is out of range, expected a number from 0 to 4294967295`,
			`t:5: childnodes: "x" is not a number, expected one from 0 to 4294967295`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := ParseShareTree("t", []byte(c.text))
			refused(t, err, c.errs...)
		})
	}
}

func TestResourceMaps(t *testing.T) {
	for text, want := range map[string]string{
		"4(0 1 2 3)": "4(0 1 2 3)", "4(0-3)": "4(0 1 2 3)", "2": "2(0 1)", "0": "0()", "3(a,b a)": "3(a b a)", "0()": "0()",
	} {
		m, err := ParseResourceMap(text)
		if err != nil {
			t.Error(err)
		}
		same(t, text, want, m.String())
	}
	for text, want := range map[string]string{
		"2(a)":         `"2(a)" has 1 ids, expected 2`,
		"a":            `"a" is not a value of the type RSMAP, expected a number and as many ids, like 4(0 1 2 3)`,
		"1(a":          `"1(a" is not a value of the type RSMAP, expected a number and as many ids, like 4(0 1 2 3)`,
		"1(a=b)":       `"a=b" is not an id of a resource map: it contains "="`,
		"1(0-9999999)": `"0-9999999" has more than 65536 ids`,
	} {
		_, err := ParseResourceMap(text)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestValuesOfComplexes(t *testing.T) {
	for text, want := range map[string]float64{
		"5.7": 5.7, "1e3": 1000, "-3": -3, "+5": 5, ".5": .5, "0x0A": 10, "010": 8, "TRUE": 1, "false": 0, "infinity": math.Inf(1),
		"::30": 30, "1.5:0:0": 5400, "-1:0:0": -3600, "0:90:0": 5400, "1k": 1000, "1K": 1024, "2m": 2e6, "1M": 1 << 20, "1g": 1e9, "0.5G": 1 << 29, "1t": 1e12, "1T": 1 << 40,
	} {
		if v, err := complexNumber(text); err != nil || v != want {
			t.Error(text, v, err)
		}
	}
	for _, text := range []string{"", "yes", "t", "1:30", "1:2:3:4", "1GB", "1P", "1h", "1x", "08", "0b1", "0o7", "0_1", "nan", "inf", "0x1p3", "1:x:0", "k"} {
		if v, err := complexNumber(text); err == nil {
			t.Error(text, v)
		}
	}
	lic := Complex{Name: "lic", Type: ComplexInt, Relop: "<=", Consumable: ConsumableYes}
	for value, want := range map[string]string{
		"3": "", "-1": `"-1" is not possible for the consumable lic, expected a value that is not negative`,
		"INFINITY": `"INFINITY" is not possible for the consumable lic, expected a finite value`, "x": `"x" is not a value of the type INT, expected an integer`,
	} {
		if err := lic.CheckCapacity(value); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Error(value, err)
		}
	}
	lic.Consumable = ConsumableNo
	if err := lic.CheckCapacity("-1"); err != nil {
		t.Error(err)
	}
}
