package scheduler

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/loadformula"
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/scheduler/value"
)

// HostID is the number of a host: an index, from 0.
type HostID int32

// QueueID is the number of a cluster queue, in the order of their creation.
type QueueID int32

// InstanceID is the number of a queue instance.
type InstanceID int32

// PEID is the number of a parallel environment, in the order of their creation.
type PEID int32

// AttributeID is the number of a complex, by name.
type AttributeID int32

// GlobalHost is the host object whose values hold for the whole cluster.
const GlobalHost HostID = -1

// None is the index of a missing object.
const None = -1

// Options are settings that are not in a configuration directory.
type Options struct {
	// Queues is the order in which cluster queues were created, which decides between queue
	// instances that are otherwise equal. Other queues follow, sorted by name.
	Queues []string
	// PEs is the same for parallel environments: if several match a pattern of -pe and have places
	// for the same number of slots, the first one is used.
	PEs []string
	// Hosts says how names of hosts are compared (bootstrap(5)).
	Hosts expression.HostNames
	// Orphans are queue instances that the configuration does not have any more, but
	// that still have jobs. The caller that names them makes sure that they are Orphaned.
	Orphans []Orphan
	// Only restricts the model to one host, for a State of this host only: the model then contains
	// no other hosts and no queue instances of them, and does not check the names of requested
	// queues. Empty means all hosts.
	Only string
}

// has reports whether a model has a host.
func (o *Options) has(host string) bool { return o.Only == "" || qconf.SameHost(o.Only, host) }

// Orphan is an instance of a queue as it was before it was removed.
type Orphan struct {
	Queue *qconf.Queue
	Host  string
}

// Model is the configuration of a cluster, compiled for scheduling.
type Model struct {
	cluster *qconf.Cluster
	options Options

	attributes  []Attribute // by name
	attributeOf map[string]AttributeID
	slots       AttributeID

	hosts      []hostModel
	hostOf     map[string]HostID // by name in small letters
	global     hostModel
	conf       access // that of the global configuration, sge_conf(5)
	queues     []queueModel
	queueOf    map[string]QueueID
	instances  []instanceModel
	instanceOf map[string]InstanceID // queue@host
	pes        []peModel
	peOf       map[string]PEID
	userSets   []*qconf.UserSet
	userSetOf  map[string]int32
	referenced []bool // by user set: whether any place names it

	scheduler   *qconf.SchedulerConfig
	weights     priority.Weights
	tickets     tickets.Config
	formula     loadformula.Formula
	formulaAttr []AttributeID // None for names that are not complexes
	adjustments []adjustment
	adjusted    []float64 // by attribute: its adjustment
	// builtAt is where the value of a built-in resource of queues is, None for others.
	builtAt []int
	// configured says at which layers any place has the attribute in complex_values.
	configured []layerSet

	// projectsMatter is set where any queue, host or quota names projects: jobs of
	// different projects are of different categories then.
	projectsMatter bool
	resourceMaps   bool // any place has named elements
	bindingAware   bool // jobs with a binding wait for cores
	// pool is the consumable of the memory pool, None without one; requestsMemory says by attribute
	// whether a request is one for it.
	pool           AttributeID
	requestsMemory []bool
	limits         *quotas

	categories categories
}

// Attribute is an element of complex(5).
type Attribute struct {
	qconf.Complex
	Type  value.Type
	Relop value.Relop
	// Default is the amount that a job without a request uses up. It is valid for consumables only.
	Default value.Value
	// resourceMap is set for the type RSMAP: the amount is a number of named elements.
	resourceMap bool
}

func (a *Attribute) consumable() bool { return a.Consumable != qconf.ConsumableNo }
func (a *Attribute) perJob() bool     { return a.Consumable == qconf.ConsumableJob }
func (a *Attribute) perHost() bool    { return a.Consumable == qconf.ConsumableHost }
func (a *Attribute) exclusive() bool  { return a.Relop == value.Exclusive }
func (a *Attribute) forced() bool     { return a.Requestable == qconf.RequestableForced }

// adjustment is an element of job_load_adjustments.
type adjustment struct {
	attribute AttributeID
	amount    float64
	perCore   bool // np_: the amount is divided by the number of processors
}

// setting is a configured value of an attribute.
type setting struct {
	attribute AttributeID
	value     value.Value
	ids       []string // of a resource map
	marks     []marks  // of its elements, by their position; nil if none has any
}

