package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/priority"
	"github.com/execd-project/execd/scheduler/quota"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/value"
)

// Requests are the requests of a job that determine where and when the job can run (qsub(1)).
type Requests struct {
	User, Group string // login name and primary group of the owner
	Project     string // -P; empty for none
	// Audience are users and, with a leading @, access lists. All of them must have access to the
	// places of the request, instead of the owner (qrsub(1), -u). If it is empty, only the owner
	// must.
	Audience []string

	Hard, Soft []qconf.Setting // -l, in the order given; the last value of a name counts

	// Queues, SoftQueues and MasterQueues are lists of wc_queue (sge_types(1)) joined by
	// commas: -q, -q after -soft, and -masterq. Empty for none.
	Queues, SoftQueues, MasterQueues string

	PE    string         // -pe: a name or a pattern; empty for a serial job
	Slots rangelist.List // of -pe

	Checkpoint  string // -ckpt
	Immediate   bool   // -now y: the job runs in interactive queues only
	Reservation uint32 // -ar: the advance reservation that the job runs in; 0 for none

	// Binding is -binding. It has an effect only if params of sched_conf(5) contain BINDING_AWARE, and
	// on the choice of GPUs. Its Queue is ignored: hosts do not report which processors a core has.
	Binding binding.Request
}

// Category represents all jobs with equal requests. Model.Category returns the same Category for
// equal requests.
type Category struct {
	model    *Model
	index    int // unique among existing categories
	requests Requests
	hard     []request // by attribute
	soft     []request
	text     string // of the hard requests, for reasons

	queues, softQueues, masterQueues expression.QueueList

	in        []bool   // by user set: whether the set contains the owner
	audience  [][]bool // the same for each member of the audience; nil for the owner alone
	pes       []PEID   // the existing environments that match the pattern of -pe, by name
	resources float64
	duration  int64 // time limit of a task from the hard requests; 0 without one
	demands   map[PEID]*quota.Demand
	open      map[PEID][]bool // by queue: see openQueues
	static    []verdict       // by instance: the result of the checks that depend on settings only
	hopeless  bool            // the last run found no place to reserve: see attempt
}

// request is an element of -l.
type request struct {
	attribute AttributeID
	value     value.Request
	amount    float64 // for a numeric attribute
}

// RequestError says why a job cannot be accepted. Text is the message of qsub(1).
type RequestError struct {
	Text string
	Err  error
}

func (e *RequestError) Error() string { return e.Text }
func (e *RequestError) Unwrap() error { return e.Err }

func refuse(format string, args ...any) error {
	return &RequestError{Text: fmt.Sprintf(format, args...)}
}

// Category returns the category of jobs with these requests. Requests that are equal for every
// decision have the same category as long as it is in use; the model forgets unused categories. The
// error is a *RequestError: the master's answer to a job that it cannot accept.
func (m *Model) Category(r *Requests) (*Category, error) {
	c := &Category{model: m, requests: *r}
	var err error
	if c.hard, err = m.compileRequests(r.Hard, false); err != nil {
		return nil, err
	}
	if c.soft, err = m.compileRequests(r.Soft, true); err != nil {
		return nil, err
	}
	if c.hard, err = m.fromMemoryPool(c.hard, r.Hard); err != nil {
		return nil, err
	}
	for _, list := range []struct {
		text string
		to   *expression.QueueList
	}{{r.Queues, &c.queues}, {r.SoftQueues, &c.softQueues}, {r.MasterQueues, &c.masterQueues}} {
		if err := m.compileQueueList(list.text, list.to); err != nil {
			return nil, err
		}
	}
	if err := c.compilePE(); err != nil {
		return nil, err
	}
	c.in = m.membership(r.User, r.Group)
	for _, who := range r.Audience {
		c.audience = append(c.audience, m.membershipOf(who))
	}
	key := c.key()
	if known := m.categories.find(key); known != nil {
		return known, nil
	}
	c.text = c.requestText()
	c.resources = c.resourceContribution()
	c.duration = c.requestedDuration()
	m.categories.add(key, c)
	return c, nil
}

// Requests returns the requests that the category was made for. Other jobs of the category may have
// another owner.
func (c *Category) Requests() *Requests { return &c.requests }

