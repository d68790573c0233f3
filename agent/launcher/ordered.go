package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Access holds the access lists of root's configuration (sge_conf(5), user_lists and xuser_lists) for a host. A user is
// admitted who is in none of the lists Excluded and, if Restricted, in one of the lists Admitted.
type Access struct {
	Restricted bool         `json:"restricted,omitempty"`
	Admitted   []AccessList `json:"admitted,omitempty"`
	Excluded   []AccessList `json:"excluded,omitempty"`
}

// AccessList has the names of users, and of groups whose members by primary group are in the list (access_list(5)).
type AccessList struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// admits reports whether a user may run jobs. groupID finds the ID of a group.
func (a *Access) admits(u *userdb.User, groupID func(name string) (uint32, error)) (bool, error) {
	out, err := isIn(a.Excluded, u, groupID)
	if err != nil || out || !a.Restricted {
		return !out, err
	}
	return isIn(a.Admitted, u, groupID)
}

// isIn reports whether a user is in one of the lists. It compares the IDs of groups: the name of a group that only a
// directory service knows cannot be found by its ID, see userdb.Database.GroupName.
func isIn(lists []AccessList, u *userdb.User, groupID func(name string) (uint32, error)) (bool, error) {
	for _, l := range lists {
		if slices.Contains(l.Users, u.Name) {
			return true, nil
		}
	}
	for _, l := range lists {
		for _, name := range l.Groups {
			switch gid, err := groupID(name); {
			case errors.Is(err, userdb.ErrUnknown): // it has no members
			case err != nil:
				return false, fmt.Errorf("cannot determine whether user %s is in the access lists of root's configuration: %w", u.Name, err)
			case gid == u.GID:
				return true, nil
			}
		}
	}
	return false, nil
}

// checkAccess refuses jobs of users whom root's configuration does not admit.
func (r *Rules) checkAccess(owner *userdb.User) error {
	for _, a := range r.Site.Access {
		switch ok, err := a.admits(owner, r.Users.GroupID); {
		case err != nil:
			return &failure{err}
		case !ok:
			return fmt.Errorf("user_lists and xuser_lists of root's configuration do not admit user %s", owner.Name)
		}
	}
	return nil
}

// errSimulated is why execd standalone with --front-user has no job without a supervisor.
var errSimulated = errors.New("a job that is simulated (SIMULATE_JOBS) is not possible with --front-user: users confirm the jobs that run")

// checkOrdered checks a job that a master orders, and sets the values of the plan that the launcher decides. The master is
// trusted for what runs with the owner's rights. So a front can invent a job of each owner whom root's configuration
// admits, but not what procedures of other users do for the job.
func (r *Rules) checkOrdered(p *launch.Plan, area jobdir.Area) error {
	d := p.Description
	owner, err := r.user(d.Owner)
	if err != nil {
		return err
	}
	if err := r.checkAccess(owner); err != nil {
		return err
	}
	if err := checkGranted(p); err != nil {
		return err
	}
	for _, h := range p.Hosts {
		if err := checkName("the host in pe_hostfile", h.Host); err != nil {
			return err
		}
	}
	c := r.Site.Config
	if c == nil {
		c = &qconf.Configuration{}
	}
	d.AddGroupKill, d.SkipGroupLimit = c.ExecdParams.EnableAddGrpKill, c.ExecdParams.IgnoreNGroupsMaxLimit
	d.PrivateTmp = d.PrivateTmp || c.ExecdParams.PrivateTmp.For(d.Queue)
	p.Processes = launch.MostProcesses(c, d.HostSlots)
	d.Trusted = nil
	for _, v := range d.Environment {
		// For the tasks of the job; about the values see checkElements.
		if name, _, _ := strings.Cut(v, "="); launch.IsElement(name) && !slices.Contains(d.Trusted, name) {
			d.Trusted = append(d.Trusted, name)
		}
	}
	if len(otherUsers(d)) == 0 {
		return nil
	}
	// The front cannot have them stopped halfway.
	limits := job.Unlimited()
	if q := r.Site.queue(d.Queue); q != nil {
		limits = q.Limits
	}
	d.ProcedureLimits, d.ScriptTimeout = &limits, c.ExecdParams.ScriptTimeout
	return r.checkTrusted(p, owner, c, area)
}

