package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/scheduler/loadformula"
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/scheduler/value"
)

// compileQueues numbers the cluster queues in the order of their creation and their
// instances in the order of the host lists.
func (b *builder) compileQueues() {
	for _, name := range byCreation(b.options.Queues, b.cluster.QueueNames()) {
		object, err := b.cluster.Queue(name)
		if err != nil {
			continue
		}
		id := b.addQueue(object)
		for _, host := range b.cluster.HostGroups().Resolve(object.Hosts) {
			if b.options.has(host) {
				b.addInstance(id, object, host)
			}
		}
	}
	for _, o := range b.options.Orphans {
		id, ok := b.queueOf[o.Queue.Name]
		if !ok {
			id = b.addQueue(o.Queue)
		}
		b.addInstance(id, o.Queue, o.Host)
	}
	for id := range b.instances {
		b.compileSubordinates(InstanceID(id))
	}
}

func (b *builder) addQueue(object *qconf.Queue) QueueID {
	id := QueueID(len(b.queues))
	b.queueOf[object.Name] = id
	q := queueModel{name: object.Name, object: object}
	for _, settings := range object.Variants() {
		scratch := builder{Model: b.Model} // the instances report the same problems
		q.variants = append(q.variants, scratch.variant(object.Name, &settings))
	}
	b.queues = append(b.queues, q)
	return id
}

// byCreation sorts names: those in first come first, in that order.
func byCreation(first, names []string) []string {
	rank := map[string]int{}
	for i, name := range first {
		rank[name] = i + 1
	}
	order := slices.Clone(names)
	slices.SortStableFunc(order, func(a, b string) int {
		ra, rb := rank[a], rank[b]
		if (ra == 0) != (rb == 0) {
			return cmp.Compare(rb, ra)
		}
		return cmp.Compare(ra, rb)
	})
	return order
}

// addInstance adds the instance of a queue on a host, unless it is there already.
func (b *builder) addInstance(queue QueueID, object *qconf.Queue, host string) {
	h := b.addHost(host)
	name := object.Name + "@" + b.hosts[h].name
	if _, twice := b.instanceOf[name]; twice {
		return
	}
	settings, err := object.Instance(host, b.cluster.HostGroups())
	settings.Host = b.hosts[h].name
	if err != nil {
		b.problem("queue instance %s is not used: %w", name, err)
	}
	id := InstanceID(len(b.instances))
	i := instanceModel{
		variant: b.variant(name, &settings), queue: queue, host: h, name: name, settings: settings, ambiguous: err,
		load: b.thresholds(settings.LoadThresholds), suspend: b.thresholds(settings.SuspendThresholds),
	}
	b.instances = append(b.instances, i)
	b.instanceOf[name] = id
	b.queues[queue].instances = append(b.queues[queue].instances, id)
	b.hosts[h].instances = append(b.hosts[h].instances, id)
}

func (b *builder) variant(place string, settings *qconf.QueueInstance) variant {
	v := variant{
		layer: b.layer(atQueue, "queue "+place, settings.ComplexValues),
		pes:   settings.PEList, ckpts: settings.CkptList,
		batch: settings.Batch, interactive: settings.Interactive,
	}
	v.access = b.access(settings.UserLists, settings.XUserLists, settings.Projects, settings.XProjects)
	v.built = b.builtin(settings)
	return v
}

// builtin returns the resources that every queue instance has (complex(5), queue
// resources), with the values of its settings.
func (b *builder) builtin(q *qconf.QueueInstance) []value.Value {
	var list []value.Value
	add := func(name string, of func(a *Attribute) value.Value) {
		if id, ok := b.attributeOf[name]; ok {
			b.builtAt[id] = len(list)
			list = append(list, of(&b.attributes[id]))
		}
	}
	number := func(n float64) func(*Attribute) value.Value {
		return func(a *Attribute) value.Value { return value.OfNumber(a.Type, n) }
	}
	text := func(s string) func(*Attribute) value.Value {
		return func(a *Attribute) value.Value { return value.OfText(a.Type, s) }
	}
	truth := map[bool]float64{true: 1}
	add("qname", text(q.Queue))
	add("hostname", text(q.Host))
	add("slots", number(float64(q.Slots)))
	add("tmpdir", text(q.Tmpdir))
	add("seq_no", number(float64(q.SeqNo)))
	add("rerun", number(truth[q.Rerun]))
	add("calendar", text(cmp.Or(q.Calendar, "NONE")))
	add("min_cpu_interval", number(seconds(q.MinCPUInterval)))
	for r := range q.Limits {
		name := job.Resource(r).String()
		add("s_"+name, number(limitNumber(q.Limits[r].Soft)))
		add("h_"+name, number(limitNumber(q.Limits[r].Hard)))
	}
	return list
}

func limitNumber(v uint64) float64 {
	if v == quantity.Infinity {
		return value.Infinity
	}
	return float64(v)
}

