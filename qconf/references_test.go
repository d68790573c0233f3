package qconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWholeClustersOfTheOriginalAreLoaded(t *testing.T) {
	for _, dir := range goldenClusters(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c, err := Load(os.DirFS(dir), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.QueueNames()) == 0 || len(c.HostNames()) == 0 || len(c.Missing()) != 0 || len(c.Warnings()) != 0 {
				t.Error(c.QueueNames(), c.HostNames(), c.Missing(), c.Warnings())
			}
		})
	}
}

func TestReferencesOfADirectory(t *testing.T) {
	const complexes = "lic l INT <= YES YES 0 0\ngpu gpu RSMAP <= YES YES 0 0\ncolor color STRING == YES NO NONE 0\n"
	for sentence, c := range map[string]struct {
		files map[string]string
		errs  []string
	}{
		"complexes that do not exist": {map[string]string{
			"complexes":    complexes,
			"queues/a.q":   "qname a.q\nload_thresholds np_load_avg=1,nosuch=2\nsuspend_thresholds NONE,[n1=nope=1]\ncomplex_values l=3,other=1\n",
			"hosts/n1":     "hostname n1\nload_scaling x=1\ncomplex_values y=1\nreport_variables z,cpu\n",
			"hosts/global": "hostname global\ncomplex_values g=1\n",
			"sched_conf":   "job_load_adjustments aa=1\nload_formula np_load_avg*2+b-$slots\n",
			"rqs":          "{\nname r\nlimit to q1=3\nlimit hosts {*} to slots=$q2*2\n}\n",
		}, []string{
			`hosts/global:2: complex_values: complex "g" does not exist`,
			`hosts/n1:2: load_scaling: complex "x" does not exist`,
			`hosts/n1:3: complex_values: complex "y" does not exist`,
			`hosts/n1:4: report_variables: complex "z" does not exist`,
			`queues/a.q:2: load_thresholds: complex "nosuch" does not exist`,
			`queues/a.q:3: suspend_thresholds: complex "nope" does not exist`,
			`queues/a.q:4: complex_values: complex "other" does not exist`,
			`rqs:3: limit: complex "q1" does not exist`,
			`rqs:4: limit: complex "q2" does not exist`,
			`sched_conf:1: job_load_adjustments: complex "aa" does not exist`,
			`sched_conf:2: load_formula: complex "b" does not exist`,
		}},
		"values that a complex does not have": {map[string]string{
			"complexes":  complexes,
			"queues/a.q": "qname a.q\nload_thresholds mem_free=low\ncomplex_values l=-1,[n1=lic=INFINITY],[n2=lic=1,l=2]\n",
			"queues/b.q": "qname b.q\nload_thresholds gpu=1\ncomplex_values gpu=1(0)\n",
			"hosts/n1":   "hostname n1\ncomplex_values lic=x,gpu=2(0),h_vmem=-1,color=blue\n",
			"sched_conf": "load_formula color\n",
			"rqs":        "{\nname r\nlimit to lic=x,color=b*,gpu=2(0 1)\nlimit hosts {*} to slots=$color,color=$num_proc\n}\n",
		}, []string{
			`hosts/n1:2: complex_values: lic: "x" is not a value of the type INT, expected an integer`,
			`hosts/n1:2: complex_values: gpu: "2(0)" has 1 ids, expected 2`,
			`queues/a.q:2: load_thresholds: mem_free: "low" is not a value of the type MEMORY, expected a number of bytes with an optional letter of k K m M g G t T`,
			`queues/a.q:3: complex_values: l: "-1" is not possible for the consumable lic, expected a value that is not negative`,
			`queues/a.q:3: complex_values: lic: "INFINITY" is not possible for the consumable lic, expected a finite value`,
			`queues/a.q:3: complex_values: "lic" and "l" are the same complex`,
			`queues/b.q:2: load_thresholds: "gpu" has the type RSMAP, which only hosts have, in complex_values`,
			`queues/b.q:3: complex_values: "gpu" has the type RSMAP, which only hosts have, in complex_values`,
			`rqs:3: limit: "1)" is not a limit, expected name=value`,
			`rqs:3: limit: lic: "x" is not a value of the type INT, expected an integer`,
			`rqs:3: limit: gpu: "2(0" is not a number, expected one from 0 to 2147483647`,
			`rqs:4: limit: "color" has the type STRING, expected a number in a formula`,
			`rqs:4: limit: color: "color" has the type STRING, expected a number for a dynamic limit`,
			`sched_conf:1: load_formula: "color" has the type STRING, expected a number in a formula`,
		}},
		"limits that a complex does not have": {map[string]string{
			"complexes": complexes,
			"rqs":       "{\nname r\nlimit to lic=x,color=b*,gpu=2\nlimit hosts {*} to slots=$color,color=$num_proc\n}\n",
		}, []string{
			`rqs:3: limit: lic: "x" is not a value of the type INT, expected an integer`,
			`rqs:4: limit: "color" has the type STRING, expected a number in a formula`,
			`rqs:4: limit: color: "color" has the type STRING, expected a number for a dynamic limit`,
		}},
		"a broken file of complexes is one error": {map[string]string{
			"complexes": "lic l INT <= YES\n", "queues/a.q": "qname a.q\ncomplex_values lic=1\n",
		}, []string{
			"complexes:1: lic: has 5 columns, expected 8: name, shortcut, type, relop, requestable, consumable, default, urgency",
		}},
		"calendars, user sets and projects that do not exist": {map[string]string{
			"calendars/c":   "calendar_name c\n",
			"usersets/s":    "name s\n",
			"projects/p":    "name p\nacl s,t\nxacl arusers u\n",
			"users/alice":   "name alice\ndefault_project q\n",
			"queues/a.q":    "qname a.q\ncalendar c,[n1=d]\nuser_lists s,x\nxuser_lists deadlineusers,[n1=y]\nprojects p q\n",
			"pes/mpi":       "pe_name mpi\nuser_lists z\n",
			"hosts/n1":      "hostname n1\nxprojects r\n",
			"conf/global":   "user_lists w\nprojects p2\n",
			"hostgroups/@a": "group_name @a\nhostlist @b\n",
			"sharetree":     "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,2,3\nid=1\nname=p3\ntype=1\nshares=1\nchildnodes=NONE\nid=2\nname=bob\ntype=0\nshares=1\nchildnodes=NONE\nid=3\nname=default\ntype=0\nshares=1\nchildnodes=NONE\n",
		}, []string{
			`conf/global:1: user_lists: user set "w" does not exist`,
			`conf/global:2: projects: project "p2" does not exist`,
			`hostgroups/@a:2: hostlist: host group "@b" does not exist`,
			`hosts/n1:2: xprojects: project "r" does not exist`,
			`pes/mpi:2: user_lists: user set "z" does not exist`,
			`projects/p:2: acl: user set "t" does not exist`,
			`projects/p:3: xacl: user set "u" does not exist`,
			`queues/a.q:2: calendar: calendar "d" does not exist`,
			`queues/a.q:3: user_lists: user set "x" does not exist`,
			`queues/a.q:4: xuser_lists: user set "y" does not exist`,
			`queues/a.q:5: projects: project "q" does not exist`,
			`sharetree:7: name: project "p3" does not exist`,
			`sharetree:12: name: user "bob" does not exist`,
			`users/alice:2: default_project: project "q" does not exist`,
		}},
		"a user and a project of one name": {map[string]string{"users/x": "name x\n", "projects/x": "name x\n"}, []string{
			`users/x:1: name: there is a project "x", too, in "projects/x"`,
		}},
		"a host twice": {map[string]string{"hosts/N1": "hostname N1\n", "hosts/n1": "hostname n1\n"}, []string{
			`hosts/n1: is the same host as "hosts/N1"`,
		}},
		"a set of resource quotas twice": {map[string]string{"rqs": "{\nname a\nlimit to slots=1\n}\n{\nname a\nlimit to slots=1\n}"}, []string{
			`rqs:6: name: there is a set "a" already, in line 2`,
		}},
		"two sets in a file of a folder": {map[string]string{"rqs/a": "{\nname a\nlimit to slots=1\n}\n{\nname b\nlimit to slots=1\n}"}, []string{
			`rqs/a: holds 2 resource quota sets, expected one in each file of a folder`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := Load(directory(c.files), nil)
			refused(t, err, c.errs...)
			for _, e := range Errors(err) {
				if strings.HasSuffix(e.Problem, "does not exist") != errors.Is(e, ErrNotFound) {
					t.Errorf("%v: %v", e, e.Err)
				}
			}
		})
	}
}

