package submission

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

func parsed(t *testing.T, args ...string) *submit.Request {
	t.Helper()
	r, err := submit.Parse(submit.Input{
		Args: append(args, "-b", "y", "true", "an argument"), Cwd: "/", Env: []string{"PATH=/bin"}, Master: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines are options of jobs.
var lines = [][]string{
	nil,
	{"-N", "n", "-A", "a", "-cwd", "-o", "/out", "-e", "/err", "-i", "/in", "-j", "y", "-S", "/bin/sh", "-v", "A=1,B=\xff"},
	{"-t", "1-10:3", "-l", "h_rt=1:00:00,h_vmem=2G,s_cpu=60,arch=lx*", "-soft", "-l", "h_rt=10,mem_free=1G", "-q", "all.q"},
	{"-shell", "n", "-M", "alice@host", "-m", "be", "-hold_jid", "1,2", "-p", "-5", "-R", "y", "-pe", "smp", "2-4", "-l", "private_tmp"},
}

// TestVerificationIsOfItsSubmission checks that a verifier gets all parameters of a job, and that none of them can differ
// from the submission.
func TestVerificationIsOfItsSubmission(t *testing.T) {
	by := submit.Submitter{Context: "server", Command: "qmaster", User: "alice", Group: "users", Host: "h", Job: 7}
	for _, args := range lines {
		r := parsed(t, args...)
		v := VerificationOf(Of(r, "/", nil), r)
		if err := v.Check(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		if is, want := v.For(by), r.Parameters(by); !slices.Equal(is, want) {
			t.Errorf("%q: the parameters are\n%q, expected\n%q", args, is, want)
		}
		for i, p := range v.Parameters {
			w := &Verification{v.Submission, slices.Clone(v.Parameters)}
			w.Parameters[i][1] += "1"
			if name := string(p[0]); ofSubmission(name) && w.Check() == nil {
				t.Errorf("%q: another %s is accepted", args, name)
			}
			w.Parameters = slices.Delete(w.Parameters, i, i+1)
			if name := string(p[0]); (ofSubmission(name) || name == "l_hard" && len(v.Submission.Limits) > 0) && w.Check() == nil {
				t.Errorf("%q: the verification without %s is accepted", args, name)
			}
		}
		for _, more := range []Pair{{"USER", "root"}, {"GROUP", "root"}, {"JOB_ID", "1"}, {"CMDARG9", "x"}, {"l_hard", "h_rt=5"}, {"N", "m"}, {"x y", ""}, {"", ""}, {"q\nPARAM", "x"}} {
			w := &Verification{v.Submission, append(slices.Clone(v.Parameters), more)}
			if w.Check() == nil {
				t.Errorf("%q: the parameter %q is accepted", args, more)
			}
		}
	}
}

// TestCorrect checks that the changes of a verifier have the same effect on a submission as on its request.
func TestCorrect(t *testing.T) {
	for _, args := range lines {
		for _, changes := range []string{
			"", "N=by_jsv", "A=other cwd=/tmp", "o=/a,h:/b", "o=", "e=/x j=n", "S=/bin/bash", "shell=n", "CMDARG0=x", "CMDARGS=3 CMDARG2=last",
			"l_hard=h_rt=30,h_vmem=1G", "l_hard=", "l_hard=private_tmp=TRUE", "l_soft=h_rt=5", "t_min=1 t_max=4", "t_step=2 t_max=8 t_min=2", "q_hard=other.q pe_name=mpi pe_min=1 pe_max=2",
			"ENV:X=1", "ENV:PATH", "p=-7 M=bob", "nosuch=1",
		} {
			r := parsed(t, args...)
			was := Of(r, "/dir", []string{"HOME=/home"})
			var list []submit.Correction
			for word := range strings.FieldsSeq(changes) {
				name, value, _ := strings.Cut(word, "=")
				name, variable := strings.CutPrefix(name, "ENV:")
				list = append(list, submit.Correction{Parameter: submit.Parameter{Name: name, Value: value}, Variable: variable, Remove: variable && value == ""})
			}
			next, err := was.Correct(list)
			if err != nil {
				t.Errorf("%q, %s: %v", args, changes, err)
				continue
			}
			if _, err := r.Correct(list); err != nil {
				t.Fatal(err)
			}
			if want := Of(r, "/dir", []string{"HOME=/home"}); !reflect.DeepEqual(next, want) || next.Digest("k") != want.Digest("k") {
				t.Errorf("%q, %s: the submission is\n%+v, expected\n%+v", args, changes, next, want)
			}
		}
	}
}
