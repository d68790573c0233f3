package launcher

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

// TestChanges checks that a front gets the description as the launcher has changed it, and that an unchanged description
// is not sent.
func TestChanges(t *testing.T) {
	from := &job.Description{
		Name: "n", Environment: []string{"A=b"}, PE: &job.ParallelEnvironment{Name: "p", Start: "/start"}, Ckpt: &job.Checkpoint{Name: "c"},
	}
	d, mine := copyOf(from), copyOf(from)
	if changes, err := changesOf(from, d); err != nil || strings.Trim(string(changes), "\x00") != "" {
		t.Errorf("a copy differs: %q (%v)", changes, err)
	}
	d.PE.Start, d.Ckpt, d.AddGroupID, d.Limits = "", nil, 7, job.Unlimited()
	d.Environment = append(d.Environment, "C=d")
	if from.PE.Start == "" {
		t.Error("the copy shares its parallel environment")
	}
	changes, err := changesOf(from, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := change(mine, changes); err != nil || !reflect.DeepEqual(mine, d) {
		t.Errorf("the front has\n%+v, expected\n%+v (%v)", mine, d, err)
	}
	for name, text := range map[string][]byte{
		"nothing": {}, "a part": changes[:len(changes)-1], "more": append(slices.Clip(changes), 0),
	} {
		if err := change(copyOf(from), text); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, text := range []string{"\x02\x00", "\x00\x02", "\x01\x00\x00"} {
		if err := change(&struct{ A int }{}, []byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestSplitBody checks that messages are read as they are written, also if a part of the body looks like another body, and
// that a message with a field after the body is not read as one without.
func TestSplitBody(t *testing.T) {
	for _, body := range []string{``, `{}`, `{"a":",\\"body\\":{}"}`, `{"a":1,"body":{"b":2}}`} {
		head, err := json.Marshal(&envelope{Version: Version, Number: 7, Order: kindKeep})
		if err != nil {
			t.Fatal(err)
		}
		e, err := decodeEnvelope(withBody(head, []byte(body)))
		if err != nil || string(e.Body) != body || e.Number != 7 || e.Order != kindKeep {
			t.Errorf("%s: %+v (%v)", body, e, err)
		}
	}
	for text, want := range map[string]string{
		`{"version":2,"number":1,"order":"jobs","body":{},"memory":true}`:           "two bodies",
		`{"version":2,"number":1,"order":"jobs","body":{},"order":"try","body":{}}`: "other data",
		`{"version":2,"number":1,"order":"jobs","body":}}`:                          "invalid character",
		`{"version":2,"x":1,"order":"jobs","body":{}}`:                              "unknown field",
	} {
		o, _, err := unpack([]byte(text), nil)
		if err == nil {
			err = o.read()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}
