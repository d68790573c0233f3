package differential

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// shepherdEnv names the environment variable that replaces ./cmd/shepherd by another program, or by
// the original if its value is "original".
const shepherdEnv = "EXECD_DIFF_SHEPHERD"

// casesEnv names the environment variable with a regular expression for the names of the cases to
// run, for investigating a difference.
const casesEnv = "EXECD_DIFF_CASES"

// TestDifferential runs all cases under the original sge_shepherd and under
// another one, and compares.
func TestDifferential(t *testing.T) {
	require(t)
	probePath := build(t, t.TempDir(), "probe", "../probe")
	shepherd := shepherdUnderTest(t)
	expectations := expectedDifferences()
	if shepherd == "" {
		expectations = nil
	}

	// Each driver gets its own table: the cells must not share anything.
	original := newDriver(t, "", "", chosenCases(t))
	other := newDriver(t, shepherd, "", chosenCases(t))
	errs := runBoth(original, other, probePath)
	report(t, original, other, newJudge(expectations, must(expectations)), errs)
}

func runBoth(original, other *driver, probePath string) [2]error {
	var both sync.WaitGroup
	var errs [2]error
	for i, d := range []*driver{original, other} {
		both.Go(func() { errs[i] = d.run(probePath) })
	}
	both.Wait()
	return errs
}

// must returns the number of expectations that must occur: all, unless cases are chosen.
func must(table []expectation) int {
	if os.Getenv(casesEnv) != "" || ocs() {
		return 0
	}
	return len(table)
}

// chosenCases returns the table, or the part that EXECD_DIFF_CASES selects.
func chosenCases(t *testing.T) []jobCase {
	choice, err := regexp.Compile(os.Getenv(casesEnv))
	if err != nil {
		t.Fatalf("cannot use %s: %v", casesEnv, err)
	}
	cases := slices.DeleteFunc(allCases(), func(c jobCase) bool {
		// 9.1 has other options for bindings, which test/cluster tests.
		return !choice.MatchString(c.name) || ocs() && slices.Contains(c.opts, "-binding")
	})
	if len(cases) == 0 {
		t.Fatalf("%s=%q chooses no case", casesEnv, choice)
	}
	return cases
}

// report compares the cells case by case. It prints the differences at the very end, after the
// traces that may explain them, because the end of a long output is the part that people read and
// logs keep.
func report(t *testing.T, original, other *driver, j *judge, errs [2]error) {
	fields, tasks, meant := 0, 0, 0
	var unexpected []difference
	for i, c := range original.cases {
		diffs, n := compare(c.name, original.seen[i], other.seen[i])
		fields += n
		tasks += c.ends
		for _, d := range diffs {
			if j.expected(d) {
				meant++
			} else {
				unexpected = append(unexpected, d)
			}
		}
	}
	unmet := j.unmet()
	failed := errors.Join(errs[:]...) != nil || len(unexpected) > 0 || len(unmet) > 0
	if failed {
		t.Logf("the cell with the original:\n%s", complaints(original.cell.Messages()))
		t.Logf("the cell with the other:\n%s", complaints(other.cell.Messages()))
	}
	for _, name := range tracedCases(original.cases, unexpected) {
		i := slices.IndexFunc(original.cases, func(c jobCase) bool { return c.name == name })
		t.Logf("%s: trace of the original:\n%s", name, original.trace(i))
		t.Logf("%s: trace of the other:\n%s", name, other.trace(i))
	}

	result := fmt.Sprintf("%d jobs compared, %d ends of tasks, %d fields, %d expected differences, %d unexpected",
		len(original.cases), tasks, fields, meant, len(unexpected))
	t.Attr("differential", result)
	t.Logf("the phases took %v with the original and %v with the other", original.took, other.took)
	t.Log("differential: " + result)

	for _, text := range unmet {
		t.Errorf("no case shows the expected difference any more: %s", text)
	}
	for i, name := range []string{"original", "other"} {
		if errs[i] != nil {
			t.Errorf("the cell with the %s: %v", name, errs[i])
		}
	}
	for _, text := range group(unexpected) {
		t.Errorf("unexpected difference: %s", text)
	}
}

// tracedCases returns the cases whose traces are printed: all if only a few were chosen, otherwise
// the first ones with differences.
func tracedCases(cases []jobCase, diffs []difference) []string {
	if os.Getenv(casesEnv) == "" || len(cases) > 5 {
		return firstCases(diffs, 5)
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

// firstCases names the first n cases with differences.
func firstCases(diffs []difference, n int) []string {
	var names []string
	for _, d := range diffs {
		if len(names) < n && !slices.Contains(names, d.name) {
			names = append(names, d.name)
		}
	}
	return names
}

// complaints removes messages of the daemons' logs that are only informational.
func complaints(messages string) string {
	var b strings.Builder
	for line := range strings.Lines(messages) {
		if strings.Contains(line, "[DEBUG]") || strings.Contains(line, "[INFO]") { // of the agent
			continue
		}
		if strings.Contains(line, "SIGNAL jid") || !strings.Contains(line, "|I|") && !strings.Contains(line, "QERROR") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// shepherdUnderTest returns the program to compare with the original, "" for the
// original itself.
func shepherdUnderTest(t *testing.T) string {
	t.Helper()
	switch value := os.Getenv(shepherdEnv); value {
	case "":
		return build(t, t.TempDir(), "sge_shepherd-go", "../../cmd/shepherd")
	case "original":
		return ""
	default:
		return value
	}
}

// build builds a command of this module in a directory.
func build(t *testing.T, dir, name, pkg string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", path, pkg)
	// The cells have a C library, but a static probe starts faster.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build %s: %v\n%s", pkg, err, out)
	}
	return path
}

// ocs reports whether the cells run an Open Cluster Scheduler.
func ocs() bool { return os.Getenv(testenv.OCSEnv) != "" }

// require skips or fails a test on a machine without the Grid Engine that the cells run: Debian's, or the
// installation of Open Cluster Scheduler that EXECD_TEST_OCS names.
func require(t *testing.T) {
	t.Helper()
	if ocs() {
		testenv.Require(t, testenv.Root, testenv.OCS)
		return
	}
	testenv.Require(t, testenv.Root, testenv.GridEngine)
}
