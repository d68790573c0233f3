package generate

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/simulate/script"
)

func TestEqualSeedsGiveEqualCases(t *testing.T) {
	for seed := range uint64(50) {
		if diff := cmp.Diff(New(seed), New(seed)); diff != "" {
			t.Fatalf("seed %d: (-first +second)\n%s", seed, diff)
		}
		if diff := cmp.Diff(Extended(seed), Extended(seed)); diff != "" {
			t.Fatalf("seed %d, extended: (-first +second)\n%s", seed, diff)
		}
	}
	if cmp.Equal(New(1), New(2)) {
		t.Error("seeds 1 and 2 give the same case")
	}
}

// TestCasesAreValid checks that a generated case is valid: its configuration and its script.
func TestCasesAreValid(t *testing.T) {
	t.Run("usual", func(t *testing.T) { checkCases(t, New) })
	t.Run("extended", func(t *testing.T) { checkCases(t, Extended) })
}

func checkCases(t *testing.T, newCase func(seed uint64) *Case) {
	t.Helper()
	topics := map[string]int{}
	for seed := range uint64(300) {
		c := newCase(seed)
		dir := t.TempDir()
		if err := c.Write(dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(dir + "/jobs.txt")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := script.Parse(string(text))
		for k := range lines {
			lines[k].Number = 0 // the generator does not count
		}
		if err != nil || !cmp.Equal(lines, c.Script) {
			t.Errorf("seed %d: the script is read otherwise than it was written: %v", seed, err)
		}
		if err := os.Remove(dir + "/input/load_values"); err != nil {
			t.Fatal(err)
		}
		if _, err := qconf.Load(os.DirFS(dir+"/input"), qconf.Builtin(1)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		topics[c.Files["TITLE"]]++
	}
	if len(topics) < 250 {
		t.Errorf("300 seeds give %d kinds of cases only", len(topics))
	}
}
