package launcher

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
)

// TestChanges checks that a front gets the description as the launcher has changed it, and that an unchanged description
// is not sent.
func TestChanges(t *testing.T) {
	from := &job.Description{
		Name: "n", Environment: []string{"A=b"}, PE: &job.ParallelEnvironment{Name: "p", Start: "/start"}, Ckpt: &job.Checkpoint{Name: "c"},
	}
	d, mine := copyOf(from), copyOf(from)
	if changes := changesOf(from, d); len(changes) > 0 {
		t.Errorf("a copy differs: %v", changes)
	}
	d.PE.Start, d.Ckpt, d.AddGroupID, d.Limits = "", nil, 7, job.Unlimited()
	d.Environment = append(d.Environment, "C=d")
	if from.PE.Start == "" {
		t.Error("the copy shares its parallel environment")
	}
	changes, err := rawChanges(from, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := change(mine, changes); err != nil || !reflect.DeepEqual(mine, d) {
		t.Errorf("the front has\n%+v, expected\n%+v (%v)", mine, d, err)
	}
	if len(changes) != 5 {
		t.Errorf("the changes are %s", changes)
	}
	for name, text := range map[string]string{"Nonesuch": "1", "Name": "1", "PE": `{"x":1}`, "Limits": `{"99":{}}`} {
		if err := change(mine, map[string]json.RawMessage{name: json.RawMessage(text)}); err == nil {
			t.Errorf("a change of %s to %s is accepted", name, text)
		}
	}
}

// TestOrderAsSent checks that the launcher gets the description of an order as it is, with each field.
func TestOrderAsSent(t *testing.T) {
	d := &job.Description{}
	for _, path := range fieldsOf(reflect.ValueOf(d).Elem(), "") {
		for _, value := range forgeries {
			for _, from := range []*job.Description{{}, usual()} {
				forge(t, reflect.ValueOf(from).Elem(), strings.Split(path, "."), value)
				sent, err := asSentOrder(&prepareBody{Plan: &launch.Plan{Description: from}, Texts: textsOf(from)})
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(sent)
				if err != nil {
					t.Fatal(err)
				}
				var got prepareBody
				if err := errors.Join(decode(text, &got), got.restore()); err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if same, err := same(got.Plan.Description, from); err != nil || !same {
					t.Errorf("%s: the launcher gets\n%+v, expected\n%+v (%v)", path, got.Plan.Description, from, err)
				}
			}
		}
	}
	twice := &prepareBody{Plan: &launch.Plan{Description: d}, Changes: map[string]json.RawMessage{}}
	if err := twice.restore(); err == nil {
		t.Error("a description and its changes are accepted")
	}
}

// TestSplitBody checks that messages are read as they are written, also if a part of the body looks like another body, and
// that a message with a field after the body is not read as one without.
func TestSplitBody(t *testing.T) {
	for _, body := range []string{``, `{}`, `{"a":",\\"body\\":{}"}`, `{"a":1,"body":{"b":2}}`} {
		head, err := json.Marshal(&envelope{Version: Version, Number: 7, Order: kindNote})
		if err != nil {
			t.Fatal(err)
		}
		e, err := decodeEnvelope(withBody(head, []byte(body)))
		if err != nil || string(e.Body) != body || e.Number != 7 || e.Order != kindNote {
			t.Errorf("%s: %+v (%v)", body, e, err)
		}
	}
	for text, want := range map[string]string{
		`{"version":1,"number":1,"order":"jobs","body":{},"memory":true}`:           "two bodies",
		`{"version":1,"number":1,"order":"jobs","body":{},"order":"try","body":{}}`: "other data",
		`{"version":1,"number":1,"order":"jobs","body":}}`:                          "invalid character",
		`{"version":1,"x":1,"order":"jobs","body":{}}`:                              "unknown field",
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
