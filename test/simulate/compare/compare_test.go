package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const golden = "../../../scheduler/testdata/golden"

// edited returns a copy of the outputs of a case with one replacement in a file.
func edited(t *testing.T, name, file string, replacements ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(golden, name, "output"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	after := strings.NewReplacer(replacements...).Replace(string(text))
	if after == string(text) {
		t.Fatalf("%s has none of %q", file, replacements)
	}
	if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDifferences(t *testing.T) {
	tests := map[string]struct {
		name, file   string
		replacements []string
		want         string // in the differences; empty for none
	}{
		"a job elsewhere":      {"04-load-vs-complex", "final/qstat-gt.txt", []string{"b.q@n1", "b.q@n2", "b.q@n2", "b.q@n1"}, `slots: want "`},
		"a job that waits":     {"05-rqs-expanded", "final/qstat.txt", []string{" t ", " qw "}, "1: listed"},
		"a priority":           {"24-priority-mix", "before/qstat-pri.txt", []string{" 0.5000", " 0.5001"}, "npprior"},
		"a rounded priority":   {"24-priority-mix", "before/qstat-pri.txt", []string{" 0.50000", " 0.50001"}, ""},
		"tickets by one":       {"23-arrays-tickets", "final/qstat-ext.txt", []string{" 65911 ", " 65912 "}, ""},
		"tickets by two":       {"23-arrays-tickets", "final/qstat-ext.txt", []string{" 65911 ", " 65913 "}, "tckts"},
		"on its way":           {"05-rqs-expanded", "final/qstat.txt", []string{" t ", " r "}, ""},
		"suspended":            {"15-subordinate", "step1/qstat.txt", []string{" S ", " r "}, "state"},
		"a clock":              {"05-rqs-expanded", "final/qstat.txt", []string{"22:18", "23:19"}, ""},
		"another run":          {"05-rqs-expanded", "final/qstat.txt", []string{"22:18:43 b.q", "22:18:47 b.q"}, "started with"},
		"the slots of a queue": {"05-rqs-expanded", "final/qstat-f.txt", []string{"0/7/", "0/6/", "0/1/", "0/9/", "0/2/", "0/9/"}, "resv/used/tot."},
		"the state of a queue": {"15-subordinate", "step1/qstat-f.txt", []string{"-NA-          S", "-NA-          "}, "states"},
		"a reason less":        {"05-rqs-expanded", "final/schedinfo.txt", []string{`                            cannot run because it exceeds limit "dave/////" in rule "per_user/3"`, ""}, "line"},
		"a reason changed":     {"05-rqs-expanded", "final/schedinfo.txt", []string{"per_user/1", "per_user/2"}, "line"},
		"a corrected load":     {"17-thresholds", "susp1/schedinfo.txt", []string{"1.060000 (= 0.10 + 0.50 * 7.680000", "1.055000 (= 0.10 + 0.50 * 7.640000"}, ""},
		"a load":               {"17-thresholds", "susp1/schedinfo.txt", []string{"users=7.000000", "users=6.000000"}, "line"},
		"a quota":              {"05-rqs-expanded", "final/qquota.txt", []string{"slots=5/5", "slots=4/5"}, "line"},
		"a resource":           {"04-load-vs-complex", "final/qhost-F.txt", []string{"hc:scratch=4.000G", "hc:scratch=3.000G"}, "n1: line"},
		"the master's load":    {"04-load-vs-complex", "final/qhost-F.txt", []string{"13.81", "13.82"}, ""},
		"a share":              {"11-sharetree-users", "final/sge_share_mon.txt", []string{"0.559254", "0.659254"}, "actual_share"},
		"a plan":               {"18-reservation", "final/schedule-first-run.txt", []string{"RESERVING:1795213712:310:P", "RESERVING:1795213742:310:P"}, "line"},
		"the waiting time":     {"08-deadline-wait", "late/qstat-urg.txt", []string{"      170 ", "      190 "}, ""},
		"a long waiting time":  {"08-deadline-wait", "late/qstat-urg.txt", []string{"      170 ", "      290 "}, "wtcontr"},
		"a deadline":           {"08-deadline-wait", "late/qstat-urg.txt", []string{"    43373 ", "    21000 "}, "dlcontr"},
		"a blank in a row":     {"24-priority-mix", "before/qstat-pri.txt", []string{" 0.50000", "  0.50000"}, "layout"},
		"a title":              {"24-priority-mix", "before/qstat-pri.txt", []string{"npprior", "npprio "}, "layout"},
		"a blank of a queue":   {"15-subordinate", "step1/qstat-f.txt", []string{" BI  ", "  BI "}, "layout"},
		"a job more":           {"24-priority-mix", "before/qstat.txt", []string{"      1 0", "      9 0"}, "listed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			diffs, err := Dir(filepath.Join(golden, test.name), edited(t, test.name, test.file, test.replacements...))
			if err != nil {
				t.Fatal(err)
			}
			text := Text(diffs, len(diffs))
			if (text == "") != (test.want == "") || !strings.Contains(text, test.want) {
				t.Errorf("got\n%s\nwant %q", text, test.want)
			}
		})
	}
}

// TestTies checks that instances with equal values may exchange places, with all that is on them, and
// that other instances may not.
func TestTies(t *testing.T) {
	const head = "job-ID  prior   name       user         state submit/start at     queue                          master ja-task-ID \n"
	line := func(job, queue, master string) string {
		return "      " + job + " 0.50000 a          alice        r     11/20/2026 22:18:43 " + queue + " " + master + "\n"
	}
	capture := func(slots ...string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "qstat-gt.txt"), []byte(head+strings.Join(slots, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	c := &Case{
		load: map[string]string{"n1": "1", "n2": "1", "n3": "2"},
		seq:  map[string]string{"a.q": "0", "b.q": "0,[n2=1]"},
	}
	want := capture(line("1", "a.q@n1", "MASTER"), line("1", "a.q@n2", "SLAVE"), line("2", "a.q@n3", "MASTER"))
	for name, test := range map[string]struct {
		got  string
		same bool
	}{
		"exchanged":                  {capture(line("1", "a.q@n2", "MASTER"), line("1", "a.q@n1", "SLAVE"), line("2", "a.q@n3", "MASTER")), true},
		"exchanged, another queue":   {capture(line("1", "b.q@n1", "MASTER"), line("1", "a.q@n2", "SLAVE"), line("2", "a.q@n3", "MASTER")), true},
		"another seq_no":             {capture(line("1", "a.q@n1", "MASTER"), line("1", "b.q@n2", "SLAVE"), line("2", "a.q@n3", "MASTER")), false},
		"another load":               {capture(line("1", "a.q@n3", "MASTER"), line("1", "a.q@n2", "SLAVE"), line("2", "a.q@n1", "MASTER")), false},
		"two jobs that were on one":  {capture(line("1", "a.q@n1", "MASTER"), line("1", "a.q@n1", "SLAVE"), line("2", "a.q@n3", "MASTER")), false},
		"the job's master elsewhere": {capture(line("1", "a.q@n1", "SLAVE"), line("1", "a.q@n2", "SLAVE"), line("2", "a.q@n3", "MASTER")), false},
	} {
		diffs, err := c.Step(os.DirFS(want), os.DirFS(test.got))
		if err != nil {
			t.Fatal(err)
		}
		if (len(diffs) == 0) != test.same {
			t.Errorf("%s: %s", name, Text(diffs, len(diffs)))
		}
	}
}

func TestJudge(t *testing.T) {
	diffs := []Difference{{Case: "c", Field: "prior", Want: "1"}, {Case: "c", Field: "queue"}}
	j, err := NewJudge([]Expectation{{Field: "prior", Why: "x"}, {Field: "pri", Why: "y"}})
	if err != nil {
		t.Fatal(err)
	}
	if rest := j.Unexpected(diffs); len(rest) != 1 || rest[0].Field != "queue" {
		t.Errorf("unexpected: %v", rest)
	}
	if unmet := j.Unmet(); len(unmet) != 1 || !strings.HasSuffix(unmet[0], "y") {
		t.Errorf("unmet: %v", unmet)
	}
	if _, err := NewJudge([]Expectation{{Field: "prior"}}); err == nil {
		t.Error("an expectation without a reason is accepted")
	}
}

// TestState compares the states of a job that differ only in its way to the host.
func TestState(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"t", "r", true},
		{"T", "Tt", true},
		{"s", "st", true},
		{"Rt", "Rr", true},
		{"r", "T", false},
		{"dr", "r", false},
		{"hT", "T", false},
	} {
		if same := state(c.a) == state(c.b); same != c.same {
			t.Errorf("%s and %s are the same state: %v", c.a, c.b, same)
		}
	}
}