// Parallel reports whether the jobs run in a parallel environment.
func (c *Category) Parallel() bool { return c.requests.PE != "" }

// isSoft reports whether the jobs have soft requests (qsub(1), -soft).
func (c *Category) isSoft() bool { return len(c.soft) > 0 || len(c.softQueues) > 0 }

// ResourceContribution returns rrcontr of sge_priority(5): the contribution of the job's requests
// to its urgency.
func (c *Category) ResourceContribution() float64 { return c.resources }

func (m *Model) compileRequests(list []qconf.Setting, soft bool) ([]request, error) {
	var all []request
	for _, s := range list {
		id, ok := m.attributeOf[s.Name]
		if !ok {
			return nil, refuse("unknown resource %q", s.Name)
		}
		r, err := m.compileRequest(id, s.Value, soft)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(all, func(o request) bool { return o.attribute == id }); i >= 0 {
			all[i] = r
		} else {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Compare(a.attribute, b.attribute) })
	return all, nil
}

// fromMemoryPool returns hard requests in which that of the memory pool is the largest of all
// requests for memory (MEMORY_POOL of qmaster_params), so that the job books it once, and as much as
// the agent limits it to: qconf.Cluster.RequestedMemory says how much. If that is nothing, the result
// has no request for the pool, and the job books the default.
func (m *Model) fromMemoryPool(hard []request, asked []qconf.Setting) ([]request, error) {
	if m.pool == None || m.configured[m.pool] == 0 {
		return hard, nil
	}
	bytes, err := m.cluster.RequestedMemory(asked)
	if err != nil {
		return nil, &RequestError{Text: err.Error(), Err: err}
	}
	i, found := slices.BinarySearchFunc(hard, m.pool, func(r request, id AttributeID) int { return cmp.Compare(r.attribute, id) })
	if bytes == 0 {
		if found {
			hard = slices.Delete(hard, i, i+1)
		}
		return hard, nil
	}
	var of request
	for _, r := range hard {
		if m.requestsMemory[r.attribute] && r.amount < value.Infinity && r.amount >= of.amount {
			of = r
		}
	}
	of.attribute, of.amount = m.pool, float64(bytes)
	if found {
		hard[i] = of
		return hard, nil
	}
	return slices.Insert(hard, i, of), nil
}

func (m *Model) compileRequest(id AttributeID, text string, soft bool) (request, error) {
	a := &m.attributes[id]
	switch {
	case id == m.slots:
		return request{}, refuse("%q denied: use parallel environments instead of requesting slots explicitly", "job")
	case a.Requestable == qconf.RequestableNo:
		return request{}, refuse("resource %q configured as non requestable", a.Name)
	case soft && a.consumable():
		return request{}, refuse("denied: soft requests on consumables like %q are not supported", a.Name)
	}
	return m.readRequest(id, text)
}

// readRequest reads the value of a request.
func (m *Model) readRequest(id AttributeID, text string) (request, error) {
	a := &m.attributes[id]
	switch {
	case text == "":
		return request{}, refuse("denied: missing value for resource %q", a.Name)
	case a.Name == "qname" && strings.Contains(text, "@"):
		return request{}, refuse("Queue instance names are not allowed in -l resource requests")
	}
	v, err := value.ParseRequest(a.Type, m.options.Hosts, text)
	if err != nil {
		if syntax, ok := errors.AsType[*expression.SyntaxError](err); ok {
			return request{}, &RequestError{Text: fmt.Sprintf("Parse error on position %d of the expression %q.", syntax.Position, text), Err: err}
		}
		return request{}, &RequestError{Text: fmt.Sprintf("attribute %q is not a %s value", a.Name, kindOf(a.Type)), Err: err}
	}
	if a.consumable() {
		switch {
		case a.resourceMap && v.Value().Number() != math.Trunc(v.Value().Number()):
			return request{}, refuse("attribute %q is a resource map: %q is not a whole number of its elements", a.Name, text)
		case v.Value().IsInfinite():
			return request{}, refuse("attribute %q is not a value that can be set to infinity", a.Name)
		case v.Value().Number() < 0:
			return request{}, refuse("attribute %q is consumable but has a negative value", a.Name)
		}
	}
	return request{attribute: id, value: v, amount: v.Value().Number()}, nil
}

