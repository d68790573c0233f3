// Package submission describes the part of a user's submission that determines what runs with the
// user's rights: the program, its arguments, environment, directory, files and limits. With
// --front-user, the command computes a digest of it and sends that to the launcher over the
// launcher's own socket. The launcher then starts nothing else for this user. See
// docs/design/front-and-launcher.md.
//
// Other projects should not import this package: it may change at any time.
//
// All functions are safe for concurrent use.
package submission

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Text is a string of any bytes. In JSON a string that is not UTF-8 is an object with its base64, because JSON
// would replace the other bytes, and different texts would have the same digest.
type Text string

type encoded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes a string, or {"base64": "..."}.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encoded{[]byte(t)})
}

// UnmarshalJSON reads the format of MarshalJSON.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encoded
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		*t = Text(e.Base64)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// Pair is a name with a value: a variable, or a host with its path.
type Pair [2]Text

// Limit is a hard request for a limit of the job (submit.LimitRequest).
type Limit struct {
	Resource int    `json:"resource"`
	Hard     bool   `json:"hard,omitempty"`
	Value    uint64 `json:"value"`
}

// Submission is a user's submission. It does not contain the scheduler's decisions and settings
// that only affect the order of jobs: the queue, the number of slots, resources that are not
// limits, priorities, holds and dates.
type Submission struct {
	Command    Text          `json:"command"`
	Script     string        `json:"script,omitempty"` // SHA-256 of the script in hexadecimal; empty with Binary
	Args       []Text        `json:"args,omitempty"`
	Binary     bool          `json:"binary,omitempty"`
	NoShell    bool          `json:"no_shell,omitempty"`
	Login      bool          `json:"login,omitempty"`
	Shell      []Pair        `json:"shell,omitempty"` // hosts and paths, as all paths
	Name       Text          `json:"name"`
	Account    Text          `json:"account,omitempty"`
	Input      []Pair        `json:"input,omitempty"`
	Output     []Pair        `json:"output,omitempty"`
	Error      []Pair        `json:"error,omitempty"`
	Join       bool          `json:"join,omitempty"`
	WorkingDir Text          `json:"working_dir,omitempty"`
	Env        []Pair        `json:"env,omitempty"` // variables, in their order
	Array      *submit.Array `json:"array,omitempty"`
	Limits     []Limit       `json:"limits,omitempty"`
	// PrivateTmp says that the job has a hard request for private_tmp, under this name: see docs/private-files.md.
	PrivateTmp bool `json:"private_tmp,omitempty"`
	// Interactive says that the user attaches to the job: without it the input of the job is a file.
	Interactive bool `json:"interactive,omitempty"`
	// Directory is the directory of the command, and Origin holds the values of the job's SGE_O_
	// variables (submit.Origin).
	Directory Text   `json:"directory"`
	Origin    []Text `json:"origin,omitempty"`
}

// Of describes a request, which has its script. dir and origin are the directory of the command and
// submit.Origin of its environment.
func Of(r *submit.Request, dir string, origin []string) *Submission {
	s := &Submission{
		Command: Text(r.Command), Binary: r.Binary, NoShell: r.NoShell, Login: r.Login, Name: Text(r.Name), Account: Text(r.Account),
		Join: r.Join, WorkingDir: Text(r.WorkingDir), Array: r.Array, Directory: Text(dir),
		Args: Texts(r.Args), Origin: Texts(origin),
		Shell: paths(r.Shell), Input: paths(r.Input), Output: paths(r.Output), Error: paths(r.Error),
	}
	if !r.Binary {
		s.Script = ScriptSum(r.Script)
	}
	for _, v := range r.Env {
		s.Env = append(s.Env, Pair{Text(v.Name), Text(v.Value)})
	}
	for _, l := range r.LimitRequests() {
		s.Limits = append(s.Limits, Limit{int(l.Resource), l.Hard, l.Value})
	}
	s.PrivateTmp = privateTmp(r)
	return s
}

// privateTmp reports whether a job has a hard request for private files.
func privateTmp(r *submit.Request) bool {
	var hard []qconf.Setting
	for _, q := range r.Resources {
		if !q.Soft {
			hard = append(hard, qconf.Setting{Name: q.Name, Value: q.Value})
		}
	}
	return (*qconf.Complexes)(nil).RequestsPrivateTmp(hard)
}

