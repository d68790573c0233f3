package qconf

import (
	"os"
	"strings"
	"testing"
)

// TestManualNamesEveryParameter compares execd-conf(5) with the tables of sge_conf(5)
// and of execd_params.
func TestManualNamesEveryParameter(t *testing.T) {
	text, err := os.ReadFile("../docs/man/execd-conf.5")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for w := range strings.FieldsSeq(string(text)) {
		words[w] = true
	}
	for _, r := range confTable.rows {
		if !words[r.name] {
			t.Errorf("%s of sge_conf(5) is not named", r.name)
		}
	}
	for _, r := range execdParams.rows {
		if !words[r.name] {
			t.Errorf("%s of execd_params is not named", r.name)
		}
	}
}
