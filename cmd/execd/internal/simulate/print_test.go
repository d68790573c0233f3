package simulate

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/execd-project/execd/simulate/runner"
)

func TestDuration(t *testing.T) {
	for seconds, want := range map[int64]string{
		0:                   "0d00:00:00",
		59:                  "0d00:00:59",
		7_980:               "0d02:13:00",
		93_784:              "1d02:03:04",
		100*86_400 + 86_399: "100d23:59:59",
	} {
		if got := duration(seconds); got != want {
			t.Errorf("%d seconds are %q, want %q", seconds, got, want)
		}
	}
}

// TestDurationsAreSortable sorts durations as an administrator does.
func TestDurationsAreSortable(t *testing.T) {
	var want strings.Builder
	for _, seconds := range []int64{0, 9, 10, 61, 600, 3_599, 7_200, 36_000, 86_399, 86_400, 200_000, 900_000, 12_345_678} {
		want.WriteString(duration(seconds) + "\n")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sort -R | sort -V")
	cmd.Stdin = strings.NewReader(want.String())
	got, err := cmd.CombinedOutput()
	if err != nil || string(got) != want.String() {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestWidth prints tasks whose names and grants are long.
func TestWidth(t *testing.T) {
	grants := func(n int) (list []runner.Grant) {
		for i := range n {
			list = append(list, runner.Grant{Instance: fmt.Sprintf("all.q@node%d", i), Slots: 4})
		}
		return list
	}
	tests := map[string]struct {
		task runner.Task
		want string // how the line ends
	}{
		"a short one": {
			runner.Task{Job: 1, Name: "a", User: "ada", Start: 60, End: 660, Slots: 4, Grants: grants(1)},
			"a          ada          0d00:01:00 0d00:11:00 0d00:01:00     4 all.q@node0=4",
		},
		"a running one":        {runner.Task{Job: 1, Start: 60, End: -1, Grants: grants(1)}, " 0d00:01:00          - 0d00:01:00     0 all.q@node0=4"},
		"names are cut":        {runner.Task{Job: 1, Name: strings.Repeat("näme", 9), User: strings.Repeat("user", 9), Grants: grants(1)}, " nämenämenä useruseruser 0d00:00:00 0d00:00:00 0d00:00:00     0 all.q@node0=4"},
		"grants are counted":   {runner.Task{Job: 1, Slots: 80, Grants: grants(20)}, "80 all.q@node0=4,+19"},
		"grants fit":           {runner.Task{Job: 1, Slots: 8, Grants: []runner.Grant{{Instance: "q@n1", Slots: 4}, {Instance: "q@n2", Slots: 4}}}, " 8 q@n1=4,q@n2=4"},
		"one task of an array": {runner.Task{Job: 4_000_000, Number: 75_000, Start: 9_000_000, End: 9_000_001, Slots: 64, Grants: grants(16)}, " 64 all.q@node0=4,+15"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := string((&settings{}).appendTasks(nil, &runner.Result{Tasks: []runner.Task{test.task}}))
			_, line, _ := strings.Cut(b, "\n")
			for line := range strings.Lines(b) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxColumns {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			if !strings.HasSuffix(line, test.want+"\n") {
				t.Errorf("%q, want a line that ends in %q", line, test.want)
			}
		})
	}
}
