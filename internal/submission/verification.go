package submission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/submit"
)

// Verification is a submission with all parameters of its request that a verifier of the site gets (jsv_url of
// sge_conf(5)). It does not contain the submitter and the job number, which the launcher adds.
type Verification struct {
	Submission *Submission `json:"submission"`
	Parameters []Pair      `json:"parameters"` // names and values, as submit.Request.Parameters returns them
}

// VerificationOf describes a request, of which s is the submission.
func VerificationOf(s *Submission, r *submit.Request) *Verification {
	v := &Verification{Submission: s}
	for _, p := range r.Parameters(toServer) {
		v.Parameters = append(v.Parameters, Pair{Text(p.Name), Text(p.Value)})
	}
	return v
}

// toServer is the submitter in a Verification, without names.
var toServer = submit.Submitter{Context: "server", Command: "qmaster"}

// ownAddress is the value of the parameter M of a request without -M, for the submitter in a Verification.
const ownAddress = "@"

// Digest returns the digest of a verification under a key, in 43 characters.
func (v *Verification) Digest(key string) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // not a digest, and matches none
	}
	return Digest(key, text)
}

// Check refuses a verification whose parameters are not those of its submission: the verifier would accept one job,
// and another would run.
func (v *Verification) Check() error {
	if v.Submission == nil {
		return errors.New("the order has no submission to verify")
	}
	seen := make(map[Text]bool, len(v.Parameters))
	var is []submit.Parameter
	hard := ""
	for _, p := range v.Parameters {
		name := string(p[0])
		switch {
		case seen[p[0]]:
			return fmt.Errorf("the parameter %.200q occurs twice", name)
		case name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}):
			return fmt.Errorf("the parameter %.200q contains a character that is not allowed in names", name)
		case name == "l_hard":
			hard = string(p[1])
		}
		seen[p[0]] = true
		if ofSubmission(name) {
			is = append(is, submit.Parameter{Name: name, Value: string(p[1])})
		}
	}
	r := v.Submission.Request(nil)
	want := slices.DeleteFunc(r.Parameters(toServer), func(p submit.Parameter) bool { return !ofSubmission(p.Name) })
	if !slices.Equal(is, want) {
		return errors.New("the parameters are not those of the submission")
	}
	requested := &submit.Request{}
	_, err := requested.Correct([]submit.Correction{{Parameter: submit.Parameter{Name: "l_hard", Value: hard}}})
	if of := Of(requested, "", nil); err != nil || !slices.Equal(of.Limits, v.Submission.Limits) || of.PrivateTmp != v.Submission.PrivateTmp {
		return fmt.Errorf("the limits %.200q are not those of the submission", hard)
	}
	return nil
}

// ofSubmission reports whether a parameter follows from a Submission, or describes the submitter.
func ofSubmission(name string) bool {
	switch name {
	case "VERSION", "CONTEXT", "CLIENT", "USER", "GROUP", "JOB_ID", "CMDNAME", "A", "b", "cwd", "e", "i", "j", "N", "o", "S", "shell":
		return true
	}
	return strings.HasPrefix(name, "CMDARG") || strings.HasPrefix(name, "t_")
}

// For returns the parameters for a verifier, as submit.Request.Parameters returns them for this submitter.
func (v *Verification) For(by submit.Submitter) (list []submit.Parameter) {
	for _, p := range v.Parameters {
		name, value := string(p[0]), string(p[1])
		if name == "M" && value == ownAddress {
			value = by.User + "@" + by.Host
		}
		list = append(list, submit.Parameter{Name: name, Value: value})
	}
	head := (&submit.Request{}).Parameters(by)
	last := slices.IndexFunc(head, func(p submit.Parameter) bool { return p.Name == "CMDNAME" })
	first := slices.IndexFunc(list, func(p submit.Parameter) bool { return p.Name == "CMDNAME" })
	return append(head[:max(last, 0)], list[max(first, 0):]...)
}

// Correct returns the submission with the changes of a verifier. It ignores changes of parameters that are not in the
// submission.
func (s *Submission) Correct(changes []submit.Correction) (*Submission, error) {
	var own []submit.Correction
	limits := false
	for _, c := range changes {
		hard := !c.Variable && c.Name == "l_hard"
		limits = limits || hard
		if c.Variable || hard || ofSubmission(c.Name) {
			own = append(own, c)
		}
	}
	r := s.Request(nil)
	if _, err := r.Correct(own); err != nil {
		return nil, err
	}
	next := Of(r, string(s.Directory), s.Environment())
	next.Script, next.Interactive = s.Script, s.Interactive
	if !limits {
		next.Limits, next.PrivateTmp = s.Limits, s.PrivateTmp
	}
	return next, nil
}
