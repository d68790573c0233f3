package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/execd-project/execd/agent/launch"
)

// TestLackOfHost checks that the errors of a host that cannot give a job what its master has granted keep their kinds, and
// their texts: an agent reports them differently from a fault of the host.
func TestLackOfHost(t *testing.T) {
	sent := func(err error) error {
		text, e := json.Marshal(errorOf(fmt.Errorf("prepare: %w", err)))
		if e != nil {
			t.Fatal(e)
		}
		got := &Error{}
		if err := json.Unmarshal(text, got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	few := &launch.GPUError{Complex: "gpu", Want: 2, Offered: 1, Others: 1}
	if got, ok := errors.AsType[*launch.GPUError](sent(few)); !ok || !reflect.DeepEqual(got, few) {
		t.Errorf("a lack of GPUs: %v", got)
	}
	none := &launch.ScratchError{Limit: "quota", Err: errors.New("no quota on /tmp")}
	if got, ok := errors.AsType[*launch.ScratchError](sent(none)); !ok || got.Error() != none.Error() {
		t.Errorf("a lack of scratch space: %v", got)
	}
	if _, ok := errors.AsType[*launch.ScratchError](sent(few)); ok {
		t.Error("a lack of GPUs is one of scratch space")
	}
}
