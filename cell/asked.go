package cell

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"unique"
	"weak"

	"github.com/execd-project/execd/submit"
)

// Request returns the job's request, with all alterations.
func (j *Job) Request() *submit.Request {
	if j.own == nil {
		return j.asked
	}
	r := *j.asked
	o := j.own
	r.Command, r.Name, r.Args, r.Script, r.WorkingDir = o.command, o.name, o.args, o.script, o.directory
	r.Output, r.Error, r.Env, r.PrecedingJobs = o.output, o.errors, o.environment, o.preceding
	return &r
}

// StartRequest returns the request for starting a task of a job. It is Request, with one addition:
// if the job runs in an advance reservation and requests no memory, it contains a request for the
// reservation's memory per slot (MEMORY_POOL in qmaster_params). The host then limits the job to
// that memory.
func (c *Cell) StartRequest(j *Job) *submit.Request {
	r := j.Request()
	lacks := c.state.MemoryFromReservation(j.sched.Category)
	if len(lacks) == 0 {
		return r
	}
	with := *r
	with.Resources = slices.Clone(r.Resources)
	for _, l := range lacks {
		with.Resources = append(with.Resources, submit.ResourceRequest{Name: l.Name, Value: l.Value})
	}
	return &with
}

func (j *Job) script() []byte {
	if j.own != nil {
		return j.own.script
	}
	return j.asked.Script
}

// Sync reports whether qsub(1) waits for the job (-sync y).
func (j *Job) Sync() bool { return j.asked.Sync }

// Draft returns a job that is not in a cell, for display.
func Draft(by Caller, r *submit.Request) *Job {
	return &Job{asked: r, Group: by.Group, Host: by.Host, Origin: by.Origin}
}

// own holds the values that differ among jobs with an otherwise equal request.
type own struct {
	command, name, directory string
	args, preceding          []string
	script                   []byte
	output, errors           []submit.HostPath
	environment              []submit.Variable
}

// ownOf returns the values of a request that differ from common; nil if there are none. Its texts
// are copies, because the originals may be parts of longer texts.
func ownOf(r, common *submit.Request) *own {
	o := &own{
		command: sameText(r.Command, common.Command), name: sameText(r.Name, common.Name), directory: sameText(r.WorkingDir, common.WorkingDir),
		args: sameList(r.Args, common.Args, sameText), preceding: sameList(r.PrecedingJobs, common.PrecedingJobs, sameText),
		script: common.Script,
		output: sameList(r.Output, common.Output, samePath), errors: sameList(r.Error, common.Error, samePath),
		environment: sameList(r.Env, common.Env, sameVariable),
	}
	same := slices.Equal(r.Args, common.Args) && slices.Equal(r.PrecedingJobs, common.PrecedingJobs) &&
		slices.Equal(r.Output, common.Output) && slices.Equal(r.Error, common.Error) && slices.Equal(r.Env, common.Env)
	if !bytes.Equal(r.Script, common.Script) || (r.Script == nil) != (common.Script == nil) {
		o.script, same = r.Script, false
	}
	if same && r.Command == common.Command && r.Name == common.Name && r.WorkingDir == common.WorkingDir {
		return nil
	}
	return o
}

func sameText(text, common string) string {
	if text == common {
		return common
	}
	return strings.Clone(text)
}

func samePath(p, common submit.HostPath) submit.HostPath {
	if p == common {
		return common
	}
	return submit.HostPath{Host: strings.Clone(p.Host), Path: strings.Clone(p.Path)}
}

func sameVariable(v, common submit.Variable) submit.Variable {
	return submit.Variable{Name: sameText(v.Name, common.Name), Value: sameText(v.Value, common.Value)}
}

// sameList returns common if it is equal to list, and otherwise a copy of list. same does so for the
// elements.
func sameList[T comparable](list, common []T, same func(T, T) T) []T {
	if slices.Equal(list, common) && (list == nil) == (common == nil) {
		return common
	}
	if list == nil {
		return nil
	}
	var none T
	copied := make([]T, len(list))
	for i, x := range list {
		other := none
		if i < len(common) {
			other = common[i]
		}
		copied[i] = same(x, other)
	}
	return copied
}

// requestSum is a checksum of a request.
type requestSum [sha256.Size]byte

// commons holds the requests that jobs share, as long as one of the jobs exists.
type commons struct {
	known map[requestSum]weak.Pointer[common]
	most  int // length of known that triggers a search for unused requests
}

func newCommons() *commons { return &commons{known: map[requestSum]weak.Pointer[common]{}} }

// common is a request that jobs share, with its origin.
type common struct {
	request submit.Request
	origin  *Origin
}

// share replaces the request of a job by one that jobs with equal requests share.
func (c *Cell) share(j *Job) { c.shareAmong(c.commons, j) }

func (c *Cell) shareAmong(s *commons, j *Job) {
	j.sched.Owner, j.Group, j.Host = unique.Make(j.sched.Owner).Value(), unique.Make(j.Group).Value(), unique.Make(j.Host).Value()
	if s == nil {
		return
	}
	r := j.Request()
	x := s.like(r, j.Origin)
	j.asked, j.own, j.Origin = &x.request, ownOf(r, &x.request), x.origin
}

// like returns the shared request that is equal to r except for the values in own. If there is none, r
// becomes it.
func (s *commons) like(r *submit.Request, origin *Origin) *common {
	fields := requestFields(*r)
	fields.Command, fields.Name, fields.WorkingDir = "", "", ""
	fields.Args, fields.PrecedingJobs, fields.Output, fields.Error, fields.Env = nil, nil, nil, nil, nil
	sum := requestSum(sha256.Sum256(encode(&requestRecord{Request: &fields, Origin: (*originRecord)(origin)})))
	if x := s.known[sum].Value(); x != nil {
		return x
	}
	if len(s.known) >= s.most {
		for sum, x := range s.known {
			if x.Value() == nil {
				delete(s.known, sum)
			}
		}
		const least = 64
		s.most = 2*len(s.known) + least
	}
	x := &common{*r, origin}
	s.known[sum] = weak.Make(x)
	return x
}
