package accounting

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// Category returns the category of a job, in the form of field category of accounting(5): the
// options by which the scheduler distinguishes jobs. The order is that of the original (tested),
// which differs from the manual page:
//
//	-U  access lists that contain the owner and that hosts, parallel environments or queues
//	    name
//	-u  the owner, if a resource quota set names the owner
//	-q, -masterq, -l, -soft -l, -pe, -ckpt, -I y
//	-P  the project, if a host or a queue names it
//	-ar
//
// group is the owner's group, project is the job's project.
func Category(c *qconf.Cluster, owner, group, project string, r *submit.Request) string {
	var words []string
	add := func(option, value string) {
		if value != "" {
			words = append(words, option+" "+value)
		}
	}
	named := references(c)
	add("-U", strings.Join(slices.DeleteFunc(named.sets, func(name string) bool {
		set, err := c.UserSet(name)
		return err != nil || !set.Contains(owner, group)
	}), ","))
	if inQuota(c, owner, group) {
		add("-u", owner)
	}
	var queues []string
	for _, q := range r.Queues {
		if !q.Soft {
			queues = append(queues, q.Reference)
		}
	}
	add("-q", strings.Join(queues, ","))
	add("-masterq", strings.Join(r.MasterQueues, ","))
	add("-l", resources(c, r.Resources, false))
	add("-soft -l", resources(c, r.Resources, true))
	if r.PE != nil {
		add("-pe", r.PE.Name+" "+slots(r.PE))
	}
	add("-ckpt", r.Checkpoint)
	if r.Immediate {
		add("-I", "y")
	}
	if slices.Contains(named.projects, project) {
		add("-P", project)
	}
	if r.Reservation != 0 {
		add("-ar", strconv.Itoa(r.Reservation))
	}
	return strings.Join(words, " ")
}

// names holds the access lists and projects that hosts, queues and parallel environments name. Each
// appears once.
type names struct{ sets, projects []string }

func references(c *qconf.Cluster) (n names) {
	add := func(to *[]string, lists ...[]string) {
		for _, list := range lists {
			for _, name := range list {
				if !slices.Contains(*to, name) {
					*to = append(*to, name)
				}
			}
		}
	}
	hosts := []*qconf.ExecHost{c.GlobalHost()}
	for _, name := range c.HostNames() {
		if h, err := c.Host(name); err == nil {
			hosts = append(hosts, h)
		}
	}
	for _, h := range hosts {
		add(&n.sets, h.UserLists, h.XUserLists)
		add(&n.projects, h.Projects, h.XProjects)
	}
	for _, name := range c.PENames() {
		if pe, err := c.PE(name); err == nil {
			add(&n.sets, pe.UserLists, pe.XUserLists)
		}
	}
	for _, name := range c.QueueNames() {
		if q, err := c.Queue(name); err == nil {
			for _, v := range q.Variants() {
				add(&n.sets, v.UserLists, v.XUserLists)
				add(&n.projects, v.Projects, v.XProjects)
			}
		}
	}
	return n
}

// inQuota reports whether a rule of an enabled resource quota set has the owner in its user scope, by
// name, by pattern or by access list.
func inQuota(c *qconf.Cluster, owner, group string) bool {
	names := func(list []string) bool {
		return slices.ContainsFunc(list, func(name string) bool {
			if list, ok := strings.CutPrefix(name, "@"); ok {
				set, err := c.UserSet(list)
				return err == nil && set.Contains(owner, group)
			}
			ok, err := path.Match(name, owner)
			return ok && err == nil
		})
	}
	for _, set := range c.ResourceQuotas() {
		for _, rule := range set.Rules {
			if set.Enabled && (names(rule.Users.Scope) || names(rule.Users.XScope)) {
				return true
			}
		}
	}
	return false
}

// resources returns resource requests under the names of their complexes, sorted by name. Times
// with colons are converted to seconds (tested).
func resources(c *qconf.Cluster, list []submit.ResourceRequest, soft bool) string {
	var requests []submit.ResourceRequest
	for _, l := range list {
		if l.Soft != soft {
			continue
		}
		if x, ok := c.Complexes().Find(l.Name); ok {
			l.Name = x.Name
			if x.Type == qconf.ComplexTime && strings.Contains(l.Value, ":") {
				if n, err := quantity.Time(l.Value); err == nil {
					l.Value = strconv.FormatUint(n, 10)
				}
			}
		}
		requests = append(requests, l)
	}
	slices.SortStableFunc(requests, func(a, b submit.ResourceRequest) int { return cmp.Compare(a.Name, b.Name) })
	var words []string
	for _, l := range requests {
		words = append(words, l.String())
	}
	return strings.Join(words, ",")
}

// slots returns the slot numbers of a -pe request.
func slots(p *submit.ParallelRequest) string {
	var all rangelist.List
	for _, r := range p.Ranges {
		if l, err := rangelist.Of(r.Min, r.Max, 1); err == nil {
			all = all.Union(l)
		}
	}
	return all.String()
}
