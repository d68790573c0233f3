package command

import (
	"fmt"
	"strings"
	"testing"
)

// clusterOf returns a world with so many hosts, each with a value of its own of license.
func clusterOf(t *testing.T, hosts int) *world {
	names := make([]string, hosts)
	pairs := []string{"complexes", "license lic INT <= YES YES 0 0\nhostname h HOST == YES NO NONE 0\n", "hosts/global", "hostname global\n"}
	for i := range names {
		names[i] = fmt.Sprintf("h%d.example.org", i)
		pairs = append(pairs, "hosts/"+names[i], fmt.Sprintf("hostname %s\ncomplex_values license=%d\n", names[i], i))
	}
	pairs = append(pairs, "queues/all.q", "qname all.q\nhostlist "+strings.Join(names, " ")+"\nslots 1\nload_thresholds NONE\n")
	return newWorld(t, pairs...)
}

// TestHostsByResources checks that the resources of hosts are computed once, and not once for each
// host.
func TestHostsByResources(t *testing.T) {
	cost := func(hosts int) float64 {
		w := clusterOf(t, hosts)
		if r := w.run("alice", "qhost", "-l", "license=1"); r.Exit != 0 {
			t.Fatalf("%+v", r)
		}
		return testing.AllocsPerRun(1, func() { w.run("alice", "qhost", "-l", "license=1") })
	}
	few, many := cost(25), cost(200)
	if many > 16*few {
		t.Errorf("%.0f allocations for 25 hosts, %.0f for 200", few, many)
	}
	w := clusterOf(t, 4)
	for args, want := range map[string]string{
		"":             "global h0.example.org h1.example.org h2.example.org h3.example.org",
		"-l license=2": "h2.example.org h3.example.org",
		"-l license=2 -h h2.example.org,h1.example.org": "h2.example.org",
		"-l license=5": "",
	} {
		r := w.run("alice", "qhost", strings.Fields(args)...)
		var got []string
		for l := range strings.SplitSeq(r.Stdout, "\n") {
			if name, _, _ := strings.Cut(l, " "); name == "global" || strings.Contains(strings.ToLower(name), ".example.org") {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("qhost %s: %q, want %q\n%s%s", args, got, want, r.Stdout, r.Stderr)
		}
	}
}