// layer holds the settings of a place: the cluster, a host, or a queue instance.
type layer struct {
	settings []setting     // complex_values, by attribute
	written  []AttributeID // their attributes in the order of the configuration
	access   access
}

func (l *layer) configured(a AttributeID) (value.Value, bool) {
	for i := range l.settings {
		if s := &l.settings[i]; s.attribute == a {
			return s.value, true
		}
	}
	return value.Value{}, false
}

// access holds the access lists of a place.
type access struct {
	users, xusers       []int32 // of Model.userSets
	projects, xprojects []string
}

type hostModel struct {
	layer
	name      string
	scaling   []scaling
	instances []InstanceID
	groups    []string // host groups that it is in, with and without detours
}

type scaling struct {
	attribute AttributeID
	factor    float64
}

type queueModel struct {
	name      string
	object    *qconf.Queue
	instances []InstanceID // in the order of the host list
	// variants are the possible settings of its hosts, the default first: if all of them refuse a
	// job, the cluster queue does.
	variants []variant
}

// variant holds the settings of a queue that can refuse a job before a host is checked.
type variant struct {
	layer
	built              []value.Value // of the built-in resources of a queue, by Model.builtAt
	pes, ckpts         []string
	batch, interactive bool
}

type instanceModel struct {
	variant
	queue        QueueID
	host         HostID
	name         string
	settings     qconf.QueueInstance
	load         []threshold
	suspend      []threshold
	ambiguous    error // the settings contradict each other; nil if they do not
	subordinates []subordinate
}

// subordinate is a queue instance on the same host that another one suspends.
type subordinate struct {
	instance InstanceID
	slots    int  // number of used slots from which on, 0 for all
	slotWise bool // not the instance is suspended, but some of its tasks
}

// threshold is an element of load_thresholds or suspend_thresholds.
type threshold struct {
	attribute AttributeID // None if no complex has the name
	name      string
	text      string
	limit     value.Value   // of a number
	pattern   value.Request // of a text
	err       error         // the limit is not a value of the type
}

type peModel struct {
	object *qconf.ParallelEnvironment
	access access
}

type layerSet uint8

const (
	atGlobal layerSet = 1 << iota
	atHost
	atQueue
	atPE // the slots of a parallel environment
)

// index returns the number of a layer, from 0.
func (l layerSet) index() int { return bits.TrailingZeros8(uint8(l)) }

// NewModel compiles a configuration. It returns a problem for each contradiction between files that
// are valid alone. The affected objects are left out, and affected queue instances are not used;
// everything else is scheduled.
func NewModel(cluster *qconf.Cluster, options Options) (*Model, []error) {
	m := &Model{
		cluster: cluster, options: options, scheduler: cluster.Scheduler(), bindingAware: cluster.Scheduler().Params.BindingAware,
		attributeOf: map[string]AttributeID{}, hostOf: map[string]HostID{}, queueOf: map[string]QueueID{},
		instanceOf: map[string]InstanceID{}, peOf: map[string]PEID{}, userSetOf: map[string]int32{},
		categories: newCategories(),
	}
	b := &builder{Model: m}
	b.compileAttributes()
	b.compileUserSets()
	b.compileHosts()
	b.compileQueues()
	b.compilePEs()
	b.compileScheduler()
	b.compileQuotas()
	return m, b.problems
}

// builder is a Model in the making.
type builder struct {
	*Model
	problems []error
}

func (b *builder) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Errorf(format, args...))
}

func (b *builder) compileAttributes() {
	all := b.cluster.Complexes().All()
	b.attributes = make([]Attribute, 0, len(all))
	b.slots = None
	for _, x := range all {
		a := Attribute{Complex: x}
		typ := string(x.Type)
		if a.resourceMap = x.Type == qconf.ComplexRSMap; a.resourceMap {
			typ = value.Int.String()
		}
		var err error
		if a.Type, err = value.ParseType(typ); err != nil {
			b.problem("complex %q: %w", x.Name, err)
			continue
		}
		if a.Relop, err = value.ParseRelop(x.Relop); err != nil {
			b.problem("complex %q: %w", x.Name, err)
			continue
		}
		if a.consumable() {
			if a.Default, err = value.Parse(a.Type, x.Default); err != nil {
				b.problem("complex %q: default: %w", x.Name, err)
			}
		}
		id := AttributeID(len(b.attributes))
		b.attributes = append(b.attributes, a)
		b.attributeOf[x.Name] = id
		b.attributeOf[x.Shortcut] = id
		if x.Name == "slots" {
			b.slots = id
		}
	}
	b.pool = None
	if x, ok := b.cluster.MemoryPool(); ok {
		b.pool = b.attributeOf[x.Name]
		b.attributes[b.pool].Default = value.OfNumber(value.Memory, float64(b.cluster.MemoryPoolDefault()))
	}
	for _, a := range b.attributes {
		b.requestsMemory = append(b.requestsMemory, b.cluster.RequestsMemory(a.Complex))
	}
	b.adjusted = make([]float64, len(b.attributes))
	b.configured = make([]layerSet, len(b.attributes))
	b.builtAt = slices.Repeat([]int{None}, len(b.attributes))
}