func kindOf(t value.Type) string {
	if t == value.Int {
		return "integer"
	}
	return map[value.Type]string{value.Double: "double", value.Time: "time", value.Memory: "memory", value.Bool: "boolean"}[t]
}

// compileQueueList reads a list of queue references. Each must match an existing queue instance.
func (m *Model) compileQueueList(text string, to *expression.QueueList) error {
	if text == "" {
		return nil
	}
	var list expression.QueueList
	for item := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		r, err := expression.CompileQueueReference(m.options.Hosts, item)
		if err != nil {
			// As in the original, an invalid reference gets the message for an unknown queue.
			return &RequestError{Text: fmt.Sprintf("Job was rejected because job requests unknown queue \"%s\"", item), Err: err}
		}
		list = append(list, r)
	}
	for _, r := range list {
		if m.options.Only == "" && !m.anyInstance(r) {
			return refuse("Job was rejected because job requests unknown queue \"%s\"", r.String())
		}
	}
	*to = list
	return nil
}

func (m *Model) anyInstance(r *expression.QueueReference) bool {
	for i := range m.queues {
		q := &m.queues[i]
		if !r.MatchQueue(q.name) {
			continue
		}
		if r.Host() == nil {
			return true
		}
		for _, id := range q.instances {
			if r.Match(q.name, m.hosts[m.instances[id].host].name, m.groupsOf) {
				return true
			}
		}
	}
	return false
}

func (c *Category) compilePE() error {
	r := &c.requests
	if r.PE == "" {
		return nil
	}
	// This is a pattern rather than an expression: operators have no meaning in names (tested).
	e := expression.CompilePattern(false, r.PE)
	for id := range c.model.pes {
		if e.Match(c.model.pes[id].object.Name) {
			c.pes = append(c.pes, PEID(id))
		}
	}
	if len(c.pes) == 0 {
		return refuse("job rejected: the requested parallel environment %q does not exist", r.PE)
	}
	if r.Slots.IsEmpty() {
		return refuse("%q rejected: pe range must be greater than zero", "job")
	}
	for _, id := range c.pes[1:] {
		if r.Slots.Len() > 1 && c.assumedSlots(id) != c.assumedSlots(c.pes[0]) {
			return refuse("%q rejected: PEs matching wildcard and jobs slot range would cause ambiguous urgency slot amount", "job")
		}
	}
	return nil
}

// assumedSlots returns the number of slots that the urgency is based on.
func (c *Category) assumedSlots(pe PEID) int {
	p := &c.model.pes[pe]
	rule, fixed := p.urgencyRule()
	var ranges []priority.Slots
	for r := range c.requests.Slots.Ranges() {
		last := r.Last
		if last >= rangelist.Infinity {
			last = priority.Unbounded
		}
		ranges = append(ranges, priority.Slots{Min: r.First, Max: last})
	}
	return priority.AssumedSlots(rule, fixed, p.object.Slots, ranges)
}

func (c *Category) resourceContribution() float64 {
	slots := 1
	if len(c.pes) > 0 {
		slots = c.assumedSlots(c.pes[0])
	}
	urgency := float64(priority.SlotsUrgency)
	if c.model.slots != None {
		urgency = c.model.attributes[c.model.slots].Urgency
	}
	requests := []priority.Request{{Urgency: urgency, Amount: 1}}
	for i := range c.hard {
		a := &c.model.attributes[c.hard[i].attribute]
		requests = append(requests, priority.Request{Urgency: a.Urgency, Amount: c.hard[i].amount, Text: a.Type.IsText()})
	}
	return priority.ResourceContribution(requests, slots)
}

// requestedDuration returns the smaller of h_rt and s_rt, as the original does; the manual names
// the larger.
func (c *Category) requestedDuration() int64 {
	limit := math.Inf(1)
	for i := range c.hard {
		switch c.model.attributes[c.hard[i].attribute].Name {
		case "h_rt", "s_rt":
			limit = min(limit, c.hard[i].amount)
		}
	}
	if limit >= value.Infinity {
		return 0
	}
	return int64(limit)
}

