package submit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/submit"
)

func TestSplitOptions(t *testing.T) {
	got, err := submit.SplitOptions(`-l h_rt=10 -pe smp 2  -V -N "a b" -w w`)
	want := [][]string{{"-l", "h_rt=10"}, {"-pe", "smp", "2"}, {"-V"}, {"-N", "a b"}, {"-w", "w"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for line, problem := range map[string]string{
		"-V job.sh":  "expected options only",
		"-nonsense":  "unknown option",
		"-pe smp":    "a value is missing",
		"- -V":       "unknown option",
		"-pty y job": "expected options only",
	} {
		if _, err := submit.SplitOptions(line); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, expected %q", line, err, problem)
		}
	}
}

func FuzzSplitOptions(f *testing.F) {
	for _, line := range []string{`-l a="b c" -V`, "-binding set linear:2", "-pe smp", "'"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		list, err := submit.SplitOptions(line)
		for _, o := range list {
			if err == nil && (len(o) == 0 || !strings.HasPrefix(o[0], "-")) {
				t.Errorf("%q has the option %q", line, o)
			}
		}
	})
}
