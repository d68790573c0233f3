package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent"
)

// queries returns the queries of the alert rules and of the dashboard in examples/monitoring.
func queries(t *testing.T) (list []string) {
	t.Helper()
	rules, err := os.ReadFile("../../examples/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(string(rules), -1) {
		list = append(list, m[1])
	}
	if n := strings.Count(string(rules), "- alert:"); n != len(list) || n == 0 {
		t.Errorf("%d alerts with %d queries", n, len(list))
	}
	text, err := os.ReadFile("../../examples/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Templating struct{ List []struct{ Query string } }
		Panels     []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, q := range p.Targets {
			list = append(list, q.Expr)
		}
	}
	return append(list, dashboard.Templating.List[1].Query)
}

// TestMonitoring checks that each query of the dashboard and of the alert rules uses metrics that a
// daemon exposes, with the labels that they have. Prometheus adds job and instance.
func TestMonitoring(t *testing.T) {
	m := New(Options{Agent: busy(), Sensors: sensors, Audit: func() (uint64, uint64) { return 0, 0 }})
	m.Started()
	m.Refused(agent.Unavailable)
	m.Ended(0, 1)
	m.MailFailed()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{"up": {"job", "instance"}}
	for _, f := range families {
		names := []string{"job", "instance"}
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		labels[f.GetName()] = names
	}
	metric := regexp.MustCompile(`\b(up|execd_[a-z_]+)\b(\{[^}]*\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"`)
	grouping := regexp.MustCompile(`by \(([a-z_, ]*)\)`)
	for _, q := range queries(t) {
		used := metric.FindAllStringSubmatch(q, -1)
		if len(used) == 0 {
			t.Errorf("%s: it has no metric", q)
		}
		for _, u := range used {
			known, ok := labels[u[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", q, u[1])
				continue
			}
			for _, l := range matcher.FindAllStringSubmatch(u[2], -1) {
				if !slices.Contains(known, l[1]) {
					t.Errorf("%s: %s has no label %s", q, u[1], l[1])
				}
			}
			for _, g := range grouping.FindAllStringSubmatch(q, -1) {
				for name := range strings.SplitSeq(g[1], ",") {
					if name = strings.TrimSpace(name); !slices.Contains(known, name) {
						t.Errorf("%s: %s has no label %s", q, u[1], name)
					}
				}
			}
		}
	}
}