func (b *builder) compileUserSets() {
	for _, name := range b.cluster.UserSetNames() {
		if set, err := b.cluster.UserSet(name); err == nil {
			b.userSetOf[name] = int32(len(b.userSets))
			b.userSets = append(b.userSets, set)
			b.referenced = append(b.referenced, false)
		}
	}
}

// access compiles lists of names. Sets that do not exist are empty.
func (b *builder) access(users, xusers, projects, xprojects []string) access {
	sets := func(names []string) (ids []int32) {
		for _, name := range names {
			id, ok := b.userSetOf[name]
			if ok {
				b.referenced[id] = true
			} else {
				id = None
			}
			ids = append(ids, id)
		}
		return ids
	}
	if len(projects)+len(xprojects) > 0 {
		b.projectsMatter = true
	}
	return access{users: sets(users), xusers: sets(xusers), projects: projects, xprojects: xprojects}
}

// layer compiles complex_values of a place.
func (b *builder) layer(at layerSet, place string, values []qconf.Setting) (l layer) {
	for _, v := range b.cluster.Complexes().Canonical(values) {
		id, ok := b.attributeOf[v.Name]
		if !ok {
			b.problem("%s: complex_values: there is no complex %q", place, v.Name)
			continue
		}
		s := setting{attribute: id}
		a := &b.attributes[id]
		var err error
		if a.resourceMap {
			var elements qconf.ResourceMap
			if elements, err = qconf.ParseResourceMap(v.Value); err == nil {
				b.resourceMaps = true
				s.ids, s.value = elements.IDs, value.OfNumber(value.Int, float64(len(elements.IDs)))
				s.marks, err = b.compileMarks(elements)
			}
		} else {
			s.value, err = value.Parse(a.Type, v.Value)
		}
		if err != nil {
			b.problem("%s: complex_values: %s: %w", place, v.Name, err)
			continue
		}
		b.configured[id] |= at
		l.settings = append(l.settings, s)
		l.written = append(l.written, id)
	}
	slices.SortFunc(l.settings, func(a, b setting) int { return int(a.attribute - b.attribute) })
	return l
}

func (b *builder) compileHosts() {
	g := b.cluster.GlobalHost()
	b.global = b.newHost(qconf.GlobalHost, g, atGlobal)
	b.global.access = b.access(g.UserLists, g.XUserLists, g.Projects, g.XProjects)
	conf := b.cluster.Global()
	b.conf = b.access(conf.UserLists, conf.XUserLists, conf.Projects, conf.XProjects)
	for _, name := range b.cluster.HostNames() {
		if b.options.has(name) {
			b.addHost(name)
		}
	}
}

// addHost returns the number of a host, which need not have an object.
func (b *builder) addHost(name string) HostID {
	low := strings.ToLower(name)
	if id, ok := b.hostOf[low]; ok {
		return id
	}
	object, err := b.cluster.Host(name)
	if err != nil {
		object = &qconf.ExecHost{Name: name}
	} else if id, ok := b.hostOf[strings.ToLower(object.Name)]; ok {
		b.hostOf[low] = id
		return id
	}
	id := HostID(len(b.hosts))
	h := b.newHost(object.Name, object, atHost)
	h.access = b.access(object.UserLists, object.XUserLists, object.Projects, object.XProjects)
	b.hosts = append(b.hosts, h)
	b.hostOf[low] = id
	b.hostOf[strings.ToLower(object.Name)] = id
	return id
}

