package topology

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestShapes(t *testing.T) {
	for sentence, c := range map[string]struct{ text, print, inUse string }{
		"cores without threads":           {"SCC", "SCC", ""},
		"cores with threads":              {"SCTTCTT", "SCTTCTT", ""},
		"one core in use":                 {"SCTTctt", "SCTTctt", "0,1"},
		"a core is in use by its threads": {"SCTtCTT", "ScttCTT", "0,0"},
		"the case of a socket is nothing": {"sCCscc", "SCCScc", "1,0:1,1"},
		"a socket without cores":          {"SSC", "SSC", ""},
		"cores differ":                    {"SCTTC", "SCTTC", ""},
		"unknown":                         {"NONE", "NONE", ""},
		"nothing":                         {"", "NONE", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			sh, err := ParseShape(c.text)
			if err != nil || sh.String() != c.print || FormatPairs(sh.InUse()) != c.inUse {
				t.Errorf("reads as %s with %v in use, %v", sh, sh.InUse(), err)
			}
		})
	}
	for _, text := range []string{"C", "TT", "SCT", "STT", "SCX", "S C", "none", "SC\n", strings.Repeat("S", 1<<20)} {
		if sh, err := ParseShape(text); err == nil || !strings.HasPrefix(err.Error(), "cannot read topology") {
			t.Errorf("%.20q reads as %s, %v", text, sh, err)
		}
	}
}

func TestShapeKnowsItsHost(t *testing.T) {
	a, _ := ParseShape("SCTTctt")
	b, _ := ParseShape("SCTTCTT")
	c, _ := ParseShape("SCCTT")
	if !a.SameHost(b) || a.SameHost(c) || a.With(nil).String() != "SCTTCTT" || a.String() != "SCTTctt" {
		t.Error("case counts, or letters do not")
	}
}

func TestPairs(t *testing.T) {
	for text, want := range map[string][]Pair{"": nil, "0,1": {{0, 1}}, "1,0:0,12": {{1, 0}, {0, 12}}} {
		if got, err := ParsePairs(text); err != nil || !slices.Equal(got, want) || FormatPairs(got) != text {
			t.Errorf("%q reads as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{":", "0", "0,", ",0", "0,0:", "-1,0", "0,+1", "0,0,0", "a,b", "0, 1"} {
		if got, err := ParsePairs(text); err == nil {
			t.Errorf("%q reads as %v", text, got)
		}
	}
	if !slices.IsSortedFunc([]Pair{{0, 0}, {0, 2}, {1, 0}}, Pair.Compare) || (Pair{1, 0}).Compare(Pair{0, 9}) <= 0 {
		t.Error("pairs have the wrong order")
	}
}

func TestShapeParsesWhatItPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sh Shape
		for range rapid.IntRange(0, 4).Draw(t, "sockets") {
			var socket []CoreShape
			for range rapid.IntRange(0, 5).Draw(t, "cores") {
				socket = append(socket, CoreShape{rapid.IntRange(1, 4).Draw(t, "threads"), rapid.Bool().Draw(t, "in use")})
			}
			sh = append(sh, socket)
		}
		got, err := ParseShape(sh.String())
		if err != nil || !slices.EqualFunc(got, sh, slices.Equal[[]CoreShape]) {
			t.Fatalf("%s reads as %s, %v", sh, got, err)
		}
	})
}

func FuzzParseShape(f *testing.F) {
	for _, s := range []string{"SCC", "SCTTctt", "NONE", "ss", "SCt"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sh, err := ParseShape(text)
		if err != nil {
			return
		}
		if again, err := ParseShape(sh.String()); err != nil || again.String() != sh.String() {
			t.Errorf("%q prints as %s, which reads as %s, %v", text, sh, again, err)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("0-1", "0", "0", "0-1", "0", "0,4")
	f.Add("0-3", "-1", "4294967295", "1", "0-3", "")
	f.Fuzz(func(t *testing.T, online, pkg, core, siblings, node, allowed string) {
		files := map[string]string{cpuDir + "online": online, nodeDir + "online": node, nodeDir + "node0/cpulist": siblings}
		for _, id := range []string{"0", "1", "3"} {
			dir := cpuDir + "cpu" + id + "/topology/"
			files[dir+"physical_package_id"], files[dir+"core_id"], files[dir+"core_cpus_list"] = pkg, core, siblings
		}
		cpus, err := ParseList(allowed)
		if err != nil {
			return
		}
		m := machine{files: files, allowed: Allowed{CPUs: cpus}}
		top, err := Read(m.read, m.allowed)
		if err == nil {
			for _, p := range top.Pairs() {
				if c, _ := top.Core(p); c.CPUs.IsEmpty() {
					t.Errorf("core %v is empty", p)
				}
			}
			if cpus, err := top.Marked(top.Tree(m.read)); err != nil || !cpus.IsEmpty() {
				t.Errorf("%s reads as %s, %v", top.Tree(m.read), cpus, err)
			}
		}
	})
}
