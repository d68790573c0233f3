package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/job"
)

// TestGrantedVariables checks that variables name the resources that a master has granted, and that
// procedures do not get the user's values of these variables.
func TestGrantedVariables(t *testing.T) {
	o := &Assignment{
		Elements: map[string][]string{"gpu": {"gpu0", "gpu1"}},
		Amounts:  map[string]float64{"lic": 2, "gpu": 2, "scratch": 0.5},
	}
	p := &Plan{Description: &job.Description{Environment: []string{"SGE_HGR_lic=9"}}}
	o.planElements(p)
	want := []string{"SGE_HGR_lic=9", "SGE_HGR_gpu=gpu0 gpu1", "SGE_HGR_lic=2.000000", "SGE_HGR_scratch=0.500000"}
	if diff := cmp.Diff(want, p.Description.Environment); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"SGE_HGR_gpu", "SGE_HGR_lic", "SGE_HGR_scratch"}, p.Description.Trusted); diff != "" {
		t.Error(diff)
	}
}
