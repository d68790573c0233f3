package simulate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/simulate/script"
	"github.com/execd-project/execd/test/simulate/compare"
	"github.com/execd-project/execd/test/simulate/generate"
	"github.com/execd-project/execd/test/simulate/record"
)

// seedsEnv names the environment variable that chooses seeds: "7", "1-10,42".
const seedsEnv = "EXECD_SIMULATE_SEEDS"

// recordingsEnv names the environment variable with a folder in which recordings are
// kept, and where those of an earlier run are used again, also without a Grid Engine.
const recordingsEnv = "EXECD_SIMULATE_RECORDINGS"

// extendedEnv names the environment variable that, if set, makes the chosen seeds those of
// generate.Extended.
const extendedEnv = "EXECD_SIMULATE_EXTENDED"

// What is run without a choice. A seed takes about 20 seconds of one of two cells
// that run side by side.
const (
	usualSeeds = "1-10"
	soakSeeds  = "1-200,301"
)

// TestRandomAgainstGridEngine makes up cases, runs them on a real Grid Engine with
// simulated hosts and with "execd simulate", and compares.
func TestRandomAgainstGridEngine(t *testing.T) { againstGridEngine(t, usualSeeds) }

// TestSoakRandomAgainstGridEngine does so with many more cases.
func TestSoakRandomAgainstGridEngine(t *testing.T) {
	testenv.Soak(t)
	againstGridEngine(t, soakSeeds)
}

func againstGridEngine(t *testing.T, usual string) {
	t.Helper()
	if os.Getenv(recordingsEnv) == "" {
		testenv.Require(t, testenv.Root, testenv.GridEngine)
	}
	choice := os.Getenv(seedsEnv)
	if choice == "" {
		choice = usual
	}
	seeds, err := parseSeeds(choice)
	if err != nil {
		t.Fatalf("cannot use %s: %v", seedsEnv, err)
	}
	execd := buildExecd(t)
	// Which seeds show an expected difference depends on the choice: all of them are to be
	// met only where nothing was chosen.
	expected := randomDifferences
	if os.Getenv(seedsEnv) != "" || usual == soakSeeds {
		expected = slices.Concat(randomDifferences, soakDifferences)
	}
	judge, err := compare.NewJudge(expected)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("seed", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				compareSeed(t, execd, judge, seed)
			})
		}
	})
	if os.Getenv(seedsEnv) == "" {
		for _, text := range judge.Unmet() {
			t.Errorf("no seed shows the expected difference any more: %s", text)
		}
	}
	t.Attr("seeds", strconv.Itoa(len(seeds)))
}

// compareSeed makes up a case, has it run twice, and compares. What a failure needs
// to be looked into stays on disk.
func compareSeed(t *testing.T, execd string, judge *compare.Judge, seed uint64) {
	t.Helper()
	dir, err := os.MkdirTemp("", fmt.Sprintf("execd-seed-%d-", seed)) //nolint:usetesting // a failure leaves it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	ours, again := filepath.Join(dir, "ours"), filepath.Join(dir, "again")
	made := generate.New(seed)
	if os.Getenv(extendedEnv) != "" {
		made = generate.Extended(seed)
	}
	caseDir := recorded(t, dir, seed, made)
	rerun := fmt.Sprintf("seed %d, %s\nexecd simulate --case %s --out %s\nall of it: %s=%d go test -count=1 -run TestRandomAgainstGridEngine ./test/simulate",
		seed, strings.TrimSpace(made.Files["TITLE"]), caseDir, ours, seedsEnv, seed)
	if err := simulate(t.Context(), execd, caseDir, ours); err != nil {
		t.Fatalf("%s\n%v", rerun, err)
	}
	diffs, err := compare.Dir(caseDir, ours)
	if err != nil {
		t.Fatalf("%s\n%v", rerun, err)
	}
	if diffs = judge.Unexpected(diffs); len(diffs) == 0 {
		return
	}
	if os.Getenv(recordingsEnv) == "" {
		diffs = reproducible(t, diffs, caseDir, again, ours)
	}
	if len(diffs) > 0 {
		const enough = 40
		t.Errorf("%s\n%d differences:\n%s", rerun, len(diffs), compare.Text(diffs, enough))
	}
}

// recorded returns the folder of a case that Grid Engine has run.
func recorded(t *testing.T, dir string, seed uint64, made *generate.Case) string {
	t.Helper()
	if kept := os.Getenv(recordingsEnv); kept != "" {
		dir = kept
	}
	dir = filepath.Join(dir, fmt.Sprintf("seed-%d", seed))
	// Written last: a recording that was broken off lacks it. Cases of a generator that
	// has changed since have other inputs.
	complete := filepath.Join(dir, "complete")
	fingerprint := fmt.Sprintf("%x\n", sha256.Sum256(fmt.Appendf(nil, "%v %s", made.Files, script.Format(made.Script))))
	if text, err := os.ReadFile(complete); err == nil && string(text) == fingerprint {
		return dir
	}
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	if err := errors.Join(os.RemoveAll(dir), made.Write(dir)); err != nil {
		t.Fatal(err)
	}
	var err error
	if made.Script, err = record.Run(t, dir, filepath.Join(dir, "output")); err != nil {
		t.Fatalf("seed %d: the case is in %s: %v", seed, dir, err)
	}
	// The answers hold the job numbers.
	if err := errors.Join(made.Write(dir), os.WriteFile(complete, []byte(fingerprint), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// reproducible returns the differences that a second run on Grid Engine shows as well. This
// excludes differences because the machine was busy at the wrong moment.
func reproducible(t *testing.T, diffs []compare.Difference, dir, again, ours string) []compare.Difference {
	t.Helper()
	if _, err := record.Run(t, dir, again); err != nil {
		t.Fatal(err)
	}
	second, err := compare.Outputs(dir, again, ours)
	if err != nil {
		t.Fatal(err)
	}
	known := map[compare.Difference]bool{}
	for _, d := range second {
		known[d] = true
	}
	var both []compare.Difference
	for _, d := range diffs {
		if known[d] {
			both = append(both, d)
		} else {
			t.Logf("only in one of two runs of Grid Engine: %s", d)
		}
	}
	return both
}

// parseSeeds reads a list of seeds and ranges of seeds.
func parseSeeds(text string) ([]uint64, error) {
	var seeds []uint64
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		low, err := strconv.ParseUint(first, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no seed: %w", part, err)
		}
		high, err := strconv.ParseUint(last, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no seed: %w", part, err)
		}
		const most = 100000
		if high < low || high-low >= most {
			return nil, fmt.Errorf("%q is not a range of at most %d seeds", part, most)
		}
		for seed := low; seed <= high; seed++ {
			seeds = append(seeds, seed)
		}
	}
	return seeds, nil
}

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string]string{
		"7": "[7]", "1-3,9": "[1 2 3 9]", "4-4": "[4]",
		"": "error", "3-1": "error", "x": "error", "1-999999999": "error",
	} {
		got, err := parseSeeds(text)
		if s := fmt.Sprint(got); s != want && (err == nil || want != "error") {
			t.Errorf("parseSeeds(%q) = %s, %v; want %s", text, s, err, want)
		}
	}
}
