package seff

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/execd-project/execd/accounting"
)

// TestHostileJSON reads a name that contains CSI (U+009B), which orders to terminals begin with, DEL and U+202E,
// which reverses text.
func TestHostileJSON(t *testing.T) {
	var out bytes.Buffer
	in := accounting.AppendJSON(nil, &accounting.Record{Owner: "alice", JobName: "na\u202eme\u009b2J\x7f", Queue: "all.q", Job: 1, Slots: 1})
	c := Command{Args: []string{"--json", "--file", "-", "1"}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: t.Output()}
	if status, err := c.Run(); status != ExitGood || err != nil {
		t.Fatal(status, err)
	}
	if got := out.String(); !strings.Contains(got, `"name":"na\u202eme\u009b2J\u007f"`) || !strings.HasSuffix(got, "}\n") || !json.Valid(out.Bytes()) {
		t.Errorf("%q", got)
	}
}