// OfInteractive describes a request of qrsh or qlogin, as Of does for qsub. A request without a
// command runs the login shell, and has no script.
func OfInteractive(r *submit.Request, dir string, origin []string) *Submission {
	request := *r
	request.Binary = r.Binary || r.Login
	s := Of(&request, dir, origin)
	s.Interactive = true
	return s
}

// Alter applies what qalter changes of a job.
func (s *Submission) Alter(a *submit.Alteration) {
	is := Of(&a.Request, "", nil)
	for _, option := range a.Options {
		switch option {
		case "-N":
			if is.Name != "" {
				s.Name = is.Name
			}
		case "-A":
			s.Account = is.Account
		case "-cwd", "-wd":
			s.WorkingDir = is.WorkingDir
		case "-i":
			s.Input = is.Input
		case "-o":
			s.Output = is.Output
		case "-e":
			s.Error = is.Error
		case "-j":
			s.Join = is.Join
		case "-S":
			s.Shell = is.Shell
		case "-v", "-V":
			s.Env = is.Env
		case "-l":
			hard := func(r submit.ResourceRequest) bool { return !r.Soft }
			if list := a.Request.Resources; len(list) == 0 || slices.ContainsFunc(list, hard) {
				s.Limits, s.PrivateTmp = is.Limits, is.PrivateTmp
			}
		}
	}
}

// ScriptSum returns the value of Submission.Script for a script.
func ScriptSum(script []byte) string {
	sum := sha256.Sum256(script)
	return hex.EncodeToString(sum[:])
}

// Texts converts strings.
func Texts(list []string) (to []Text) {
	for _, s := range list {
		to = append(to, Text(s))
	}
	return to
}

func stringsOf(list []Text) (to []string) {
	for _, s := range list {
		to = append(to, string(s))
	}
	return to
}

func paths(list []submit.HostPath) (to []Pair) {
	for _, p := range list {
		to = append(to, Pair{Text(p.Host), Text(p.Path)})
	}
	return to
}

func hostPaths(list []Pair) (to []submit.HostPath) {
	for _, p := range list {
		to = append(to, submit.HostPath{Host: string(p[0]), Path: string(p[1])})
	}
	return to
}

// Request returns a request with the fields of the submission. The caller passes the script, and
// must compare it with Submission.Script.
func (s *Submission) Request(script []byte) *submit.Request {
	r := &submit.Request{
		Command: string(s.Command), Script: script, Args: stringsOf(s.Args), Binary: s.Binary, NoShell: s.NoShell, Login: s.Login,
		Shell: hostPaths(s.Shell), Name: string(s.Name), Account: string(s.Account),
		Input: hostPaths(s.Input), Output: hostPaths(s.Output), Error: hostPaths(s.Error),
		Join: s.Join, WorkingDir: string(s.WorkingDir), Array: s.Array,
	}
	for _, v := range s.Env {
		r.Env = append(r.Env, submit.Variable{Name: string(v[0]), Value: string(v[1])})
	}
	return r
}

// Environment returns Submission.Origin as strings.
func (s *Submission) Environment() []string { return stringsOf(s.Origin) }

// Ceiling returns the largest value of a limit that the user has requested; ok is false if the user
// has not requested it.
func (s *Submission) Ceiling(r job.Resource, hard bool) (value uint64, ok bool) {
	for _, l := range s.Limits {
		if l.Resource == int(r) && l.Hard == hard && (!ok || l.Value < value) {
			value, ok = l.Value, true
		}
	}
	return value, ok
}

// Digest returns the digest of a submission under its key, in 43 characters.
func (s *Submission) Digest(key string) string {
	text, err := s.appendJSON(make([]byte, 0, 4<<10))
	if err != nil {
		return "" // not a digest, and matches none
	}
	return Digest(key, text)
}

// Digest returns the digest under a key of a submission that is in JSON.
func Digest(key string, text []byte) string {
	sum := sha256.New()
	sum.Write([]byte("execd submission 1\n" + key + "\n"))
	sum.Write(text)
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// Lengths of keys and digests.
const (
	mostKey      = 32
	lengthDigest = 43
)

// ValidKey reports whether a key has 1 to 32 letters and digits.
func ValidKey(key string) bool {
	return key != "" && len(key) <= mostKey && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// ValidDigest reports whether a text could be a digest.
func ValidDigest(digest string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(digest)
	return err == nil && len(b) == sha256.Size && len(digest) == lengthDigest
}
