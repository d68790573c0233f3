package launcher

import (
	"encoding/json"
	"reflect"
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
	if changes := changesOf(from, d); len(changes) > 0 {
		t.Errorf("a copy differs: %v", changes)
	}
	d.PE.Start, d.Ckpt, d.AddGroupID, d.Limits = "", nil, 7, job.Unlimited()
	d.Environment = append(d.Environment, "C=d")
	if from.PE.Start == "" {
		t.Error("the copy shares its parallel environment")
	}
	text, err := json.Marshal(changesOf(from, d))
	if err != nil {
		t.Fatal(err)
	}
	var changes map[string]json.RawMessage
	if err := decode(text, &changes); err != nil {
		t.Fatal(err)
	}
	if err := change(mine, changes); err != nil || !reflect.DeepEqual(mine, d) {
		t.Errorf("the front has\n%+v, expected\n%+v (%v)", mine, d, err)
	}
	if len(changes) != 5 {
		t.Errorf("the changes are %s", text)
	}
	for name, text := range map[string]string{"Nonesuch": "1", "Name": "1", "PE": `{"x":1}`} {
		if err := change(mine, map[string]json.RawMessage{name: json.RawMessage(text)}); err == nil {
			t.Errorf("a change of %s to %s is accepted", name, text)
		}
	}
}
