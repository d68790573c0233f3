package launcher

import (
	"slices"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// accessOf returns the access lists of a cluster and of a host.
func accessOf(c *qconf.Cluster, host string) (list []Access) {
	sets := func(names []string) (lists []AccessList) {
		for _, name := range names {
			if set, err := c.UserSet(name); err == nil {
				lists = append(lists, AccessList{Users: set.Users, Groups: set.UserGroups})
			}
		}
		return lists
	}
	add := func(users, xusers []string) {
		if len(users)+len(xusers) > 0 {
			list = append(list, Access{Restricted: len(users) > 0, Admitted: sets(users), Excluded: sets(xusers)})
		}
	}
	config := c.Config(host)
	add(config.UserLists, config.XUserLists)
	add(c.GlobalHost().UserLists, c.GlobalHost().XUserLists)
	if h, err := c.Host(host); err == nil {
		add(h.UserLists, h.XUserLists)
	}
	return list
}

// ObjectsOf returns the objects of a configuration that the launcher of a host needs.
func ObjectsOf(c *qconf.Cluster, host string) *Objects {
	o := &Objects{Elements: map[string][]string{}}
	add := func(to *[]string, list ...string) {
		for _, v := range list {
			if v != "" && !slices.Contains(*to, v) {
				*to = append(*to, v)
			}
		}
	}
	o.Access = accessOf(c, host)
	config := c.Config(host)
	o.Mailer = config.Mailer
	add(&o.Commands, config.Prolog, config.Epilog)
	o.Default = Queue{Prolog: config.Prolog, Epilog: config.Epilog, Limits: job.Unlimited()}
	for _, name := range c.QueueNames() {
		q, err := c.Instance(name, host)
		if err != nil {
			continue // it is not on this host
		}
		o.Queues = append(o.Queues, Queue{
			Name: name, Prolog: config.PrologFor(q), Epilog: config.EpilogFor(q), StarterMethod: q.StarterMethod, Limits: q.Limits, Priority: q.Priority,
		})
		add(&o.Commands, q.Prolog, q.Epilog, q.StarterMethod, q.SuspendMethod, q.ResumeMethod, q.TerminateMethod)
		add(&o.Shells, q.Shell)
		add(&o.Tmpdirs, q.Tmpdir)
	}
	for _, name := range c.PENames() {
		if pe, err := c.PE(name); err == nil {
			add(&o.Commands, pe.Start, pe.Stop)
			o.PEs = append(o.PEs, PE{Name: name, Start: pe.Start, Stop: pe.Stop})
		}
	}
	for _, name := range c.CheckpointNames() {
		if k, err := c.Checkpoint(name); err == nil {
			add(&o.Commands, k.Command, k.MigrationCommand, k.RestartCommand, k.CleanCommand)
			o.Ckpts = append(o.Ckpts, Ckpt{Name: name, Dir: k.Dir})
		}
	}
	h, err := c.Host(host)
	if err != nil {
		return o
	}
	for _, v := range c.Complexes().Canonical(h.ComplexValues) {
		if x, ok := c.Complexes().Find(v.Name); ok && x.Type == qconf.ComplexRSMap {
			if m, err := qconf.ParseResourceMap(v.Value); err == nil {
				o.Elements[v.Name] = m.IDs
			}
		}
	}
	return o
}
