package record

import (
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/simulate/compare"
)

// recordedAgain are recorded cases in which nothing depends on the moment at which
// the scheduler ran.
var recordedAgain = []string{"05-rqs-expanded", "20-queue-matching", "24-priority-mix"}

// TestRunRecordsWhatWasRecorded runs the scripts of recorded cases and compares.
func TestRunRecordsWhatWasRecorded(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	for _, name := range recordedAgain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, out := filepath.Join("../../../scheduler/testdata/golden", name), t.TempDir()
			if _, err := Run(t, dir, out); err != nil {
				t.Fatal(err)
			}
			diffs, err := compare.Dir(dir, out)
			if err != nil {
				t.Fatal(err)
			}
			// What only some cases have is not printed.
			judge, err := compare.NewJudge([]compare.Expectation{{
				File: `(qinstance.*|qstat-explain-c|qquota-[hPl].*)\.txt`, Field: "file", Got: `\(absent\)`, Why: "is not printed at each capture",
			}})
			if err != nil {
				t.Fatal(err)
			}
			if diffs = judge.Unexpected(diffs); len(diffs) > 0 {
				t.Errorf("%d differences:\n%s", len(diffs), compare.Text(diffs, len(diffs)))
			}
		})
	}
}
