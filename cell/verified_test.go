package cell

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

// TestNumbersOfVerifiedJobs checks that a job whose verification took longer than that of later jobs
// gets the number that was announced for it, unless another job has that number.
func TestNumbersOfVerifiedJobs(t *testing.T) {
	h := newHarness(t, small)
	request := func() *submit.Request {
		r, err := submit.Parse(submit.Input{Args: strings.Fields("-h -b y sleep"), Master: true, Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, err := h.Examine(h.now, caller("alice"), request())
	if err != nil || a.ID != 1 || len(h.Jobs()) != 0 {
		t.Fatalf("%+v, %v, %d jobs", a, err, len(h.Jobs()))
	}
	h.sub("bob", "-h")
	submitAs := func(number, want uint32) {
		t.Helper()
		if a, err := h.SubmitAs(h.now, caller("alice"), request(), number); err != nil || a.ID != want {
			t.Errorf("as %d: %+v, %v, want %d", number, a, err, want)
		}
	}
	submitAs(1, 1)
	submitAs(1, 3)  // a number that was assigned before
	submitAs(99, 4) // a number that was not assigned yet
	if got := h.ids(); !slices.Equal(got, []uint32{1, 2, 3, 4}) {
		t.Error(got)
	}
}

// TestAllowedModifications checks the answers if jobs are verified and most alterations are not
// allowed; they are the original's.
func TestAllowedModifications(t *testing.T) {
	for allowed, lines := range map[string][][2]string{
		"none": {
			{"-N x 1", "No job modification allowed due to jsv_allowed_mod configuration"},
			{"-w v 99 98", "No job modification allowed due to jsv_allowed_mod configuration\nNo job modification allowed due to jsv_allowed_mod configuration"},
		},
		"N,l_hard": {
			{"-R y -l h_rt=5 -q all.q -notify 1", "rejected due to jsv_allowed_mod configuration which does not allow: R,notify,q_hard"},
			{"-soft -l s_rt=5 -q a -hard -q b 1", "rejected due to jsv_allowed_mod configuration which does not allow: l_soft,q_hard,q_soft"},
			{"-p -3 -M x -m b -h u -A c -wd /tmp 1", "rejected due to jsv_allowed_mod configuration which does not allow: A,h,t,m,M,p,cwd"},
			{"-c 0:1:0 1", "rejected due to jsv_allowed_mod configuration which does not allow: c_interval"},
			{"-c sx -ckpt x 1", "rejected due to jsv_allowed_mod configuration which does not allow: c_occasion,ckpt"},
			{"-pe make 2 99", "rejected due to jsv_allowed_mod configuration which does not allow: pe_name,pe_min"},
			{"-ac a=1 -dc b -v A=1 1", "rejected due to jsv_allowed_mod configuration which does not allow: v,ac"},
			{"-N y 1", "modified job name of job 1"},
		},
	} {
		h := newHarness(t, small.with(files{"conf/global": "jsv_url /opt/verify\njsv_allowed_mod " + allowed}))
		h.sub("alice", "-h")
		for _, l := range lines {
			h.said(h.alter("alice", l[0]), l[1])
		}
	}
}
