package launch

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/job"
)

// TestMoveTmpdir checks that the description of a job whose TMPDIR got another name has this name
// everywhere, whatever its user has put into the environment.
func TestMoveTmpdir(t *testing.T) {
	_, o := orderOf(t, "-v", "TMPDIR=/mine,PATH=/a:/b,X=/tmp", "-o", "$TMPDIR/out")
	id := job.ID{Job: 7}
	want, err := o.Describe(id, "/spool", "/other/7.1.all.q.abc")
	if err != nil {
		t.Fatal(err)
	}
	got, err := o.Describe(id, "/spool", "")
	if err != nil {
		t.Fatal(err)
	}
	moveTmpdir(got, "/other/7.1.all.q.abc")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("moved (+) and described so (-):\n%s", diff)
	}
}

// TestPlanAsJSON checks that a plan is the same after it was sent to another process.
func TestPlanAsJSON(t *testing.T) {
	_, o := orderOf(t, "-binding", "linear:1", "-l", "h_rt=100,h_vmem=1G")
	o.Record = []byte("record")
	p, err := o.Plan(job.ID{Job: 7}, "/spool", false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var again Plan
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	b2, err := json.Marshal(&again)
	if err != nil || string(b) != string(b2) {
		t.Errorf("%s\nbecame (%v)\n%s", b, err, b2)
	}
	if again.Cores == nil || again.Description.Limits != p.Description.Limits || again.Description.Owner != o.Owner.Name {
		t.Errorf("%+v", again)
	}
}