// membership returns for each user set whether it contains a user.
func (m *Model) membership(user, group string) []bool {
	in := make([]bool, len(m.userSets))
	for i, set := range m.userSets {
		in[i] = set.Contains(user, group)
	}
	return in
}

// allows applies access lists (access_list(5)): it refuses a user who is in one of xusers, and, if
// users is not empty, a user who is in none of users.
func (c *Category) allows(a *access) bool {
	if c.audience == nil {
		return a.allows(c.in)
	}
	for _, in := range c.audience {
		if !a.allows(in) {
			return false
		}
	}
	return true
}

// allows applies access lists to a user who belongs to the given user sets.
func (a *access) allows(in []bool) bool {
	for _, set := range a.xusers {
		if set >= 0 && in[set] {
			return false
		}
	}
	if len(a.users) == 0 {
		return true
	}
	for _, set := range a.users {
		if set >= 0 && in[set] {
			return true
		}
	}
	return false
}

// membershipOf returns the user sets of a member of an audience. An access list is only a member of
// itself.
func (m *Model) membershipOf(who string) []bool {
	list, isList := strings.CutPrefix(who, "@")
	if !isList {
		return m.membership(who, "")
	}
	in := make([]bool, len(m.userSets))
	for i, set := range m.userSets {
		in[i] = set.Name == list
	}
	return in
}

// key returns a text that is equal for requests that no decision can distinguish.
func (c *Category) key() string {
	m, r := c.model, &c.requests
	b := make([]byte, 0, 128)
	field := func(name byte, s string) {
		if s != "" {
			b = append(b, name)
			b = strconv.AppendQuote(b, s)
		}
	}
	for i, in := range c.in {
		if in && m.referenced[i] {
			b = append(b, 'U')
			b = strconv.AppendInt(b, int64(i), 10)
		}
	}
	for _, who := range r.Audience {
		field('A', who)
	}
	if m.limits.users {
		field('u', r.User)
		field('g', r.Group)
	}
	if m.projectsMatter {
		field('P', r.Project)
	}
	for i := range c.hard {
		b = append(b, 'l')
		b = strconv.AppendInt(b, int64(c.hard[i].attribute), 10)
		field('=', c.hard[i].value.String())
	}
	for i := range c.soft {
		b = append(b, 's')
		b = strconv.AppendInt(b, int64(c.soft[i].attribute), 10)
		field('=', c.soft[i].value.String())
	}
	field('q', r.Queues)
	field('S', r.SoftQueues)
	field('m', r.MasterQueues)
	field('p', r.PE)
	if r.PE != "" {
		field('n', r.Slots.String())
	}
	field('c', r.Checkpoint)
	if c.binds() || c.model.hasDevices() && r.Binding.Strategy != binding.None {
		field('b', r.Binding.String())
	}
	if r.Immediate {
		b = append(b, 'I')
	}
	if r.Reservation != 0 {
		b = append(b, 'a')
		b = strconv.AppendUint(b, uint64(r.Reservation), 10)
		field('u', r.User)
		field('g', r.Group)
	}
	return string(b)
}

// requestText returns the hard requests as reasons show them: by name, or NONE.
func (c *Category) requestText() string {
	if len(c.hard) == 0 {
		return "NONE"
	}
	var parts []string
	for i := range c.hard {
		parts = append(parts, c.model.attributes[c.hard[i].attribute].Name+"="+c.hard[i].value.String())
	}
	return strings.Join(parts, ",")
}

// hardRequest returns the hard request of an attribute, nil if there is none.
func (c *Category) hardRequest(a AttributeID) *request {
	for i := range c.hard {
		if c.hard[i].attribute == a {
			return &c.hard[i]
		}
	}
	return nil
}

// minSlots returns the smallest number of slots.
func (c *Category) minSlots() int {
	if !c.Parallel() {
		return 1
	}
	return c.requests.Slots.First()
}

func (c *Category) consumer(pe string) quota.Consumer {
	return quota.Consumer{User: c.requests.User, Group: c.requests.Group, Project: c.requests.Project, PE: pe}
}
