package launcher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// siteVerifier is a verifier of jobs. It sets the argument of a job, and refuses jobs of the name "refused".
type siteVerifier struct {
	mu  sync.Mutex
	saw []submit.Parameter // of the last job
}

func (v *siteVerifier) verify(_ context.Context, parameters []submit.Parameter, _ []submit.Variable) ([]submit.Correction, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.saw = parameters
	if slices.Contains(parameters, submit.Parameter{Name: "N", Value: "refused"}) {
		return nil, errors.New("no")
	}
	if slices.Contains(parameters, submit.Parameter{Name: "JOB_ID", Value: "8"}) {
		return nil, nil
	}
	return []submit.Correction{
		{Parameter: submit.Parameter{Name: "CMDARG0", Value: "changed"}}, {Parameter: submit.Parameter{Name: "q_hard", Value: "x.q"}},
	}, nil
}

func (v *siteVerifier) last() []submit.Parameter {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.saw
}

// newVerifyingWorld returns a world whose launcher has a verifier of jobs.
func newVerifyingWorld(t *testing.T) (w *world, s *Server, d *SubmissionSocket, site *siteVerifier) {
	t.Helper()
	w, s = makeWorld(t)
	var err error
	if s.Rules.Submissions, err = OpenSubmissions(w.spool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Rules.Submissions.Close)
	if s.Config, err = qconf.ParseConfiguration("global", []byte("min_uid 1000\njsv_url /site/jsv\n")); err != nil {
		t.Fatal(err)
	}
	s.Rules.Site = Site{Host: "host", Config: s.Config, Objects: Objects{Shells: []string{"/bin/sh"}}, BinaryPath: "/usr/sbin", Arch: "lx-amd64"}
	site = &siteVerifier{}
	s.Verify = site.verify
	d = &SubmissionSocket{submissions: s.Rules.Submissions, users: userdb.System(), minUID: 1000, verifies: s.Rules.Site.verifies()}
	w.serve(s)
	return w, s, d, site
}

