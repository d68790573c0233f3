package daemon

import (
	"os"
	"regexp"
	"testing"
)

// TestManualNamesEveryOption compares execd(8) with what --help prints.
func TestManualNamesEveryOption(t *testing.T) {
	text, err := os.ReadFile("../../docs/man/execd.8")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\.It .*`).FindAllString(string(text), -1) {
		for _, m := range regexp.MustCompile(`Fl -([a-z-]+)`).FindAllStringSubmatch(line, -1) {
			explained[m[1]] = true
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  --([a-z-]+)`).FindAllStringSubmatch(Usage, -1) {
		if !explained[m[1]] {
			t.Errorf("--%s is not explained", m[1])
		}
		delete(explained, m[1])
	}
	for name := range explained {
		t.Errorf("--%s is no option", name)
	}
}
