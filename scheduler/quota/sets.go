package quota

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/loadformula"
	"github.com/execd-project/execd/scheduler/value"
)

// Compilation is the cluster that rules are compiled for.
type Compilation struct {
	Complexes *qconf.Complexes
	UserSets  []*qconf.UserSet // the sets for users @list
	// Queues and Hosts are the names of the cluster queues and of the hosts. This package
	// identifies them by their indexes.
	Queues, Hosts []string
	// Groups returns the host groups of a host, including the groups that contain these. Nil means
	// that there are no groups.
	Groups    expression.Groups
	HostNames expression.HostNames
}

// Values returns the value of an attribute of a host, by the name of the complex: the stricter one
// of the host's and the global host's, and for consumables the remaining amount. Dynamic limits are
// computed from it when they are checked. A nil Values has no values.
type Values func(host int32, attribute string) (v float64, ok bool)

// Sets are compiled resource quota sets.
type Sets struct {
	sets          []set // the enabled sets
	queues, hosts []string
	names         expression.HostNames
	groupsOf      expression.Groups
	userSets      []*qconf.UserSet

	applicable map[Consumer]*Applicable
	groups     map[groupName]uint64 // the number of the first limit
	counters   []groupName          // by number, once for each limit

	sortOutMore bool // see SortOutMore
}

// IsEmpty reports whether no set is enabled.
func (s *Sets) IsEmpty() bool { return len(s.sets) == 0 }

// set is an enabled set.
type set struct {
	name  string
	rules []*rule
}

// rule is a rule and its place in the order.
type rule struct {
	set, index  int
	name        string // SET/RULE
	source      *qconf.QuotaRule
	users       nameFilter
	projects    nameFilter
	pes         nameFilter
	queues      *places // nil for all
	hosts       *places
	eachUser    bool
	eachProject bool
	eachPE      bool
	eachQueue   bool
	eachHost    bool
	limits      []limit
}

// limit is a limit of a rule, with the properties of its complex.
type limit struct {
	attribute  string
	shortcut   string
	typ        value.Type
	relop      value.Relop
	consumable qconf.Consumable
	forced     bool
	byDefault  float64     // the amount for jobs that do not request the consumable
	text       string      // as it was written
	value      value.Value // of a static limit
	formula    *loadformula.Formula
	operands   []string // of the formula, by the names of the complexes
}

// at returns the limit at a host.
func (l *limit) at(v Values, host int32) value.Value {
	if l.formula == nil {
		return l.value
	}
	return value.OfNumber(l.typ, l.number(v, host))
}

// number returns the limit at a host as a number.
func (l *limit) number(v Values, host int32) float64 {
	if l.formula == nil {
		return l.value.Number()
	}
	return l.formula.Eval(func(operand int) (float64, bool) {
		if v == nil {
			return 0, false
		}
		return v(host, l.operands[operand])
	})
}

// Compile compiles the enabled sets, in their order. For each invalid part it returns an error, a
// *qconf.Error with the line of the rule. A limit with an unknown complex or an invalid value is
// left out, and an invalid part of a filter matches nothing, as in Grid Engine.
func Compile(sets []*qconf.ResourceQuotaSet, c Compilation) (*Sets, []error) {
	k := compiler{c: c, s: &Sets{
		queues: c.Queues, hosts: c.Hosts, names: c.HostNames, groupsOf: c.Groups, userSets: c.UserSets,
		applicable: map[Consumer]*Applicable{}, groups: map[groupName]uint64{},
	}}
	if k.s.groupsOf == nil {
		k.s.groupsOf = func(string) []string { return nil }
	}
	if float64(len(c.Queues)+1)*float64(len(c.Hosts)+1) >= 1<<placeBits {
		return k.s, []error{fmt.Errorf("cannot use resource quotas for %d queues on %d hosts: these are too many", len(c.Queues), len(c.Hosts))}
	}
	for _, q := range sets {
		if q.Enabled {
			k.set(q)
		}
	}
	return k.s, k.errs
}

// compiler compiles sets and collects their errors.
type compiler struct {
	c     Compilation
	s     *Sets
	errs  []error
	where *qconf.ResourceQuotaSet
	rule  *qconf.QuotaRule

	hostIndex *hostIndex         // made when a rule needs it
	hostLists map[string]*places // by the text of the filter
	queueOf   map[string]*places
}