// mostTrees is the maximum number of trees of processors that a master has chosen.
const mostTrees = 1024

// checkGranted refuses processors that a master cannot have chosen. Which of them the job gets, the launcher reads from the
// marks in a tree that has to be this host's: see topology.Topology.Marked.
func checkGranted(p *launch.Plan) error {
	g := p.GrantedBinding
	switch {
	case g == nil:
		return nil
	case p.Cores != nil:
		return errors.New("the plan has cores that the master has chosen, and a request for others")
	case g.Instance != binding.Set && g.Instance != binding.Env && g.Instance != binding.PE:
		return fmt.Errorf("%d is not an instance of -binding", g.Instance)
	case len(g.Trees) > mostTrees:
		return fmt.Errorf("the plan has %d trees of processors, at most %d are possible", len(g.Trees), mostTrees)
	}
	return nil
}

// checkTrusted compares the variables that procedures of other users rely on with those that the description leads to,
// and sets their names.
func (r *Rules) checkTrusted(p *launch.Plan, owner *userdb.User, c *qconf.Configuration, area jobdir.Area) error {
	d := p.Description
	if !strings.EqualFold(d.Host, r.Site.Host) {
		return fmt.Errorf("job %s has a procedure of another user and the host %s, expected this host, %s", d.ID, d.Host, r.Site.Host)
	}
	is := map[string]string{}
	for _, v := range d.Environment { // the last one counts
		name, value, _ := strings.Cut(v, "=")
		is[name] = value
	}
	o := &launch.Assignment{
		Request: &submit.Request{Name: d.Name, Account: d.Account, Binary: true, Command: "/bin/true"}, Owner: owner, Host: d.Host, Config: c,
		Queue: qconf.QueueInstance{Queue: d.Queue, Tmpdir: d.QueueTmpdir, Shell: "/bin/sh", ShellStartMode: job.UnixBehavior},
		Slots: d.HostSlots, Hosts: p.Hosts, Restarted: d.Restarted, SubmitDir: "/", Lookup: r.user, Privileged: true,
		SGERoot: r.Site.SGERoot, SGECell: r.Site.SGECell, BinaryPath: r.Site.BinaryPath, Arch: r.Site.Arch,
	}
	if d.ID.Task != 0 {
		a := &submit.Array{}
		for name, to := range map[string]*int{"SGE_TASK_FIRST": &a.First, "SGE_TASK_LAST": &a.Last, "SGE_TASK_STEPSIZE": &a.Step} {
			n, err := strconv.Atoi(is[name])
			if err != nil || n < 0 {
				return fmt.Errorf("the variable %s=%.200q of job %s is no number", name, is[name], d.ID)
			}
			*to = n
		}
		o.Request.Array = a
	}
	if d.PE != nil {
		o.PE, o.TotalSlots = &qconf.ParallelEnvironment{Name: d.PE.Name}, d.PE.Slots
	}
	if d.Ckpt != nil {
		o.Ckpt = &qconf.Checkpoint{Name: d.Ckpt.Name, Dir: d.Ckpt.Dir}
	}
	want, err := o.Describe(d.ID, area, d.Tmpdir)
	if err != nil {
		return err
	}
	expected := map[string]string{}
	for _, v := range want.Environment {
		name, value, _ := strings.Cut(v, "=")
		expected[name] = value
	}
	expected["JOB_SCRIPT"] = d.Command.File
	for _, name := range want.Trusted {
		if is[name] != expected[name] {
			return fmt.Errorf("job %s has a procedure of another user and the variable %s=%.200q, expected %.200q", d.ID, name, is[name], expected[name])
		}
	}
	d.Trusted = append(d.Trusted, want.Trusted...)
	slices.Sort(d.Trusted)
	return nil
}

// permitted reports whether the file of permitted procedures (execd-procedures(5)) has a procedure of another user.
func (r *Rules) permitted(command string) (bool, error) {
	user, _ := job.Procedure(command)
	if r.Permitted == nil {
		return false, nil
	}
	list, err := r.Permitted()
	if err != nil || list == nil {
		return false, err
	}
	return list.Permit(user, command) == nil, nil
}
