package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/internal/testenv"
)

const (
	alertsFile    = "../../examples/monitoring/alerts.yaml"
	dashboardFile = "../../examples/monitoring/dashboard.json"
)

// query is a query of examples/monitoring, and the labels that its texts show of the answer.
type query struct {
	expression string
	shown      []string
}

// queries returns the queries of the alert rules and of the dashboard in examples/monitoring.
func queries(t *testing.T) (list []query) {
	t.Helper()
	rules, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	alerts := strings.Split(string(rules), "- alert:")[1:]
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
	for _, a := range alerts {
		m := regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindStringSubmatch(a)
		if m == nil {
			t.Errorf("an alert has no query: %s", a)
			continue
		}
		q := query{expression: m[1]}
		for _, l := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(a, -1) {
			q.shown = append(q.shown, l[1])
		}
		list = append(list, q)
	}
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Templating struct{ List []struct{ Query string } }
		Panels     []struct {
			Title, Type string
			Targets     []struct {
				Expr, LegendFormat, Format string
				Instant                    bool
			}
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			q := query{expression: target.Expr}
			for _, l := range regexp.MustCompile(`{{\s*(\w+)\s*}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				q.shown = append(q.shown, l[1])
			}
			list = append(list, q)
			if p.Type == "table" && (target.Format != "table" || !target.Instant) {
				t.Errorf("the table %q shows one series only: expected a query of one time in the format table", p.Title)
			}
		}
	}
	return append(list, query{expression: dashboard.Templating.List[1].Query})
}

// monitored returns the metrics of a daemon in which everything has happened that has a metric.
func monitored() *Metrics {
	m := New(Options{Agent: busy(), Sensors: sensors, Audit: func() (uint64, uint64) { return 0, 0 }})
	m.Started()
	m.Refused(agent.Unavailable)
	m.Ended(0, 1)
	m.MailFailed()
	return m
}

// TestMonitoring checks that each query of the dashboard and of the alert rules uses metrics that a
// daemon exposes, with the labels that they have, and that its texts show labels of the answer. Prometheus
// adds job and instance, and renames labels of a daemon with these names.
func TestMonitoring(t *testing.T) {
	families, err := monitored().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{"up": {"job", "instance"}}
	for _, f := range families {
		names := []string{"job", "instance"}
		for _, l := range f.GetMetric()[0].GetLabel() {
			if slices.Contains(names, l.GetName()) {
				t.Errorf("%s: Prometheus renames its label %s to exported_%[2]s", f.GetName(), l.GetName())
			}
			names = append(names, l.GetName())
		}
		labels[f.GetName()] = names
	}
	metric := regexp.MustCompile(`\b(up|execd_[a-z_]+)\b(\{[^}]*\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"`)
	grouping := regexp.MustCompile(`by \(([a-z_, ]*)\)`)
	for _, x := range queries(t) {
		q := x.expression
		var of []string // labels of the answer
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
			of = known
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
		if groups := grouping.FindStringSubmatch(q); groups != nil {
			of = strings.Split(strings.ReplaceAll(groups[1], " ", ""), ",")
		}
		for _, l := range x.shown {
			if !slices.Contains(of, l) {
				t.Errorf("%s: a text shows the label %s, which the answer does not have", q, l)
			}
		}
	}
}

// TestMonitoringWithPromtool lets promtool check the metrics of a daemon, the alert rules and the queries of the
// dashboard, and fires each alert.
func TestMonitoringWithPromtool(t *testing.T) {
	testenv.Require(t, testenv.Promtool)
	promtool := func(in []byte, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Stdin = bytes.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(monitored().registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	promtool(answer.Body.Bytes(), "check", "metrics")
	promtool(nil, "check", "rules", alertsFile)
	promtool(nil, "test", "rules", "testdata/alerts_test.yaml")

	// As recording rules, the queries of the dashboard are parsed.
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, q := range queries(t) {
		if !strings.HasPrefix(q.expression, "label_values(") { // a function of Grafana
			text, err := json.Marshal(strings.ReplaceAll(q.expression, "$instance", ".*")) // a string of YAML, too
			if err != nil {
				t.Fatal(err)
			}
			rules += fmt.Sprintf("  - record: panel:%d\n    expr: %s\n", i, text)
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(nil, "check", "rules", file)

	// Each alert is in the test of the rules.
	text, err := os.ReadFile("testdata/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(alerts), -1) {
		if !strings.Contains(string(text), "alertname: "+m[1]+"\n") {
			t.Errorf("testdata/alerts_test.yaml does not fire the alert %s", m[1])
		}
	}
}
