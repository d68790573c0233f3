package qacct

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestManualNamesEveryOption compares execd-qacct(1) and -help with the options of the program.
func TestManualNamesEveryOption(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/man/execd-qacct.1")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern, text string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	all := slices.Sorted(slices.Values(names))
	var explained []string
	for _, line := range find(`(?m)^\.It (Fl .*)`, string(text)) {
		explained = append(explained, find(`Fl ([A-Za-z]+)`, line)...)
	}
	if slices.Sort(explained); !slices.Equal(all, slices.Compact(explained)) {
		t.Errorf("explained are %q, expected %q", explained, all)
	}
	if helped := find(`(?m)^ \[+-([A-Za-z]+)`, Usage); !slices.Equal(all, helped) {
		t.Errorf("listed are %q, expected %q", helped, all)
	}
}
