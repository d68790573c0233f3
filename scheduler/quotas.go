package scheduler

import (
	"fmt"

	"github.com/execd-project/execd/scheduler/quota"
	"github.com/execd-project/execd/scheduler/value"
)

// quotas are the resource quota sets of a model, compiled.
type quotas struct {
	sets *quota.Sets
	// users is set where any rule is for some users only: jobs of different users are of
	// different categories then.
	users bool
}

func (b *builder) compileQuotas() {
	var queues, hosts []string
	for i := range b.queues {
		queues = append(queues, b.queues[i].name)
	}
	for i := range b.hosts {
		hosts = append(hosts, b.hosts[i].name)
	}
	list := b.cluster.ResourceQuotas()
	sets, errs := quota.Compile(list, quota.Compilation{
		Complexes: b.cluster.Complexes(), UserSets: b.userSets, Queues: queues, Hosts: hosts,
		Groups: b.groupsOf, HostNames: b.options.Hosts,
	})
	b.problems = append(b.problems, errs...)
	q := &quotas{sets: sets}
	for _, set := range list {
		if !set.Enabled {
			continue
		}
		for _, rule := range set.Rules {
			q.users = q.users || rule.Users.Set()
			b.projectsMatter = b.projectsMatter || rule.Projects.Set()
		}
	}
	b.limits = q
}

// demand returns the demand of a category for quotas in a parallel environment, or without one.
func (c *Category) demand(pe PEID) *quota.Demand {
	if d := c.demands[pe]; d != nil {
		return d
	}
	d := c.model.limits.sets.For(c.consumer(c.model.PEName(pe))).Demand(func(attribute string) (value.Request, bool) {
		if id, ok := c.model.attributeOf[attribute]; ok {
			if r := c.hardRequest(id); r != nil {
				return r.value, true
			}
		}
		return value.Request{}, false
	})
	if c.demands == nil {
		c.demands = map[PEID]*quota.Demand{}
	}
	c.demands[pe] = d
	return d
}

// quotaUsage is the usage of running tasks under the quotas.
type quotaUsage struct {
	model  *Model
	usage  *quota.Usage
	grants []quota.Grant // to be used again
}

func newQuotaUsage(m *Model) *quotaUsage {
	return &quotaUsage{model: m, usage: m.limits.sets.NewUsage()}
}

func (q *quotaUsage) book(r *Running, sign int) error {
	q.grants = q.grants[:0]
	for _, g := range r.Grants {
		i := &q.model.instances[g.Instance]
		q.grants = append(q.grants, quota.Grant{Queue: int32(i.queue), Host: int32(i.host), Slots: g.Slots})
	}
	book := q.usage.Debit
	switch {
	case r.Away.Master && sign < 0:
		book = q.usage.CreditSlaves
	case r.Away.Master:
		book = q.usage.DebitSlaves
	case sign < 0:
		book = q.usage.Credit
	}
	if err := book(r.Job.Category.demand(r.PE), q.grants); err != nil {
		return fmt.Errorf("resource quotas: %w", err)
	}
	return nil
}

// quotaValue gives dynamic limits the values of a host.
func (v *view) quotaValue(host int32, attribute string) (float64, bool) {
	id, ok := v.model.attributeOf[attribute]
	if !ok {
		return 0, false
	}
	r, ok := v.over(id, AtGlobal(), AtHost(HostID(host)))
	return r.Value.Number(), ok
}

// Quotas returns the rows of qquota(1) at a time.
func (s *State) Quotas(selection quota.Selection, now int64) []quota.Row {
	return s.quotas.usage.List(selection, newView(s, now).quotaValue)
}

// exceeded returns the reason of a job that does not fit into a quota.
func exceeded(f *quota.Failure) Reason {
	return Reason{kind: quotaExceeded, text: f.Text(), quota: f.Counter, never: f.Never}
}

// Exceeded explains the exceeded quota of a reason to people: who uses how much of which resource,
// as of now (Unix seconds). It is empty for other reasons.
func (s *State) Exceeded(r *Reason, now int64) string {
	if r.kind != quotaExceeded || r.model != s.model {
		return ""
	}
	row, ok := s.quotas.usage.Row(r.quota, newView(s, now).quotaValue)
	if !ok {
		return ""
	}
	who := ""
	if row.Filter != "-" {
		who = row.Filter + ": "
	}
	text := "a resource quota, " + row.Rule + ": " + who
	if row.Used == "" {
		return text + "no more than " + row.Attribute + "=" + row.Limit + " may be asked for"
	}
	text += row.Used + " of " + row.Limit + " " + row.Attribute + " are in use"
	if r.never {
		text += ", and the job asks for more than there are"
	}
	return text
}

// withinQuota checks the quotas for a serial job.
func (m *matcher) withinQuota(q *query, id InstanceID) (quota.Failure, bool) {
	if m.plan != nil {
		return m.withinPlannedQuota(q, id)
	}
	i := &m.model.instances[id]
	usage := m.quotas.usage
	if m.empty {
		usage = nil
	}
	return q.category.demand(None).Check(usage, m.quotaValue, int32(i.queue), int32(i.host))
}
