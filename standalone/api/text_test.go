package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/execd-project/execd/standalone/api"
)

// TestTextsOfMarkup checks that lists of XML arrive unchanged, and that the encoding does not double
// their size.
func TestTextsOfMarkup(t *testing.T) {
	sent := api.Text(strings.Repeat("    <job_list state=\"pending\">a & b\u2028</job_list>\n", 100))
	b, err := json.Marshal(struct {
		T api.Text `json:"t"`
	}{sent})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ T api.Text }
	if err := json.Unmarshal(b, &got); err != nil || got.T != sent {
		t.Errorf("%q, %v", got.T, err)
	}
	raw, err := sent.MarshalJSON()
	if err != nil || len(raw) > len(sent)*5/4 {
		t.Errorf("%d bytes for a text of %d, %v", len(raw), len(sent), err)
	}
}
