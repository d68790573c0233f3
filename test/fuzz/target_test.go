package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// write creates a module with fuzz tests.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const sample = `package p
import "testing"
func FuzzGood(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) {}) }
func FuzzBad(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { if len(b) > 2 { t.Error("long") } }) }
func (s set) FuzzMethod() {}
type set struct{}
func fuzzy(f *testing.F) {}
`

func TestTargets(t *testing.T) {
	dir := write(t, map[string]string{
		"b/b_test.go":          "package b\nimport \"testing\"\nfunc FuzzB(f *testing.F) {}\n",
		"a_test.go":            sample,
		"a.go":                 "package p\nfunc FuzzNone() {}\n",
		"testdata/c_test.go":   sample,
		".hidden/hide_test.go": sample,
	})
	found, err := targets(dir, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	want := []target{{"./.", "FuzzBad"}, {"./.", "FuzzGood"}, {"./b", "FuzzB"}}
	if !slices.Equal(found, want) {
		t.Errorf("targets = %v, want %v", found, want)
	}
	if found, _ := targets(dir, regexp.MustCompile("^./b[.]")); len(found) != 1 {
		t.Errorf("targets of package b = %v", found)
	}
}

// TestTargetsOfThisModule checks that the program finds every fuzz test that a search through the
// source files finds.
func TestTargetsOfThisModule(t *testing.T) {
	root := "../.."
	found, err := targets(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	err = filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/fuzz/") {
			return err
		}
		text, err := os.ReadFile(path)
		declared += len(regexp.MustCompile(`(?m)^func Fuzz\w+\(\w+ \*testing\.F\)`).FindAll(text, -1))
		return err
	})
	if err != nil || declared == 0 || len(found) != declared {
		t.Errorf("found %d fuzz tests, declared are %d (%v)", len(found), declared, err)
	}
}

// TestChoose checks that consecutive turns run each target once before they run any of them again.
func TestChoose(t *testing.T) {
	var all []target
	for name := range strings.SplitSeq("abcdefghijklm", "") {
		all = append(all, target{"./p", name})
	}
	seen := map[target]int{}
	for turn := range 13 {
		for _, c := range choose(all, 5, turn) {
			seen[c]++
		}
		if turn == 2 && len(seen) != len(all) {
			t.Errorf("three turns of five ran %d of %d targets", len(seen), len(all))
		}
	}
	for _, target := range all {
		if seen[target] != 5 {
			t.Errorf("%s ran %d times in 13 turns, want 5", target, seen[target])
		}
	}
	if got := choose(all, 0, 3); !slices.Equal(got, all) {
		t.Errorf("choose without a count = %v", got)
	}
	if got := choose(all, 20, 3); !slices.Equal(got, all) {
		t.Errorf("choose with a count above all = %v", got)
	}
}

func TestRun(t *testing.T) {
	dir := write(t, map[string]string{"go.mod": "module p\ngo 1.26\n", "p_test.go": sample})
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	var output strings.Builder
	if err := (target{".", "FuzzGood"}).run(&output, time.Second); err != nil {
		t.Errorf("a target without a fault: %v\n%s", err, &output)
	}
	output.Reset()
	if err := (target{".", "FuzzBad"}).run(&output, time.Minute); err == nil {
		t.Errorf("a target with a fault passed\n%s", &output)
	}
	if n := strings.Count(output.String(), "Failing input written"); n != 1 {
		t.Errorf("%d failing inputs in the output, want 1\n%s", n, &output)
	}
}

func TestOutOfTime(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   bool
	}{
		"the time was over":                    {"--- FAIL: FuzzX (5.03s)\n    context deadline exceeded\nFAIL\n", true},
		"an input that waits for a deadline":   {"context deadline exceeded\nFailing input written to testdata/fuzz/FuzzX/1\n", false},
		"an input that fails":                  {"Failing input written to testdata/fuzz/FuzzX/1\n", false},
		"a package that does not build":        {"FAIL p [build failed]\n", false},
		"a seed that fails before any fuzzing": {"--- FAIL: FuzzX/seed#0\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outOfTime([]byte(c.output)); got != c.want {
				t.Errorf("outOfTime = %v, want %v", got, c.want)
			}
		})
	}
}
