package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/value"
)

// shown are the resources of some names, as "layer kind : name = value".
func shown(m *scheduler.Model, list []scheduler.Resource, names string) string {
	var parts []string
	for _, r := range list {
		name := m.Attributes()[r.Attribute].Name
		if strings.Contains(" "+names+" ", " "+name+" ") {
			parts = append(parts, fmt.Sprintf("%c%c:%s=%s", r.Layer, r.Kind, name, r.Value.Format(value.Reason)))
		}
	}
	return strings.Join(parts, " ")
}

// TestObservation checks which of several values of an attribute is shown.
func TestObservation(t *testing.T) {
	for _, c := range []struct {
		name string
		scene
		attributes  string
		queue, host string // what a.q@n1 and n1 have
	}{
		{
			name: "load below what is configured", scene: scene{files: hostFile("complex_values cap=4\n"), load: map[string]map[string]string{"n1": {"cap": "2"}}},
			attributes: "cap", queue: "hl:cap=2.000000", host: "hl:cap=2.000000",
		},
		{
			name: "load above what is configured", scene: scene{files: hostFile("complex_values cap=8\n"), load: map[string]map[string]string{"n1": {"cap": "100"}}},
			attributes: "cap", queue: "hf:cap=8.000000", host: "hf:cap=8.000000",
		},
		{
			name: "as much", scene: scene{files: hostFile("complex_values cap=8\n"), load: map[string]map[string]string{"n1": {"cap": "8"}}},
			attributes: "cap", queue: "hf:cap=8.000000", host: "hf:cap=8.000000",
		},
		{
			name: "a text that is configured", scene: scene{files: hostFile("complex_values os=k80\n"), load: map[string]map[string]string{"n1": {"os": "v100"}}},
			attributes: "os", queue: "hf:os=k80", host: "hf:os=k80",
		},
		{name: "a text that is reported", scene: scene{load: map[string]map[string]string{"n1": {"os": "v100"}}}, attributes: "os", queue: "hl:os=v100", host: "hl:os=v100"},
		{
			name: "the larger of >=", scene: scene{files: globalFile("complex_values hot=10\n"), load: map[string]map[string]string{"n1": {"hot": "30"}}},
			attributes: "hot", queue: "hl:hot=30.000000", host: "hl:hot=30.000000",
		},
		{
			name: "the global one is larger", scene: scene{files: globalFile("complex_values hot=10\n"), load: map[string]map[string]string{"n1": {"hot": "5"}}},
			attributes: "hot", queue: "gf:hot=10.000000", host: "gf:hot=10.000000",
		},
		{
			name: "the global text counts", scene: scene{files: merged(globalFile("complex_values os=a\n"), hostFile("complex_values os=b\n"))},
			attributes: "os", queue: "gf:os=a", host: "gf:os=a",
		},
		{
			name: "the queue restricts", scene: scene{files: merged(hostFile("complex_values lic=8\n"), queueFile("complex_values lic=2\n")), before: []scheduler.Requests{hard("lic", "1")}},
			attributes: "lic", queue: "qc:lic=1.000000", host: "hc:lic=7.000000",
		},
		{
			name: "the host restricts", scene: scene{files: merged(hostFile("complex_values lic=2\n"), queueFile("complex_values lic=8\n")), before: []scheduler.Requests{hard("lic", "1")}},
			attributes: "lic", queue: "hc:lic=1.000000", host: "hc:lic=1.000000",
		},
		{
			name: "a consumable that others use", scene: scene{files: hostFile("complex_values mem=20G\n"), load: map[string]map[string]string{"n1": {"mem": "10G"}}},
			attributes: "mem", queue: "hc:mem=10.000G", host: "hl:mem=10.000G",
		},
		{name: "built in", scene: scene{files: queueFile("h_rt 100\n")}, attributes: "h_rt slots qname hostname", queue: "qf:h_rt=00:01:40 qf:hostname=n1 qf:qname=a.q qc:slots=2.000000"},
		{
			name: "scaled", scene: scene{files: hostFile("load_scaling hot=2\n"), load: map[string]map[string]string{"n1": {"hot": "0.3"}}},
			attributes: "hot", queue: "hl:hot=0.600000", host: "hl:hot=0.300000",
		},
		{
			name: "not what is expected of jobs that have just started", scene: scene{
				files: map[string]string{"sched_conf": "job_load_adjustments hot=1\nload_adjustment_decay_time 200\n"},
				load:  map[string]map[string]string{"n1": {"hot": "1"}}, before: []scheduler.Requests{{Queues: onN1}},
			},
			attributes: "hot", queue: "hl:hot=1.000000", host: "hl:hot=1.000000",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.make(t)
			m := s.Model()
			o := s.Observe(1000)
			id, _ := m.Instance("a.q", "n1")
			h, _ := m.Host("n1")
			if got := shown(m, o.Instance(id), c.attributes); got != c.queue {
				t.Errorf("the queue shows %s, want %s", got, c.queue)
			}
			if got := shown(m, o.Host(h), c.attributes); got != c.host {
				t.Errorf("the host shows %s, want %s", got, c.host)
			}
		})
	}
}

