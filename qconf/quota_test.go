package qconf

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestResourceQuotas(t *testing.T) {
	sets, err := ParseResourceQuotas("r", []byte(`# two sets
{
name a
  # within a set
  description "slots,  of \
   some"
  enabled yes
  limit name 1st hosts {@big, !n1 } queues !a.q,b.q,!c.q projects {*} pes !* to slots=$num_proc*2+1, lic=3
  limit users alice,@staff,!bob,alice to NONE
  limit queues a.q
}

{
name b
limit to s=1
}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []*ResourceQuotaSet{
		{Name: "a", Description: `"slots, of some"`, Enabled: true, Rules: []QuotaRule{
			{
				Name: "1st", Hosts: QuotaFilter{true, []string{"@big"}, []string{"n1"}}, Queues: QuotaFilter{false, []string{"b.q"}, []string{"a.q", "c.q"}},
				Projects: QuotaFilter{true, []string{"*"}, nil}, PEs: QuotaFilter{false, nil, []string{"*"}},
				Limits: []QuotaLimit{{"slots", "$num_proc*2+1", true}, {"lic", "3", false}},
			},
			{Users: QuotaFilter{false, []string{"alice", "@staff"}, []string{"bob"}}},
			{Queues: QuotaFilter{false, []string{"a.q"}, nil}},
		}},
		{Name: "b", Rules: []QuotaRule{{Limits: []QuotaLimit{{"s", "1", false}}}}},
	}
	if diff := cmp.Diff(want, sets, cmpopts.IgnoreUnexported(ResourceQuotaSet{}, QuotaRule{})); diff != "" {
		t.Error(diff)
	}
	same(t, "printed", `{
   name         a
   description  "slots, of some"
   enabled      TRUE
   limit        name 1st projects {*} pes !* queues b.q,!a.q,!c.q hosts {@big, \
   !n1} to slots=$num_proc*2+1,lic=3
   limit        users alice,@staff,!bob to NONE
   limit        queues a.q to NONE
}
{
   name         b
   description  NONE
   enabled      FALSE
   limit        to s=1
}
`, FormatResourceQuotas(sets, Wrapped))
	same(t, "line", 9, sets[0].Rules[1].Line())
	if sets[0].Rules[0].Users.Set() || !sets[0].Rules[0].PEs.Set() {
		t.Error("filters that are set")
	}
	sets, err = ParseResourceQuotas("r", []byte("{\nname a\nlimit name x to s=1\nlimit name x to s=2\n}"))
	if err != nil || len(sets[0].Warnings()) != 1 || sets[0].Warnings()[0].Line != 4 {
		t.Error("no warning about two rules of one name", err)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	for rule, want := range map[string]string{
		"users {a to s=1":              `users: "{atos=1" has no closing brace at its end`,
		"users {a},b to s=1":           `users: "{a},b" has no closing brace at its end`,
		"users {a,{b}} to s=1":         `users: "{b}" in "{a,{b}}" is not a name, pattern or @list`,
		"users a,,b to s=1":            `users: "" in "a,,b" names nothing, expected names, patterns and @lists with commas between them`,
		"users ! to s=1":               `users: "!" in "!" names nothing, expected names, patterns and @lists with commas between them`,
		"users !!a to s=1":             `users: "!!a" in "!!a" names nothing, expected names, patterns and @lists with commas between them`,
		"users @ to s=1":               `users: "@" in "@" names nothing, expected names, patterns and @lists with commas between them`,
		`users "a" to s=1`:             `users: "\"a\"" in "\"a\"" is not a name, pattern or @list`,
		"users a users b to s=1":       `"users" comes twice in a rule`,
		"users a hosts":                `nothing follows "hosts" at the end of the rule`,
		"USERS a to s=1":               `"USERS" is unknown in a rule, expected name, users, projects, pes, queues, hosts or to`,
		"users a b to s=1":             `"b" is unknown in a rule, expected name, users, projects, pes, queues, hosts or to`,
		"name a/b to s=1":              `"a/b" is not a name: it contains "/", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
		"to slots":                     `"slots" is not a limit, expected name=value`,
		"to slots = 1":                 `"slots" is not a limit, expected name=value`,
		"to":                           `nothing follows "to", expected name=value or NONE`,
		"to s=1,s=2":                   `"s" is limited twice`,
		"to s=1 #c":                    `"#c" is not a limit, expected name=value`,
		"to s=$num_proc":               `"s=$num_proc" is a dynamic limit, which needs a filter hosts {...} in braces`,
		"hosts n1 to s=$num_proc":      `"s=$num_proc" is a dynamic limit, which needs a filter hosts {...} in braces`,
		"hosts {*} to s=2*$num_proc":   `"2*$num_proc" has the weight "$num_proc", expected a number after the operator`,
		"hosts {*} to s=$num_proc*2*3": `"$num_proc*2*3" has a term with more than one weight`,
		"hosts {*} to s=$":             `"$" is not a formula: empty name`,
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := ParseResourceQuotas("r", []byte("{\nname a\nlimit "+rule+"\n}\n"))
			refused(t, err, "r:3: limit: "+want)
		})
	}
}

