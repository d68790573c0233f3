package record

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/simulate/compare"
)

// recordedAgain are recorded cases in which nothing depends on the moment at which
// the scheduler ran.
var recordedAgain = []string{"05-rqs-expanded", "20-queue-matching", "24-priority-mix"}

// TestRunRecordsWhatWasRecorded runs the scripts of recorded cases and compares. On a
// busy machine the original may schedule between two submissions that it saw in one run:
// only a case of which each of three recordings differs is a fault.
func TestRunRecordsWhatWasRecorded(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	const attempts = 3
	for _, name := range recordedAgain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for attempt := 1; ; attempt++ {
				diffs := recordAgain(t, filepath.Join("../../../scheduler/testdata/golden", name))
				if len(diffs) == 0 {
					return
				}
				text := compare.Text(diffs, len(diffs))
				if attempt == attempts {
					t.Fatalf("recording %d: %d differences:\n%s", attempt, len(diffs), text)
				}
				t.Logf("recording %d: %d differences, recording again:\n%s", attempt, len(diffs), text)
			}
		})
	}
}

// recordAgain runs the script of the case in dir and returns how the new recording
// differs from the committed one.
func recordAgain(t *testing.T, dir string) []compare.Difference {
	t.Helper()
	out := t.TempDir()
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
	return judge.Unexpected(diffs)
}

// TestRunUsage records jobs that really run and say what they use.
func TestRunUsage(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "input"), os.DirFS("../../../scheduler/testdata/golden/36-usage-ended-jobs/input")); err != nil {
		t.Fatal(err)
	}
	const jobs = `alice: qsub -b y -N a /bin/sleep 2 cpu=300
# wait 25 s
# capture output/ended
`
	if err := os.WriteFile(filepath.Join(dir, "jobs.txt"), []byte(jobs), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t, dir, out); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"sge_share_mon.txt": `(?m)^\d+\t\d+\t/groupA/alice\t.*\t300\.000000\t0\.000000\t0\.000000\t$`,
		"times.txt":         `^job_number: 1\nsubmission_time: \d+\nend_time: \d+\n$`,
	} {
		text, err := os.ReadFile(filepath.Join(out, "ended", file))
		if err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s is\n%s\n%v; want %s", file, text, err, want)
		}
	}
}