// TestObservedLoad checks the value that a host reports, before it is scaled.
func TestObservedLoad(t *testing.T) {
	s := scene{files: hostFile("load_scaling hot=2\n"), load: map[string]map[string]string{"n1": {"hot": "0.3"}}}.make(t)
	m := s.Model()
	hot, _ := m.Attribute("hot")
	n1, _ := m.Host("n1")
	n2, _ := m.Host("n2")
	if v, ok := s.Observe(1000).Load(n1, hot); !ok || v.Number() != 0.3 {
		t.Errorf("%v, %t", v, ok)
	}
	if _, ok := s.Observe(1000).Load(n2, hot); ok {
		t.Error("the other host reports nothing")
	}
	if err := s.SetLoad("n1", nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Observe(1000).Load(n1, hot); ok {
		t.Error("it is reported no more")
	}
}

// TestAlarmByReportedAndScaledLoad checks the state letter if a load crosses a threshold as
// reported but not as scaled by load_scaling, and the other way round.
func TestAlarmByReportedAndScaledLoad(t *testing.T) {
	for _, c := range []struct {
		name, scaling, load string
		alarmed             bool
		crossings           int
	}{
		{name: "neither", scaling: "hot=2", load: "0.7"},
		{name: "as it is scaled", scaling: "hot=2", load: "0.8", alarmed: true, crossings: 1},
		{name: "as it is reported", scaling: "hot=0.5", load: "1.9", alarmed: true},
		{name: "both", scaling: "hot=0.5", load: "3", alarmed: true, crossings: 1},
		{name: "another attribute is scaled", scaling: "np_load_avg=0.5", load: "1.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{
				files: merged(queueFile("load_thresholds hot=1.5\nsuspend_thresholds hot=1.5\n"), hostFile("load_scaling "+c.scaling+"\n")),
				load:  map[string]map[string]string{"n1": {"hot": c.load}, "n2": {"hot": "0"}},
			}.make(t)
			id, _ := s.Model().Instance("a.q", "n1")
			o := s.Observe(1000)
			if load, suspend := o.Alarmed(id); load != c.alarmed || suspend != c.alarmed {
				t.Errorf("load alarm %t, suspend alarm %t, want both %t", load, suspend, c.alarmed)
			}
			if load, suspend := o.Crossed(id); len(load) != c.crossings || len(suspend) != c.crossings {
				t.Errorf("crossed are %v and %v, want %d of each", load, suspend, c.crossings)
			}
		})
	}
}

// TestOrderOfModification checks that Instances lists last the instances that were changed last.
func TestOrderOfModification(t *testing.T) {
	s := scene{files: map[string]string{"queues/b.q": "qname b.q\nhostlist n1 n2\nslots 2\n"}}.make(t)
	m := s.Model()
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, id := range s.Observe(1000).Instances() {
			got = append(got, m.InstanceName(id))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	id := func(q, h string) scheduler.InstanceID {
		i, ok := m.Instance(q, h)
		if !ok {
			t.Fatal(q, h)
		}
		return i
	}
	check("a.q@n1", "a.q@n2", "b.q@n1", "b.q@n2")
	s.SetStatus(id("a.q", "n1"), scheduler.DisabledByUser)
	check("a.q@n2", "b.q@n1", "b.q@n2", "a.q@n1")
	s.SetStatus(id("a.q", "n2"), 0) // as it was
	check("a.q@n2", "b.q@n1", "b.q@n2", "a.q@n1")
	if err := s.SetLoad("n2", nil); err != nil {
		t.Fatal(err)
	}
	check("b.q@n1", "a.q@n1", "a.q@n2", "b.q@n2")
	r := &scheduler.Running{Job: serialJob(t, m, 1, &scheduler.Requests{}), PE: scheduler.None, Grants: []scheduler.Grant{{Instance: id("b.q", "n1"), Slots: 1}}}
	if err := s.Start(r); err != nil {
		t.Fatal(err)
	}
	check("a.q@n1", "a.q@n2", "b.q@n2", "b.q@n1")
	s.SetStatus(id("b.q", "n2"), scheduler.Unknown)
	if err := s.End(r); err != nil {
		t.Fatal(err)
	}
	check("a.q@n1", "a.q@n2", "b.q@n2", "b.q@n1")
	if err := s.End(r); err == nil {
		t.Error("a task ends twice")
	}
}
