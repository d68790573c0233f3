package standalone

import (
	"regexp"
	"strings"
	"testing"
)

// TestList lists jobs of all kinds for people.
func TestList(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	list := func(words ...string) string {
		t.Helper()
		r := m.as(u, "../execd", append([]string{"ps"}, words...)...)
		if r.status != 0 || r.stderr != "" {
			t.Errorf("execd ps %q: %+v", words, r)
		}
		return r.stdout
	}
	if got := list(); got != "There are no jobs.\n" {
		t.Errorf("an empty list: %q", got)
	}
	for _, words := range [][]string{
		{"-N", "runner", "-b", "y", "sleep", "1000"},
		{"-h", "-N", "a-long-name-that-the-list-cuts", "-b", "y", "sleep", "1000"},
		{"-h", "-t", "1-10", "-N", "array", "-b", "y", "sleep", "1000"},
	} {
		if r := m.as(u, "qsub", append([]string{"-wd", "/tmp", "-j", "y", "-o", "/dev/null"}, words...)...); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	m.until("a job runs", func() bool { return strings.Contains(list(), " running ") })
	want := regexp.MustCompile(`(?s)^JOB  NAME +USER +STATE +TIME +SLOTS  QUEUE
1    runner +` + u.Username + ` +running +[0-9 min]+ s +1      all\.q@` + hostName + `
2    a-long-name-that-the-\.\.\.  ` + u.Username + ` +on hold +[0-9 min]+ s +1      -
    waits for its user hold to be taken off: qrls 2
3    array +` + u.Username + ` +10 on hold  [0-9 min]+ s +1      -
    \[-{20}\] 0 of 10 tasks done
    waits for its user hold to be taken off: qrls 3[^\n]*
$`)
	got := list()
	if !want.MatchString(got) {
		t.Errorf("the list is\n%s", got)
	}
	if all := list("--all", "--limit=1"); !strings.Contains(all, "runner") || !strings.HasSuffix(all, "\n2 more jobs: list them with --limit 0\n") {
		t.Errorf("a part of the list is\n%s", all)
	}
	if other := list("--user", "nosuchuser"); other != "There are no jobs.\n" {
		t.Errorf("the list of another user is\n%s", other)
	}
	if colors := list("--color", "always"); !strings.Contains(colors, "\x1b[32mrunning\x1b[0m") || !strings.Contains(colors, "\x1b[33mon hold\x1b[0m") {
		t.Errorf("the list in colours is\n%q", colors)
	}
	if r := m.as(u, "../execd", "ps", "--color", "blue"); r.status != 2 || !strings.Contains(r.stderr, `invalid value "blue" of --color: expected auto, always, never`) {
		t.Errorf("a wrong colour: %+v", r)
	}
}
