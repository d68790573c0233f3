package topology

import (
	"strings"
	"testing"
)

// TestMarkedThreads checks that threads that were written in lower case are found again on every
// machine.
func TestMarkedThreads(t *testing.T) {
	for _, m := range machines(t) {
		top, err := Read(m.read, m.allowed)
		if err != nil {
			t.Fatal(err)
		}
		tree := withoutSizes(top.Tree(m.read))
		var threads []int // in the order of the tree
		for _, p := range top.Pairs() {
			core, _ := top.Core(p)
			threads = append(threads, core.CPUs.Slice()...)
		}
		if n := strings.Count(tree, "T"); n != len(threads) {
			t.Fatalf("%s: %s has %d threads, want %d", m.name, tree, n, len(threads))
		}
		for at := range threads {
			marked, n := []byte(tree), 0
			for i, c := range marked {
				if c == letterThread {
					if n == at || n == len(threads)/2 {
						marked[i] = 't'
					}
					n++
				}
			}
			want := Of(threads[at], threads[len(threads)/2])
			if got, err := top.Marked(string(marked)); err != nil || !got.Equal(want) {
				t.Errorf("%s: %s reads as %s, %v, want %s", m.name, marked, got, err, want)
			}
		}
	}
}

// withoutSizes returns a tree in the format in which schedulers return it.
func withoutSizes(tree string) string {
	var b strings.Builder
	for tree != "" {
		before, rest, _ := strings.Cut(tree, "[")
		_, tree, _ = strings.Cut(rest, "]")
		b.WriteString(before)
	}
	return b.String()
}

func TestMarked(t *testing.T) {
	top := Topology{Sockets: []Socket{
		{Cores: []Core{{CPUs: Of(0, 4), Node: -1}, {CPUs: Of(1, 5), Node: -1}}}, {Cores: []Core{{CPUs: Of(2), Node: -1}, {CPUs: Of(3), Node: -1}}},
	}}
	const first, second = "(S(c(t)(t))(C(T)(t)))(S(C(T))(C(T)))", "(S(C(T)(T))(C(T)(T)))(s(c(t))(c(t)))"
	for _, c := range []struct {
		trees       []string
		want, shape string
	}{
		{[]string{first}, "0,4-5", "ScttCTtSCC"},
		{[]string{second}, "2-3", "SCTTCTTscc"},
		{[]string{first, second}, "0,2-5", "ScttCTtscc"},
		{nil, "", "SCTTCTTSCC"},
	} {
		got, err := top.Marked(c.trees...)
		if err != nil || got.String() != c.want {
			t.Errorf("%q reads as %q, %v, want %q", c.trees, got, err, c.want)
		}
		if shape := top.MarkedShape(got); shape != c.shape {
			t.Errorf("the topology with %q is %q, want %q", got, shape, c.shape)
		}
	}
	for tree, want := range map[string]string{
		"(S(C(T))(C(T)))":              "has 2 threads, and this host has 6",
		"":                             "has 0 threads",
		"(S[size=3](C(T)))":            `"[" at character 3`,
		"(":                            "has 0 threads",
		strings.Repeat("T", maxTree+1): "characters",
	} {
		if got, err := top.Marked(tree); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q reads as %s, %v, want an error with %q", tree, got, err, want)
		}
	}
}

func FuzzMarked(f *testing.F) {
	f.Add("(S(c(t)(t))(C(T)(T)))")
	f.Add("(N(S(X(y(c(t)))(Y(C(T))))))")
	top := Topology{Sockets: []Socket{{Cores: []Core{{CPUs: Of(0, 2)}, {CPUs: Of(1, 3)}}}}}
	f.Fuzz(func(t *testing.T, tree string) {
		if cpus, err := top.Marked(tree); err == nil && !cpus.SubsetOf(top.Usable()) {
			t.Errorf("%q reads as %s", tree, cpus)
		}
	})
}