func (b *builder) newHost(name string, object *qconf.ExecHost, at layerSet) hostModel {
	h := hostModel{name: name, layer: b.layer(at, "host "+name, object.ComplexValues)}
	for _, s := range object.LoadScaling {
		if id, ok := b.attributeOf[s.Name]; ok {
			h.scaling = append(h.scaling, scaling{id, s.Factor})
		}
	}
	if at == atHost {
		groups := b.cluster.HostGroups()
		for _, g := range groups.Names() {
			if groups.Contains(g, name) {
				h.groups = append(h.groups, g)
			}
		}
	}
	return h
}

func (b *builder) compilePEs() {
	for _, name := range byCreation(b.options.PEs, b.cluster.PENames()) {
		pe, err := b.cluster.PE(name)
		if err != nil {
			continue
		}
		b.peOf[name] = PEID(len(b.pes))
		b.pes = append(b.pes, peModel{object: pe, access: b.access(pe.UserLists, pe.XUserLists, nil, nil)})
	}
}

// Hosts returns the number of execution hosts.
func (m *Model) Hosts() int { return len(m.hosts) }

// Instances returns the number of queue instances.
func (m *Model) Instances() int { return len(m.instances) }

// Queues returns the number of cluster queues.
func (m *Model) Queues() int { return len(m.queues) }

// Cluster returns the configuration that the model was made of.
func (m *Model) Cluster() *qconf.Cluster { return m.cluster }

// HostName returns the name of a host, "global" for GlobalHost.
func (m *Model) HostName(id HostID) string { return m.hostByID(id).name }

// QueueName returns the name of a cluster queue.
func (m *Model) QueueName(id QueueID) string { return m.queues[id].name }

// QueueObject returns a cluster queue as it was configured.
func (m *Model) QueueObject(id QueueID) *qconf.Queue { return m.queues[id].object }

// InstanceName returns the name of a queue instance, queue@host.
func (m *Model) InstanceName(id InstanceID) string { return m.instances[id].name }

// PEName returns the name of a parallel environment, empty for None.
func (m *Model) PEName(id PEID) string {
	if id == None {
		return ""
	}
	return m.pes[id].object.Name
}

// Settings are the parameters of a queue instance.
func (m *Model) Settings(id InstanceID) *qconf.QueueInstance { return &m.instances[id].settings }

// HostOf returns the host of a queue instance.
func (m *Model) HostOf(id InstanceID) HostID { return m.instances[id].host }

// QueueOf returns the cluster queue of a queue instance.
func (m *Model) QueueOf(id InstanceID) QueueID { return m.instances[id].queue }

// Ambiguous returns the reason why a queue instance is ambiguous (queue_conf(5): several host
// groups have a setting for its host), or nil if it is not.
func (m *Model) Ambiguous(id InstanceID) error { return m.instances[id].ambiguous }

// InstancesOn are the queue instances on a host.
func (m *Model) InstancesOn(id HostID) []InstanceID { return m.hosts[id].instances }

// InstancesOf are the instances of a cluster queue, in the order of its host list.
func (m *Model) InstancesOf(id QueueID) []InstanceID { return m.queues[id].instances }

// Host returns the number of a host. "global" is GlobalHost.
func (m *Model) Host(name string) (HostID, bool) {
	if name == qconf.GlobalHost {
		return GlobalHost, true
	}
	id, ok := m.hostOf[strings.ToLower(name)]
	return id, ok
}

// Queue returns the number of a cluster queue.
func (m *Model) Queue(name string) (QueueID, bool) {
	id, ok := m.queueOf[name]
	return id, ok
}

// PE returns the number of a parallel environment.
func (m *Model) PE(name string) (PEID, bool) {
	id, ok := m.peOf[name]
	return id, ok
}

// Instance returns the number of a queue instance.
func (m *Model) Instance(queue, host string) (InstanceID, bool) {
	h, ok := m.Host(host)
	if !ok || h == GlobalHost {
		return 0, false
	}
	id, ok := m.instanceOf[queue+"@"+m.hosts[h].name]
	return id, ok
}

// Attribute returns the number of a complex by its name or shortcut.
func (m *Model) Attribute(name string) (AttributeID, bool) {
	id, ok := m.attributeOf[name]
	return id, ok
}

// Attributes are the complexes, by name. The caller must not change them.
func (m *Model) Attributes() []Attribute { return m.attributes }

func (m *Model) hostByID(id HostID) *hostModel {
	if id == GlobalHost {
		return &m.global
	}
	return &m.hosts[id]
}

// groupsOf returns an expression.Groups.
func (m *Model) groupsOf(host string) []string {
	if id, ok := m.Host(host); ok {
		return m.hostByID(id).groups
	}
	return nil
}