func TestResourceQuotasThatAreRefused(t *testing.T) {
	for sentence, c := range map[string]struct {
		text string
		errs []string
	}{
		"no brace":        {"name a\n", []string{`r:1: "name" is outside of a set, expected { on a line of its own`}},
		"all on one line": {"{ name a }\n", []string{`r:1: "{" is outside of a set, expected { on a line of its own`}},
		"an invalid end":  {"{\nname a\nlimit to s=1\n", []string{"r:3: the file ends in a set, expected a line with }"}},
		"a set in a set":  {"{\nname a\n{\nlimit to s=1\n}", []string{"r:3: a set in the set that begins in line 1, expected }"}},
		"an empty set":    {"\n{\n}", []string{"r:2: name: is missing, a resource quota set needs it", "r:2: limit: is missing, a resource quota set needs it"}},
		"what is wrong in it": {"{\nname a b\nname c\nenabled maybe\nLIMIT to s=1\nlimit\n}", []string{
			`r:2: name: "a b" is not a name: it contains " ", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
			`r:3: name: comes twice, first in line 2`,
			`r:4: enabled: "maybe" is neither true nor false, expected TRUE or FALSE`,
			`r:5: unknown attribute "LIMIT" of a resource quota set, expected name, enabled, description or limit`,
			`r:6: limit: has no value`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := ParseResourceQuotas("r", []byte(c.text))
			refused(t, err, c.errs...)
		})
	}
}

func FuzzResourceQuotas(f *testing.F) {
	for _, file := range []string{"testdata/printed/rqs", "testdata/golden/05-rqs-expanded/rqs", "testdata/golden/06-rqs-dynamic/rqs"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("{\nname a\nlimit name x hosts {a, !b ,c} pes {!*} to s=$a*-2+1 ,b=x \\\n , c=1\n}")
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := ParseResourceQuotas("r", []byte(text))
		if err != nil {
			return
		}
		for _, style := range []Style{Wrapped, SingleLine} {
			printed := FormatResourceQuotas(sets, style)
			again, err := ParseResourceQuotas("r", []byte(printed))
			if err != nil {
				t.Fatalf("%q is printed as %q, which is not read: %v", text, printed, err)
			}
			if diff := cmp.Diff(sets, again, cmpopts.IgnoreUnexported(ResourceQuotaSet{}, QuotaRule{})); diff != "" {
				t.Errorf("%q is printed as %q\n%s", text, printed, diff)
			}
		}
	})
}

func FuzzShareTree(f *testing.F) {
	for _, file := range []string{"testdata/golden/11-sharetree-users/sharetree", "testdata/golden/12-sharetree-projects/sharetree"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := ParseShareTree("t", []byte(text))
		if err != nil {
			return
		}
		again, err := ParseShareTree("t", []byte(tree.Format()))
		if err != nil {
			t.Fatalf("%q is printed as %q, which is not read: %v", text, tree.Format(), err)
		}
		if diff := cmp.Diff(tree.Root, again.Root, cmpopts.IgnoreUnexported(ShareNode{})); diff != "" {
			t.Errorf("%q is printed as %q\n%s", text, tree.Format(), diff)
		}
	})
}

func FuzzHost(f *testing.F) {
	fuzz(f, "hosts", "hostname global\ncomplex_values a=1(x  y,z),b=2\nload_scaling a=1e3, b=-2\nload_values a=b,c=d e\n")
}
func FuzzUserSet(f *testing.F) { fuzz(f, "usersets", "name a\ntype DEPT,acl\nentries @a b,c\n") }
func FuzzUser(f *testing.F) {
	fuzz(f, "users", "name a\noticket 0x7\ndelete_time 1\ndefault_project none\n")
}
func FuzzProject(f *testing.F) { fuzz(f, "projects", "name a\nacl a,b\nxacl NONE\n") }
func FuzzCalendar(f *testing.F) {
	fuzz(f, "calendars", "calendar_name a\nyear 1.1.2030,\\\n2.1.2030=on  3.1.2030\nweek mon-fri=6-20 sat\n")
}

func FuzzSchedulerConfig(f *testing.F) {
	fuzz(f, "sched_conf", "params PROFILE=1 , monitor=0  JC_FILTER=1\nload_formula a + b*-2\nhalflife_decay_list cpu=1:mem=2\n",
		"schedd_job_info job_list 1 ,3-5\njob_load_adjustments a=1 b=2\nusage_weight_list cpu=1,x=.5\npolicy_hierarchy none\n")
}

func FuzzResourceMap(f *testing.F) {
	f.Add("4(0-2 a)")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseResourceMap(text)
		if err != nil {
			return
		}
		again, err := ParseResourceMap(m.String())
		if err != nil || cmp.Diff(m, again, cmpopts.EquateEmpty()) != "" {
			t.Errorf("%q is printed as %q: %v", text, m, err)
		}
	})
}
