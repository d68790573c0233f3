package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// maxCI is the maximum duration of a whole run of .ci/run, in seconds.
const maxCI = 1800

// TestBudgets compares the phases of .ci/run with the budgets in CONTRIBUTING.md, which
// .ci/run reads: each phase has one, and their sum is stated and small enough.
func TestBudgets(t *testing.T) {
	root := moduleRoot(t)
	script, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	var phases []string
	for _, match := range regexp.MustCompile(`(?m)^run (?:'([^']+)'|(\S+)) `).FindAllStringSubmatch(string(script), -1) {
		phases = append(phases, match[1]+match[2])
	}
	var budgeted []string
	sum, all := 0, 0
	for _, match := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \| ([0-9]+) \|$`).FindAllStringSubmatch(string(text), -1) {
		seconds, err := strconv.Atoi(match[2])
		if err != nil {
			t.Fatal(err)
		}
		if match[1] == "all phases" {
			all = seconds
			continue
		}
		budgeted = append(budgeted, match[1])
		sum += seconds
	}
	if len(phases) == 0 || !slices.Equal(phases, budgeted) {
		t.Errorf("the phases of .ci/run are %q, CONTRIBUTING.md has budgets of %q", phases, budgeted)
	}
	if sum != all || all > maxCI {
		t.Errorf("the budgets are %d seconds together; CONTRIBUTING.md says %d, and %d are the limit", sum, all, maxCI)
	}
}
