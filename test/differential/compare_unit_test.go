package differential

import (
	"errors"
	"strconv"
	"testing"
)

// TestCompareFindsEveryDifference compares pairs of observations: a comparison that misses a
// difference would make the whole test useless.
func TestCompareFindsEveryDifference(t *testing.T) {
	tests := map[string]struct {
		original, ours observation
		want           int
	}{
		"equal values":                        {observation{"a": "1", "b": ""}, observation{"a": "1", "b": ""}, 0},
		"a value differs":                     {observation{"a": "1"}, observation{"a": "2"}, 1},
		"ours lacks a field":                  {observation{"a": "1"}, observation{}, 1},
		"ours has one more, even if empty":    {observation{}, observation{"a": ""}, 1},
		"a measurement within its bounds":     {observation{"acct/0.1/ru_utime": "0.1"}, observation{"acct/0.1/ru_utime": "0.2"}, 0},
		"a measurement out of its bounds":     {observation{"acct/0.1/ru_utime": "0.1"}, observation{"acct/0.1/ru_utime": "2.0"}, 1},
		"a great measurement, by its ratio":   {observation{"acct/0.1/maxvmem": "100000000"}, observation{"acct/0.1/maxvmem": "120000000"}, 0},
		"a measurement in the file usage":     {observation{"active/1/usage/ru_maxrss": "4000"}, observation{"active/1/usage/ru_maxrss": "9000"}, 0},
		"a measurement that is missing":       {observation{"acct/0.1/cpu": "0.1"}, observation{}, 1},
		"a measurement that is not a number":  {observation{"acct/0.1/cpu": "0.1"}, observation{"acct/0.1/cpu": "x"}, 1},
		"a report that one side lacks is one": {observation{"seen/1.job.1/a": "1", "seen/1.job.1/b": "2", "seen/1.job.2/a": "1"}, observation{"seen/1.job.2/a": "1"}, 1},
		"a record that one side has twice":    {observation{"acct/0.1/a": "1"}, observation{"acct/0.1/a": "1", "acct/0.2/a": "1", "acct/0.2/b": "1"}, 1},
		"a file that one side lacks is one":   {observation{"home/x/y.o1": "-rw", "home/x/y.o1/content": ""}, observation{"home/x/y.o2": "-rw"}, 2},
		"a file whose content differs":        {observation{"home/y": "-rw", "home/y/content": "a"}, observation{"home/y": "-rw", "home/y/content": "b"}, 1},
		"an exit status is no measurement":    {observation{"acct/0.1/exit_status": "0"}, observation{"acct/0.1/exit_status": "1"}, 1},
		"a variable named like a measurement": {observation{"seen/1.job.1/Processes/0/Environ/cpu": "1"}, observation{"seen/1.job.1/Processes/0/Environ/cpu": "1.1"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := compare("x", test.original, test.ours); len(got) != test.want {
				t.Errorf("compare found %v, want %d differences", got, test.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	j := newJudge([]expectation{
		{field: "active/.*/error", ours: ".* 0:0", why: "a"},
		{field: "never", why: "b"},
		{field: "never and not needed", why: "c"},
	}, 2)
	for d, want := range map[difference]bool{
		{"x", "active/1/error", "-rw 2001:2001", "-rw 0:0"}:       true,
		{"x", "active/1/error", "-rw 2001:2001", "-rw 1:1"}:       false,
		{"x", "active/1/error/content", "", "x 0:0"}:              false,
		{"x", "pre/active/1/error", "-rw 2001:2001", "-rw 0:0"}:   false,
		{"x", "active/1/error", "-rw 2001:2001", "-rw 0:0\nmore"}: false,
	} {
		if got := j.expected(d); got != want {
			t.Errorf("expected(%v) = %v, want %v", d, got, want)
		}
	}
	if got := j.unmet(); len(got) != 1 {
		t.Errorf("unmet = %v, want the second entry only", got)
	}
}

func TestFlatten(t *testing.T) {
	o := observation{}
	flatten(o, "p", map[string]any{
		"Environ": []any{"A=1", "B=x=y", "A=2"}, "Argv": []any{"a", "b"}, "Groups": "2001 2010 30017", "TTY": false,
	})
	want := observation{"p/Environ/A": "1", "p/Environ/A again": "2", "p/Environ/B": "x=y", "p/Argv/0": "a", "p/Argv/1": "b", "p/Groups": "2001 2010 GID", "p/TTY": "false"}
	if d, _ := compare("flatten", want, o); len(d) > 0 {
		t.Errorf("%v", d)
	}
}

func TestGotOnce(t *testing.T) {
	if got := gotOnce("got USR1\ngot USR1\nend\nend\ngot CONT\n"); got != "got USR1\nend\nend\ngot CONT\n" {
		t.Errorf("gotOnce = %q", got)
	}
}

// TestCasesHaveNames checks that every case in the table has a unique name.
func TestCasesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range allCases() {
		if c.name == "" || seen[c.name] {
			t.Errorf("case %q exists twice", c.name)
		}
		seen[c.name] = true
		if c.script == "" && len(c.cmd) == 0 {
			t.Errorf("case %q runs nothing", c.name)
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d cases, want 60 or more", len(seen))
	}
}

// TestPatience checks that a wait ends when its condition holds, or when the cell makes no more progress.
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		holdsAfter, progressUntil, want int // calls
	}{
		"the condition holds":                 {holdsAfter: 1, progressUntil: 100, want: 1},
		"it holds after some progress":        {holdsAfter: 4, progressUntil: 100, want: 4},
		"no progress from the beginning":      {holdsAfter: 100, progressUntil: 0, want: 1},
		"the cell makes no more progress":     {holdsAfter: 100, progressUntil: 3, want: 4},
		"it holds at the end of the progress": {holdsAfter: 4, progressUntil: 3, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := patient(
				func() string { return strconv.Itoa(min(calls, c.progressUntil)) },
				func() error {
					if calls++; calls >= c.holdsAfter {
						return nil
					}
					return errors.New("not yet")
				})
			if calls != c.want || (err == nil) != (c.holdsAfter <= c.want) {
				t.Errorf("it waited %d times, expected %d: %v", calls, c.want, err)
			}
		})
	}
}
