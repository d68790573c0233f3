package requests

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/submit"
)

func TestBindingRequests(t *testing.T) {
	for text, want := range map[string]binding.Request{
		"linear:3":             {Strategy: binding.Linear, Amount: 3},
		"linear":               {Strategy: binding.Linear, Slots: true},
		"env linear:slots:1,2": {Instance: binding.Env, Strategy: binding.Linear, Slots: true, HasStart: true, Socket: 1, Core: 2},
		"pe striding:2:4:0,1":  {Instance: binding.PE, Strategy: binding.Striding, Amount: 2, Step: 4, HasStart: true, Core: 1},
		"set explicit:1,0:0,1": {Strategy: binding.Explicit, Pairs: []topology.Pair{{Socket: 1}, {Core: 1}}},
	} {
		b, err := submit.ParseBinding(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, Binding(&b), cmp.Comparer(func(a, b topology.CPUSet) bool { return a.String() == b.String() })); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	}
}