// seconds returns a duration of a configuration as a number; qconf.Forever is INFINITY.
func seconds(d time.Duration) float64 {
	if d == qconf.Forever {
		return value.Infinity
	}
	return d.Seconds()
}

func (b *builder) thresholds(list []qconf.Setting) []threshold {
	var all []threshold
	for _, s := range list {
		t := threshold{attribute: None, name: s.Name, text: s.Value}
		if id, ok := b.attributeOf[s.Name]; ok {
			a := &b.attributes[id]
			t.attribute, t.name = id, a.Name
			if a.Type.IsText() {
				t.pattern, t.err = value.ParseRequest(a.Type, b.options.Hosts, s.Value)
			} else {
				t.limit, t.err = value.Parse(a.Type, s.Value)
			}
		}
		all = append(all, t)
	}
	return all
}

// compileSubordinates finds the subordinate instances on the same host.
func (b *builder) compileSubordinates(id InstanceID) {
	i := &b.instances[id]
	slotWise := i.settings.Subordinates.Slots > 0
	for _, s := range i.settings.Subordinates.Queues {
		if sub, ok := b.instanceOf[s.Queue+"@"+b.hosts[i.host].name]; ok {
			i.subordinates = append(i.subordinates, subordinate{instance: sub, slots: s.Slots, slotWise: slotWise})
		}
	}
}

// compileScheduler compiles sched_conf(5).
func (b *builder) compileScheduler() {
	c := b.scheduler
	b.weights = priority.Weights{
		Priority: c.WeightPriority, Urgency: c.WeightUrgency, Ticket: c.WeightTicket,
		WaitingTime: c.WeightWaitingTime, Deadline: c.WeightDeadline, ReportPJobTickets: c.ReportPJobTickets,
	}
	b.tickets = tickets.Config{
		TicketsShare: float64(c.WeightTicketsShare), TicketsFunctional: float64(c.WeightTicketsFunctional),
		WeightUser: c.WeightUser, WeightProject: c.WeightProject, WeightDepartment: c.WeightDepartment, WeightJob: c.WeightJob,
		ShareFunctionalShares: c.ShareFunctionalShares, ShareOverrideTickets: c.ShareOverrideTickets,
		MaxFunctionalJobsToSchedule: c.MaxFunctionalJobsToSchedule, CompensationFactor: c.CompensationFactor,
		PolicyHierarchy: c.PolicyHierarchy, UsageWeights: usageWeights(c.UsageWeights),
	}
	var err error
	if b.formula, err = loadformula.Parse(c.LoadFormula); err != nil {
		b.problem("load_formula: %w", err)
	}
	for _, name := range b.formula.Attributes() {
		id, ok := b.attributeOf[name]
		if !ok {
			id = None
			b.problem("load_formula: there is no complex %q", name)
		}
		b.formulaAttr = append(b.formulaAttr, id)
	}
	if c.LoadAdjustmentDecayTime <= 0 {
		return
	}
	for _, s := range c.JobLoadAdjustments {
		id, ok := b.attributeOf[s.Name]
		if !ok || !b.attributes[id].Type.IsNumeric() {
			continue // as in Grid Engine, which does not check the names
		}
		v, err := value.Parse(value.Double, s.Value)
		if err != nil {
			b.problem("job_load_adjustments: %s: %w", s.Name, err)
			continue
		}
		b.adjustments = append(b.adjustments, adjustment{id, v.Number(), strings.HasPrefix(b.attributes[id].Name, "np_")})
		b.adjusted[id] = v.Number()
	}
}

// UsageWeights returns usage_weight_list of sched_conf(5).
func (m *Model) UsageWeights() tickets.UsageWeights { return m.tickets.UsageWeights }

func usageWeights(list []qconf.Weight) tickets.UsageWeights {
	var w tickets.UsageWeights
	for _, u := range list {
		switch u.Name {
		case "cpu":
			w.Weights[tickets.CPU] = u.Factor
		case "mem":
			w.Weights[tickets.Mem] = u.Factor
		case "io":
			w.Weights[tickets.IO] = u.Factor
		case "finished_jobs":
			w.Weights[tickets.FinishedJobs] = u.Factor
		default:
			w.Others += u.Factor
		}
	}
	return w
}

// fixedUrgencySlots says how the slots of a job in an environment count for its
// urgency (sge_pe(5), urgency_slots).
func (p *peModel) urgencyRule() (priority.Rule, int) {
	u := p.object.UrgencySlots
	switch u.Name {
	case qconf.UrgencyMin:
		return priority.Min, 0
	case qconf.UrgencyMax:
		return priority.Max, 0
	case qconf.UrgencyAvg:
		return priority.Avg, 0
	}
	return priority.Fixed, u.Fixed
}

// nproc is the attribute by which np_ values are divided.
const nproc = "num_proc"
