package simulate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/test/simulate/compare"
)

const goldenDir = "../../scheduler/testdata/golden"

// goldenDifferences are the ways in which we differ from the recorded cases on
// purpose, or because a recording does not say what would have to be known.
var goldenDifferences = []compare.Expectation{
	{
		Case: "17-thresholds", Step: "resume2", File: `qstat\.txt`, Job: "20", Field: "state", Want: "T", Got: "r",
		Why: "it was resumed while the state was printed, right behind this file",
	},
	{
		Case: "17-thresholds", Step: "susp1", File: `schedinfo\.txt`, Job: "23", Want: `(.*a\.q@n1.*|\(absent\))`,
		Why: "tasks were suspended while this was printed, right before the last job",
	},
}

func goldenCases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(goldenDir, "*"))
	if err != nil || len(dirs) != 38 {
		t.Fatalf("%d recorded cases, %v", len(dirs), err)
	}
	return dirs
}

// TestGolden replays the recorded cases.
func TestGolden(t *testing.T) {
	execd := buildExecd(t)
	judge, err := compare.NewJudge(goldenDifferences)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range goldenCases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			out := t.TempDir()
			if err := simulate(t.Context(), execd, dir, out); err != nil {
				t.Fatal(err)
			}
			diffs, err := compare.Dir(dir, out)
			if err != nil {
				t.Fatal(err)
			}
			if diffs = judge.Unexpected(diffs); len(diffs) > 0 {
				const enough = 40
				t.Errorf("%d differences; again: execd simulate --case %s --out DIR\n%s", len(diffs), dir, compare.Text(diffs, enough))
			}
		})
	}
	for _, text := range judge.Unmet() {
		t.Errorf("no case shows the expected difference any more: %s", text)
	}
}

// TestGoldenCasesAgreeWithThemselves tests that every file of every case can be
// read, so that a case is never skipped.
func TestGoldenCasesAgreeWithThemselves(t *testing.T) {
	for _, dir := range goldenCases(t) {
		diffs, err := compare.Dir(dir, filepath.Join(dir, "output"))
		if err != nil || len(diffs) > 0 {
			t.Errorf("%v\n%s", err, compare.Text(diffs, len(diffs)))
		}
		if diffs, err = compare.Dir(dir, filepath.Join(t.TempDir(), "nothing")); err != nil || len(diffs) == 0 {
			t.Errorf("%s: a case without outputs is taken for the same (%v)", dir, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "TITLE")); err != nil {
			t.Error(err)
		}
	}
}