func TestObjectsWithoutSubdirectoryAreMissing(t *testing.T) {
	c, err := Load(directory(map[string]string{
		"queues/a.q": "qname a.q\npe_list mpi\ncalendar c\nuser_lists arusers,s\ncomplex_values lic=1,slots=3\n",
		"sharetree":  "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1\nid=1\nname=a\ntype=0\nshares=1\nchildnodes=NONE\n",
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range c.Missing() {
		got = append(got, e.Error())
	}
	same(t, "missing", []string{
		`queues/a.q:2: pe_list: parallel environment "mpi" does not exist: there is no pes`,
		`queues/a.q:3: calendar: calendar "c" does not exist: there is no calendars`,
		`queues/a.q:4: user_lists: user set "s" does not exist: there is no usersets`,
		`queues/a.q:5: complex_values: complex "lic" does not exist: there is no complexes`,
		`sharetree:7: name: user "a" does not exist: there is no users`,
	}, got)
}

func TestTheCallerChecksCalendars(t *testing.T) {
	check := func(what string) func(string) error {
		return func(s string) error { return fmt.Errorf("%s %q is wrong", what, s) }
	}
	_, err := LoadWith(directory(map[string]string{
		"calendars/a": "calendar_name a\nyear 1.1.2030\nweek sun\n", "calendars/b": "calendar_name b\n", "queues/a.q": "qname a.q\ncalendar a",
	}), Options{Year: check("year"), Week: check("week")})
	refused(t, err, `calendars/a:2: year: year "1.1.2030" is wrong`, `calendars/a:3: week: week "sun" is wrong`)
}

func TestComplexesThatAreUsedCannotBeRemoved(t *testing.T) {
	c, err := Load(directory(map[string]string{
		"complexes": "lic l INT <= YES YES 0 0\n", "queues/a.q": "qname a.q\ncomplex_values slots=1,l=3\nhostlist n1\n", "hosts/n1": "hostname n1\ncomplex_values lic=1k\n",
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "full names", []Setting{{"slots", "1"}, {"lic", "3"}, {"x", "1"}}, c.Complexes().Canonical([]Setting{{"s", "1"}, {"l", "3"}, {"x", "1"}}))
	_, err = c.WithComplexes(DefaultComplexes())
	refused(t, err, `hosts/n1:2: complex_values: complex "lic" does not exist`, `queues/a.q:2: complex_values: complex "l" does not exist`)
	more, err := c.WithComplexes(static(ParseComplexes("", []byte("lic l DOUBLE <= YES YES 0 0\nx x INT <= YES NO 0 0\n"))))
	if err != nil {
		t.Fatal(err)
	}
	if x, ok := more.Complexes().Find("x"); !ok || x.Type != ComplexInt {
		t.Error("no x")
	}
	if _, ok := c.Complexes().Find("x"); ok {
		t.Error("the old cluster has changed")
	}
}

func TestUsersOfSeveralDepartments(t *testing.T) {
	c, err := Load(directory(map[string]string{
		"usersets/a": "name a\ntype DEPT\nentries alice,@staff\n", "usersets/b": "name b\ntype ACL\nentries alice\n", "usersets/c": "name c\ntype DEPT ACL\nentries bob,@staff\n",
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 1 || w[0].Error() != `usersets/c:3: entries: "@staff" is in the department a already, expected to be in one only` {
		t.Error(w)
	}
}
