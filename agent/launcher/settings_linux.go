package launcher

import (
	"errors"
	"fmt"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/ptf"
	"github.com/execd-project/execd/qconf"
)

// Attributes are the attributes of sge_conf(5) that the launcher needs. It takes them from root's configuration.
var Attributes = []string{"min_uid", "min_gid", "gid_range", "execd_params", "rsh_command", "cgroups_params", "shepherd_cmd", "reprioritize", "jsv_url", "qmaster_params"}

// settings are the attributes of sge_conf(5) whose values the launcher takes from root's configuration, and not
// from the front.
type settings struct {
	CgroupsParams string `json:"cgroups_params"`
	UseCgroups    bool   `json:"use_cgroups"`   // USE_CGROUPS of execd_params
	ScratchLimit  string `json:"scratch_limit"` // SCRATCH_LIMIT of execd_params
	ShepherdCmd   string `json:"shepherd_cmd"`
	Reprioritize  bool   `json:"reprioritize"`
	JSVURL        string `json:"jsv_url"`
	// Ordered says that a master orders jobs. Then jsv_url has no effect: the master runs its verifier.
	Ordered bool `json:"ordered"`
	// Start are all values that the launcher was started with, as text. A front continues only with a launcher that has
	// the same ones.
	Start string `json:"start"`
}

// settingsOf returns the settings of a configuration.
func settingsOf(c *qconf.Configuration) settings {
	params, _ := c.Value("cgroups_params")
	return settings{params, c.ExecdParams.UseCgroups, string(c.ExecdParams.ScratchLimit), c.ShepherdCmd, c.Reprioritize, c.JSVURL, false, ""}
}

// started returns the values that a launcher is started with: the attributes, and the GPUs.
func started(c *qconf.Configuration, gpus []string) string {
	var b strings.Builder
	for _, name := range Attributes {
		value, _ := c.Value(name)
		b.WriteString(name + " " + value + "\n")
	}
	b.WriteString(launch.GPUMap + " " + strings.Join(gpus, " ") + "\n")
	return b.String()
}

// permit refuses a configuration whose settings differ from those of the launcher.
func (s settings) permit(c *qconf.Configuration) error {
	is := settingsOf(c)
	if s.Ordered {
		is.JSVURL = s.JSVURL
	}
	for _, one := range []struct {
		name     string
		is, want any
	}{
		{"cgroups_params", is.CgroupsParams, s.CgroupsParams},
		{"USE_CGROUPS of execd_params", is.UseCgroups, s.UseCgroups},
		{"SCRATCH_LIMIT of execd_params", is.ScratchLimit, s.ScratchLimit},
		{"shepherd_cmd", is.ShepherdCmd, s.ShepherdCmd},
		{"reprioritize", is.Reprioritize, s.Reprioritize},
		{"jsv_url", is.JSVURL, s.JSVURL},
	} {
		if one.is == "" {
			one.is = "not set"
		}
		if one.want == "" {
			one.want = "not set"
		}
		if one.is != one.want {
			return fmt.Errorf("%s is %v, but %v in root's configuration, which applies with --front-user: change it in the directory of --conf, and start the daemon again", one.name, one.is, one.want)
		}
	}
	return nil
}

// supervisor returns the executable that supervises jobs.
func (s *Server) supervisor() (string, error) {
	if s.Config.ShepherdCmd == "" {
		return s.Shepherd, nil
	}
	return launch.ShepherdFor(s.Config, s.Shepherd)
}

// The maximum number of jobs in an order for priorities, and of a weight.
const (
	mostSharers = 4096
	mostWeight  = 10_000
)

// checkPriorities refuses priorities that root's configuration does not permit.
func (s *Server) checkPriorities(b *prioritiseBody) error {
	if !s.Config.Reprioritize {
		return errors.New("reprioritize is not set in root's configuration")
	}
	if len(b.Jobs) > mostSharers {
		return fmt.Errorf("the order has %d jobs, at most %d are possible", len(b.Jobs), mostSharers)
	}
	for _, j := range b.Jobs {
		if err := checkID(j.ID); err != nil {
			return err
		}
		if j.Weight < 1 || j.Weight > mostWeight {
			return fmt.Errorf("job %s: weight %d, expected 1 to %d", j.ID, j.Weight, mostWeight)
		}
	}
	return nil
}

// errNice is why a nice value is refused.
var errNice = errors.New("the nice value is neither in the range of PTF_MAX_PRIORITY and PTF_MIN_PRIORITY nor that of the job's queue")

// prioritise gives priorities to those of the jobs that are here. Jobs of which another order is being carried out
// keep theirs: the front orders again.
func (s *Server) prioritise(b *prioritiseBody) *prioritiseAnswer {
	a := &prioritiseAnswer{Results: make([]sharing, len(b.Jobs))}
	allowed := ptf.RangeOf(&s.Config.ExecdParams)
	var targets []ptf.Target
	var priorities []ptf.Priority
	var at []int
	for i, want := range b.Jobs {
		h, err := s.find(want.ID)
		if err == nil && h.mu.TryLock() {
			j := h.job
			h.mu.Unlock()
			switch {
			case j == nil:
				err = notHere(want.ID)
			case (want.Nice < allowed.Best || want.Nice > allowed.Worst) && want.Nice != j.Description.Nice:
				err = &refusal{fmt.Errorf("job %s, %d: %w", want.ID, want.Nice, errNice)}
				s.refused(string(kindPrioritise), err)
			default:
				targets = append(targets, ptf.Target{Group: j.Group(), GroupID: j.Description.AddGroupID})
				priorities = append(priorities, ptf.Priority{Nice: want.Nice, Weight: want.Weight})
				at = append(at, i)
			}
		}
		if err != nil {
			a.Results[i].Error = errorOf(err)
		}
	}
	for i, r := range ptf.Apply(targets, priorities) {
		to := &a.Results[at[i]]
		to.Weighted, to.Processes = r.Weighted, r.Processes
		if r.Err != nil {
			to.Error = errorOf(r.Err)
		}
	}
	return a
}
