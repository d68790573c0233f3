package loadsensor

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/loadsensor/builtin"
	"github.com/execd-project/execd/loadsensor/protocol"
)

func valuesOf(texts map[Key]string) map[Key]Value {
	m := map[Key]Value{}
	for k, text := range texts {
		m[k] = Value{Key: k, Text: text}
	}
	return m
}

// TestLostReportsAreSentAgain checks, with any loss of reports and acknowledgements, that a reader
// who applies each report that arrives has the values that the host had when it made the report.
func TestLostReportsAreSentAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b book
		master := map[Key]string{}
		key := rapid.Custom(func(t *rapid.T) Key {
			return Key{rapid.SampledFrom([]string{"n1", "global"}).Draw(t, "host"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
		})
		for range rapid.IntRange(1, 20).Draw(t, "reports") {
			host := rapid.MapOf(key, rapid.SampledFrom([]string{"1", "2"})).Draw(t, "values")
			if rapid.Bool().Draw(t, "forget") {
				b.forget()
			}
			r := b.report("n1", time.Time{}, valuesOf(host))
			if rapid.Bool().Draw(t, "lost") {
				continue
			}
			if r.Full {
				clear(master)
			}
			for _, v := range r.Values {
				master[v.Key] = v.Text
			}
			for _, k := range r.Removed {
				delete(master, k)
			}
			if !maps.Equal(master, host) {
				t.Fatalf("the master has %v, the host %v", master, host)
			}
			if rapid.Bool().Draw(t, "acknowledged") {
				b.ack(r.Number)
			}
			b.ack(rapid.Uint64Range(0, r.Number-1).Draw(t, "late"))
		}
	})
}

func TestReportHasChangedValuesOnly(t *testing.T) {
	var b book
	a, g := Key{"n1", "a"}, Key{"global", "g"}
	show := func(r Report) string {
		s := fmt.Sprintf("%d full %v:", r.Number, r.Full)
		for _, v := range r.Values {
			s += " " + v.Host + ":" + v.Name + "=" + v.Text
		}
		return s + fmt.Sprint(" removed ", r.Removed)
	}
	for i, step := range []struct {
		values map[Key]string
		want   string
		ack    uint64
		forget bool
	}{
		{map[Key]string{a: "1", g: "1"}, "1 full true: global:g=1 n1:a=1 removed []", 0, false},
		{map[Key]string{a: "1", g: "1"}, "2 full true: global:g=1 n1:a=1 removed []", 1, false}, // too late for 1
		{map[Key]string{a: "1", g: "1"}, "3 full true: global:g=1 n1:a=1 removed []", 3, false},
		{map[Key]string{a: "1", g: "1"}, "4 full false: removed []", 0, false},
		{map[Key]string{a: "2", g: "1"}, "5 full false: n1:a=2 removed []", 0, false},
		{map[Key]string{a: "2"}, "6 full false: n1:a=2 removed [{global g}]", 6, false},
		{map[Key]string{a: "2"}, "7 full false: removed []", 7, true},
		{map[Key]string{a: "2"}, "8 full true: n1:a=2 removed []", 0, false},
		{map[Key]string{a: "2"}, "9 full true: n1:a=2 removed []", 9, false},
		{map[Key]string{a: "2", g: "1"}, "10 full false: global:g=1 removed []", 0, false},
		// 10 may have arrived or not.
		{map[Key]string{a: "2"}, "11 full false: removed [{global g}]", 11, false},
		{map[Key]string{a: "2"}, "12 full false: removed []", 12, false},
	} {
		if got := show(b.report("n1", time.Time{}, valuesOf(step.values))); got != step.want {
			t.Errorf("step %d: %s\nwant %s", i+1, got, step.want)
		}
		b.ack(step.ack)
		if step.forget {
			b.forget()
		}
	}
}

func TestMerge(t *testing.T) {
	at := time.Unix(5, 0)
	for name, tt := range map[string]struct {
		sensors [][]protocol.Value
		want    map[string]string
		missing int
		over    int
	}{
		"nothing else": {nil, map[string]string{}, 0, 0},
		"other hosts, the cluster, and our own name": {
			[][]protocol.Value{{{Host: "N1", Name: "x", Text: "1"}, {Host: "n2", Name: "x", Text: "2"}, {Host: "global", Name: "x", Text: "3"}}},
			map[string]string{"n1:x": "1", "n2:x": "2", "global:x": "3"},
			0, 0,
		},
		"the last sensor counts": {
			[][]protocol.Value{{{Host: "n1", Name: "x", Text: "1"}}, {{Host: "n1", Name: "x", Text: "2"}}},
			map[string]string{"n1:x": "2"},
			0, 1,
		},
		"what is built in can be replaced": {
			[][]protocol.Value{{{Host: "n1", Name: "arch", Text: "lx-mine"}}},
			map[string]string{"n1:arch": "lx-mine"},
			0, 1,
		},
		"load per processor follows the load": {
			[][]protocol.Value{{{Host: "n1", Name: "load_avg", Text: "6"}}},
			map[string]string{"n1:load_avg": "6", "n1:np_load_avg": "1.500000"},
			0, 1,
		},
		"and the number of processors": {
			[][]protocol.Value{{{Host: "n1", Name: "num_proc", Text: "2"}}},
			map[string]string{"n1:num_proc": "2", "n1:np_load_avg": "1.000000"},
			0, 1,
		},
		"unless the sensor gives it, too": {
			[][]protocol.Value{{{Host: "n1", Name: "load_avg", Text: "6"}, {Host: "n1", Name: "np_load_avg", Text: "9"}}},
			map[string]string{"n1:load_avg": "6", "n1:np_load_avg": "9"},
			0, 2,
		},
		"a load that is not a number": {
			[][]protocol.Value{{{Host: "n1", Name: "load_avg", Text: "high"}}},
			map[string]string{"n1:load_avg": "high", "n1:np_load_avg": ""},
			1, 1,
		},
		"no processors": {
			[][]protocol.Value{{{Host: "n1", Name: "num_proc", Text: "0"}}},
			map[string]string{"n1:num_proc": "0", "n1:np_load_avg": ""},
			1, 1,
		},
		"the load of another host is not ours": {
			[][]protocol.Value{{{Host: "n2", Name: "load_avg", Text: "6"}}},
			map[string]string{"n2:load_avg": "6"},
			0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := collection{host: "n1", sameHost: func(a, b string) bool { return a == b || a == "N1" }, values: map[Key]Value{}}
			c.addBuiltin([]builtin.Value{{Name: "arch", Text: "lx-amd64", Static: true}, {Name: "num_proc", Text: "4", Static: true}, {Name: "load_avg", Text: "2.000000"}, {Name: "np_load_avg", Text: "0.500000"}}, nil, at)
			for i, values := range tt.sensors {
				c.addSensor(fmt.Sprint("/s", i), values, at)
			}
			c.derive()
			want := map[string]string{"n1:arch": "lx-amd64", "n1:num_proc": "4", "n1:load_avg": "2.000000", "n1:np_load_avg": "0.500000"}
			for k, v := range tt.want {
				want[k] = v
				if v == "" {
					delete(want, k)
				}
			}
			got := map[string]string{}
			for _, v := range sorted(c.values) {
				got[v.Host+":"+v.Name] = v.Text
				if (v.Name == "arch" || v.Name == "num_proc") && !v.Static {
					t.Errorf("%s is not static any more", v.Name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(c.missing) != tt.missing || len(c.overridden) != tt.over {
				t.Errorf("missing %v, overridden %v", c.missing, c.overridden)
			}
		})
	}
}
