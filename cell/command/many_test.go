package command

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyExpressions checks that a user cannot delay all others with expressions, each of which is
// compared with all jobs: their number is limited. More plain names are accepted, up to the limits
// of a list.
func TestManyExpressions(t *testing.T) {
	w := newWorld(t)
	w.line("bob", "qsub -h job.sh")
	list := func(n int, form string) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(form, i))
		}
		return strings.Join(names, ",")
	}
	words := func(text string) string { return strings.ReplaceAll(text, ",", " ") }
	const said = "expressions for names"
	for line, names := range map[string]func(string) string{
		"qdel %s": words, "qhold %s": words, "qmod -sj %s": words, "qalter -p -1 %s": words, "qresub %s": words, "qrdel %s": words,
		"qdel -u %s": nil, "qrls -u %s": nil, "qstat -u %s": nil, "qstat -j %s": nil, "qstat -q %s": nil, "qhost -u %s": nil,
		"qselect -q %s": nil, "qquota -u %s": nil, "qrstat -u %s": nil, "qconf -sq %s": nil, "qsub -h -hold_jid %s job.sh": nil,
	} {
		if names == nil {
			names = func(text string) string { return text }
		}
		for form, refused := range map[string]bool{"*x%d": true, "x%d": false} {
			r := w.line("alice", fmt.Sprintf(line, names(list(mostExpressions+1, form))))
			if got := strings.Contains(r.Stdout+r.Stderr, said); got != refused || refused && r.Exit == 0 {
				t.Errorf("%s with %s: %d, %.200s", line, form, r.Exit, r.Stdout+r.Stderr)
			}
		}
		if r := w.line("alice", fmt.Sprintf(line, names(list(mostExpressions, "*x%d")))); strings.Contains(r.Stdout+r.Stderr, said) {
			t.Errorf("%s: as many as may be: %.200s", line, r.Stdout+r.Stderr)
		}
	}
	for _, line := range []string{"qconf -sq", "qstat -u", "qstat -q", "qquota -u"} {
		f := strings.Fields(line)
		if r := w.run("alice", f[0], f[1], strings.Repeat("all.q,", mostListed+1)); r.Exit == 0 || !strings.Contains(r.Stderr, "too many") {
			t.Errorf("%s: %d, %.200s", line, r.Exit, r.Stdout)
		}
	}
	// An expression counts as all the patterns that it has.
	if r := w.line("alice", "qsub -h -hold_jid '"+strings.Repeat("*x*|", mostExpressions)+"*x*' job.sh"); r.Exit == 0 || !strings.Contains(r.Stderr, "257 expressions") {
		t.Errorf("%d, %.200s", r.Exit, r.Stderr)
	}
	queues := strings.Split(strings.Repeat("all.q ", mostListed)+"all.q", " ")
	if r := w.run("alice", "qmod", append([]string{"-d"}, queues...)...); r.Exit == 0 || !strings.Contains(r.Stderr, "16385 queues are too many") {
		t.Errorf("%d, %.200s", r.Exit, r.Stdout+r.Stderr)
	}
	if r := w.run("alice", "sge_share_mon", "-"+strings.Repeat("x", 100_000)); r.Exit == 0 || len(r.Stderr) > 10_000 || !strings.Contains(r.Stderr, "invalid option") {
		t.Errorf("%d, %.200s", r.Exit, r.Stdout+r.Stderr)
	}
	// Nor by naming the same again and again.
	w.line("alice", "qsub -h -N same job.sh")
	again := make([]string, 20_000)
	for i := range again {
		again[i] = "same"
	}
	for _, line := range []string{"qhold -h u", "qalter -p -1", "qdel"} {
		f := strings.Fields(line)
		if r := w.run("alice", f[0], append(f[1:], again...)...); r.Exit == 0 || !strings.Contains(r.Stdout, "named too often") {
			t.Errorf("%s: %d, %.200s", line, r.Exit, r.Stdout)
		}
	}
	if r := w.run("alice", "qsub", "-h", "-hold_jid", strings.Join(again, ","), "job.sh"); r.Exit != 0 {
		t.Errorf("%+v", r)
	}
	// Nor with jobs of users, each of whom is looked up for each.
	if r := w.run("alice", "qdel", append([]string{"-u", list(2000, "u%d")}, strings.Split(list(1000, "x%d"), ",")...)...); r.Exit == 0 || !strings.Contains(r.Stdout, "1000 jobs of 2000 users are too many") {
		t.Errorf("%d, %.200s", r.Exit, r.Stdout)
	}
}

// TestNameOfEverybody checks that a plain name means the jobs of all users, in the order of their
// numbers.
func TestNameOfEverybody(t *testing.T) {
	w := newWorld(t)
	for _, user := range []string{"bob", "alice", "bob", "carol"} {
		w.line(user, "qsub -h -N same job.sh")
	}
	want := "modified hold of job 1\nmodified hold of job 2\nmodified hold of job 3\nmodified hold of job 4\n"
	if r := w.line("root", "qhold -h s same"); r.Stdout != want {
		t.Errorf("%q", r.Stdout)
	}
}