func (k *compiler) refuse(attribute, value string, err error) {
	k.errs = append(k.errs, &qconf.Error{
		File: k.where.File(), Line: k.rule.Line(), Attribute: attribute, Value: value,
		Problem: err.Error(), Err: err,
	})
}

func (k *compiler) set(q *qconf.ResourceQuotaSet) {
	k.where = q
	compiled := set{name: q.Name}
	for i := range q.Rules {
		source := &q.Rules[i]
		k.rule = source
		name := source.Name
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		r := &rule{
			set: len(k.s.sets), index: i, name: q.Name + "/" + name, source: source,
			users:    compileUsers(source.Users, k.c.UserSets),
			projects: compileNames(source.Projects), pes: compileNames(source.PEs),
			eachUser: source.Users.Expanded, eachProject: source.Projects.Expanded, eachPE: source.PEs.Expanded,
			eachQueue: source.Queues.Expanded, eachHost: source.Hosts.Expanded,
		}
		r.queues, r.hosts = k.queues(source.Queues), k.hosts(source.Hosts)
		for _, l := range source.Limits {
			compiled, err := k.limit(l)
			if err != nil {
				k.refuse("limit", l.Name+"="+l.Value, err)
				continue
			}
			r.limits = append(r.limits, compiled)
		}
		compiled.rules = append(compiled.rules, r)
		k.s.sortOutMore = k.s.sortOutMore || r.sortsOutMore()
	}
	k.s.sets = append(k.s.sets, compiled)
}

func (k *compiler) limit(source qconf.QuotaLimit) (limit, error) {
	x, ok := k.c.Complexes.Find(source.Name)
	if !ok {
		return limit{}, fmt.Errorf("cannot limit %q: there is no such complex", source.Name)
	}
	if x.Consumable == qconf.ConsumableHost {
		return limit{}, fmt.Errorf("cannot limit %q: it is counted by host (consumable HOST), expected a complex that is counted by slot or by job", source.Name)
	}
	l := limit{
		attribute: x.Name, shortcut: x.Shortcut, text: source.Value,
		consumable: x.Consumable, forced: x.Requestable == qconf.RequestableForced,
	}
	var err error
	if l.typ, err = attributeType(x.Type); err != nil {
		return limit{}, fmt.Errorf("cannot limit %q: %w", source.Name, err)
	}
	if l.relop, err = value.ParseRelop(x.Relop); err != nil {
		return limit{}, fmt.Errorf("cannot limit %q: %w", source.Name, err)
	}
	if l.consumes() {
		d, err := value.Parse(l.typ, x.Default)
		if err == nil {
			err = d.CheckConsumable()
		}
		if err != nil {
			return limit{}, fmt.Errorf("cannot limit %q: its default: %w", source.Name, err)
		}
		l.byDefault = d.Number()
	}
	if source.Dynamic || strings.Contains(source.Value, "$") {
		err = k.dynamic(&l)
	} else if l.value, err = value.Parse(l.typ, l.text); err == nil && l.consumes() {
		err = l.value.CheckConsumable()
	}
	if err != nil {
		return limit{}, fmt.Errorf("cannot limit %q: %w", source.Name, err)
	}
	return l, nil
}

// consumes reports whether the limited resource is a consumable.
func (l *limit) consumes() bool { return l.consumable != qconf.ConsumableNo }

// attributeType translates a type. How many elements of a map are in use is a number.
func attributeType(t qconf.ComplexType) (value.Type, error) {
	if t == qconf.ComplexRSMap {
		return value.Int, nil
	}
	return value.ParseType(string(t))
}

func (k *compiler) dynamic(l *limit) error {
	if !l.typ.IsNumeric() {
		return fmt.Errorf("a formula is a number, and the type is %s", l.typ)
	}
	if !k.rule.Hosts.Expanded {
		return errors.New("a dynamic limit needs a filter hosts {...} in braces")
	}
	f, err := loadformula.Parse(l.text)
	if err != nil {
		return err
	}
	for _, name := range f.Attributes() {
		x, ok := k.c.Complexes.Find(name)
		switch {
		case !ok:
			return fmt.Errorf("there is no complex %q, which stands in %q", name, l.text)
		case !x.Type.Numeric():
			return fmt.Errorf("%q in %q has the type %s, expected a number", name, l.text, x.Type)
		}
		l.operands = append(l.operands, x.Name)
	}
	l.formula = &f
	return nil
}