// typed submits a job to the submission socket, as qsub does.
func typed(t *testing.T, d *SubmissionSocket, uid uint32, key string, args ...string) *submission.Verification {
	t.Helper()
	r, err := submit.Parse(submit.Input{Args: append(args, "-l", "h_rt=100", "-b", "y", "true", "an argument"), Cwd: "/", Master: true})
	if err != nil {
		t.Fatal(err)
	}
	v := submission.VerificationOf(submission.Of(r, "/", nil), r)
	if err := d.note(uid, &claim.Claim{Key: key, Digest: v.Submission.Digest(key), Verification: v.Digest(key)}); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVerify checks that the launcher has the verifier of the site check a submission, and that it starts only what
// the verifier has accepted, with the changes of the verifier.
func TestVerify(t *testing.T) {
	w, s, d, site := newVerifyingWorld(t)
	uid, subs := w.owner.UID, s.Rules.Submissions
	if err := d.note(uid, &claim.Claim{Key: "old", Digest: (&submission.Submission{}).Digest("old")}); err == nil {
		t.Error("the launcher accepts a submission that it cannot verify")
	}
	v := typed(t, d, uid, "k", "-N", "n")
	if _, err := subs.Find(uid, "k"); err == nil {
		t.Error("a job can be started before the verification")
	}
	var a verifyAnswer
	w.must(kindVerify, &verifyBody{uid, "k", 7, v}, &a)
	for _, p := range []submit.Parameter{{Name: "USER", Value: w.owner.Name}, {Name: "JOB_ID", Value: "7"}, {Name: "M", Value: w.owner.Name + "@host"}, {Name: "l_hard", Value: "h_rt=100"}} {
		if !slices.Contains(site.last(), p) {
			t.Errorf("the verifier gets %q, expected %q among them", site.last(), p)
		}
	}
	changed := *v.Submission
	changed.Args = []submission.Text{"changed"}
	digest, err := subs.Find(uid, "k")
	if err != nil || digest != changed.Digest("k") || a.Digest != digest || len(a.Corrections) != 2 {
		t.Errorf("the digest is %q (%v), the answer %+v", digest, err, a)
	}
	if err := subs.Amend(uid, "k2", changed.Digest("k2"), &claim.Source{UID: uid, Key: "k", Digest: digest, Job: 7}, 7); err != nil {
		t.Errorf("the verified job cannot be changed: %v", err)
	}

	v = typed(t, d, uid, "r", "-N", "refused")
	a = verifyAnswer{}
	if w.must(kindVerify, &verifyBody{uid, "r", 8, v}, &a); a.Rejected != "no" {
		t.Errorf("the answer is %+v, expected that the job is rejected", a)
	}
	if _, err := subs.Find(uid, "r"); err == nil {
		t.Error("a job can be started that the verifier has refused")
	}
}

// TestForgedVerifications checks that a captured front can give the verifier of the site only jobs that their users
// have submitted, in particular none in the name of another user.
func TestForgedVerifications(t *testing.T) {
	w, s, d, site := newVerifyingWorld(t)
	uid := w.owner.UID
	if err := s.Rules.Submissions.Add(uid, "plain", (&submission.Submission{}).Digest("plain")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		forge func(b *verifyBody)
		want  string
	}{
		"another command":  {func(b *verifyBody) { b.Verification.Submission.Command = "other" }, "not those of the submission"},
		"another argument": {func(b *verifyBody) { b.Verification.Submission.Args[0] = "x" }, "not those of the submission"},
		"another script":   {func(b *verifyBody) { b.Verification.Submission.Script = submission.ScriptSum(nil) }, "another job"},
		"another variable": {func(b *verifyBody) { b.Verification.Submission.Env = []submission.Pair{{"A", "2"}} }, "another job"},
		"another queue": {func(b *verifyBody) {
			b.Verification.Parameters = append(b.Verification.Parameters, submission.Pair{"q_hard", "x"})
		}, "another job"},
		"another address":            {func(b *verifyBody) { setParameter(b, "M", "x") }, "another job"},
		"another limit":              {func(b *verifyBody) { setParameter(b, "l_hard", "h_rt=200") }, "limits"},
		"limits that cannot be read": {func(b *verifyBody) { setParameter(b, "l_hard", "=,=") }, "limits"},
		"a user": {func(b *verifyBody) {
			b.Verification.Parameters = append(b.Verification.Parameters, submission.Pair{"USER", "root"})
		}, "not those of the submission"},
		"a line feed": {func(b *verifyBody) {
			b.Verification.Parameters = append(b.Verification.Parameters, submission.Pair{"q\nUSER", "root"})
		}, "character"},
		"a parameter twice": {func(b *verifyBody) {
			b.Verification.Parameters = append(b.Verification.Parameters, submission.Pair{"M", "x"})
		}, "twice"},
		"no parameters":                  {func(b *verifyBody) { b.Verification.Parameters = nil }, "not those of the submission"},
		"no submission":                  {func(b *verifyBody) { b.Verification.Submission = nil }, "no submission"},
		"nothing":                        {func(b *verifyBody) { b.Verification = nil }, "no submission"},
		"the name of root":               {func(b *verifyBody) { b.UID = 0 }, "has not submitted"},
		"the name of another user":       {func(b *verifyBody) { b.UID++ }, "has not submitted"},
		"a key that leads up":            {func(b *verifyBody) { b.Key = "../0.k" }, "no submission"},
		"a key that the user has not":    {func(b *verifyBody) { b.Key = "other" }, "has not submitted"},
		"what needs no verification":     {func(b *verifyBody) { b.Key = "plain" }, "has not submitted"},
		"no job number":                  {func(b *verifyBody) { b.Job = 0 }, "invalid job ID"},
		"the way to a terminal":          {func(b *verifyBody) { b.Verification.Submission.Interactive = true }, "another job"},
		"a directory":                    {func(b *verifyBody) { b.Verification.Submission.Directory = "/etc" }, "another job"},
		"tasks that the user wants none": {func(b *verifyBody) { b.Verification.Submission.Array = &submit.Array{First: 1, Last: 9, Step: 1} }, "not those of the submission"},
	} {
		b := &verifyBody{uid, "k", 7, typed(t, d, uid, "k")}
		c.forge(b)
		w.refusedWith(name, w.ask(kindVerify, b), c.want)
	}
	if saw := site.last(); saw != nil {
		t.Errorf("the verifier got %q", saw)
	}
	if err := w.ask(kindVerify, &verifyBody{uid, "k", 7, typed(t, d, uid, "k")}); err != nil || site.last() == nil {
		t.Errorf("the submission of the user: %v", err)
	}
	if err := s.Rules.Submissions.Bind(uid, "k", 7); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(kindVerify, &verifyBody{uid, "k", 8, typed(t, d, uid, "k")}); err == nil || !strings.Contains(err.Text, "a job was started") {
		t.Errorf("the submission of a job that has started: %v", err)
	}
	_ = w.audits()
	o := w.order(s, "unverified", job.ID{Job: 9})
	o.key = "k3"
	typed(t, d, uid, "k3")
	w.refusedWith("a job that was not verified", w.prepare(o), "has not submitted")
}

func setParameter(b *verifyBody, name, value submission.Text) {
	for i, p := range b.Verification.Parameters {
		if p[0] == name {
			b.Verification.Parameters[i][1] = value
			return
		}
	}
}
