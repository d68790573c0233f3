package scheduler_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// TestInconsistentConfigurations loads configurations whose files are valid one by one, but
// contradict each other: without a file of complexes, references to complexes are not checked
// earlier. The unaffected parts are scheduled, and the problem is reported.
func TestInconsistentConfigurations(t *testing.T) {
	for _, c := range []struct {
		name     string
		files    map[string]string
		problems []string
		want     string // where jobs start
	}{
		{name: "none", want: "a.q@n1 a.q@n2"},
		{
			name: "load formula", files: map[string]string{"sched_conf": "load_formula nosuch\n"},
			problems: []string{`load_formula: there is no complex "nosuch"`}, want: "a.q@n1 a.q@n2",
		},
		{name: "load adjustments", files: map[string]string{"sched_conf": "job_load_adjustments nosuch=1,arch=2\n"}, want: "a.q@n1 a.q@n2"},
		{
			name: "quota", files: map[string]string{"rqs": "{\n name q\n enabled TRUE\n limit to nosuch=1,slots=1\n}\n"},
			problems: []string{`rqs:4: limit: cannot limit "nosuch": there is no such complex`}, want: "a.q@n1",
		},
		{
			name: "complex values of a host", files: map[string]string{"hosts/n1": "hostname n1\ncomplex_values nosuch=1\n"},
			problems: []string{`host n1: complex_values: there is no complex "nosuch"`}, want: "a.q@n1 a.q@n2",
		},
		{
			name: "complex values of a queue", files: queueFile("slots 1\ncomplex_values NONE,[n1=nosuch=1]\n"),
			problems: []string{`queue a.q@n1: complex_values: there is no complex "nosuch"`}, want: "a.q@n1 a.q@n2",
		},
		{name: "load threshold", files: queueFile("slots 2\nload_thresholds NONE,[n1=nosuch=1]\n"), want: "a.q@n2 a.q@n2"},
		{name: "user lists", files: queueFile("slots 2\nuser_lists NONE,[n1=nosuch]\nxuser_lists nosuch\n"), want: "a.q@n2 a.q@n2"},
		{name: "projects", files: queueFile("slots 2\nprojects NONE,[n1=nosuch]\n"), want: "a.q@n2 a.q@n2"},
		{name: "environments and calendars", files: queueFile("slots 1\npe_list nosuch\nckpt_list nosuch\ncalendar nosuch\n"), want: "a.q@n1 a.q@n2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range merged(map[string]string{"hosts/n1": "hostname n1\n", "hosts/n2": "hostname n2\n"}, queueFile("slots 1\n"), c.files) {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			cluster, err := qconf.Load(files, nil)
			if err != nil {
				t.Fatal(err)
			}
			m, problems := scheduler.NewModel(cluster, scheduler.Options{})
			var got []string
			for _, p := range problems {
				got = append(got, p.Error())
			}
			if diff := cmp.Diff(c.problems, got); diff != "" {
				t.Error(diff)
			}
			s := scheduler.NewState(m)
			for id := range uint32(2) {
				submit(t, s, serialJob(t, m, id+1, &scheduler.Requests{}))
			}
			var places []string
			d := s.Run(1000)
			for i := range d.Starts {
				places = append(places, m.InstanceName(d.Starts[i].Grants[0].Instance))
			}
			if text := strings.Join(places, " "); text != c.want {
				t.Errorf("jobs start in %s, want %s", text, c.want)
			}
		})
	}
}

// TestAmbiguousInstance sets up a host for which two groups have a setting: its instance is not used,
// and all others are.
func TestAmbiguousInstance(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"hostgroups/@first": "group_name @first\nhostlist n1\n", "hostgroups/@both": "group_name @both\nhostlist n1\n",
		"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 1,[@first=2],[@both=3]\nload_thresholds NONE\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	cluster, err := qconf.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := scheduler.NewModel(cluster, scheduler.Options{})
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "queue instance a.q@n1 is not used") {
		t.Errorf("problems %q", problems)
	}
	s := scheduler.NewState(m)
	one, _ := m.Instance("a.q", "n1")
	two, _ := m.Instance("a.q", "n2")
	if m.Ambiguous(one) == nil || m.Ambiguous(two) != nil {
		t.Errorf("ambiguous: %v, %v", m.Ambiguous(one), m.Ambiguous(two))
	}
	for id := range uint32(2) {
		submit(t, s, serialJob(t, m, id+1, &scheduler.Requests{}))
	}
	d := s.Run(1000)
	if len(d.Starts) != 1 || d.Starts[0].Grants[0].Instance != two {
		t.Errorf("starts %+v", d.Starts)
	}
	if diff := cmp.Diff([]string{
		`queue instance "a.q@n1" dropped because it is temporarily not available`, `queue instance "a.q@n2" dropped because it is full`,
		"All queues dropped because of overload or full",
	}, texts(d.Dropped)); diff != "" {
		t.Error(diff)
	}
}

// TestWrongLoadValues reports load values that do not have the type of their attribute.
func TestWrongLoadValues(t *testing.T) {
	s := scene{}.make(t)
	m := s.Model()
	if err := s.SetLoad("n1", map[string]string{"hot": "x", "cap": "2", "flag": "perhaps", "nosuch": "1"}); err != nil {
		t.Fatal(err)
	}
	n1, _ := m.Host("n1")
	var got []string
	for _, p := range s.Problems(n1) {
		got = append(got, p.Error())
	}
	if len(got) != 2 || !strings.Contains(got[0], "load value flag of host n1") || !strings.Contains(got[1], "load value hot of host n1") {
		t.Errorf("problems %q", got)
	}
	if text := shown(m, s.Observe(1000).Host(n1), "hot cap flag"); text != "hl:cap=2.000000" {
		t.Errorf("the host has %s", text)
	}
	if err := s.SetLoad("n1", map[string]string{"hot": "1"}); err != nil {
		t.Fatal(err)
	}
	if p := s.Problems(n1); len(p) > 0 {
		t.Errorf("problems of an earlier report: %v", p)
	}
	if err := s.SetLoad("nosuch", nil); err == nil {
		t.Error("a report of a host that there is not")
	}
}

// TestComplexesWithoutSlots loads complexes without the attributes that every queue has. Slots are
// counted all the same.
func TestComplexesWithoutSlots(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range merged(map[string]string{
		"complexes": "mem mem MEMORY <= YES YES 0 0\n", "hosts/n1": "hostname n1\ncomplex_values mem=4G\n",
		"sched_conf": "load_formula mem\njob_load_adjustments NONE\n",
	}, queueFile("slots 1\n")) {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	cluster, err := qconf.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := scheduler.NewModel(cluster, scheduler.Options{})
	s := scheduler.NewState(m)
	for id := range uint32(9) {
		submit(t, s, serialJob(t, m, id+1, &scheduler.Requests{}))
	}
	if d := s.Run(1000); len(d.Starts) != 2 {
		t.Errorf("%d tasks start in two slots, problems %v", len(d.Starts), problems)
	}
}
