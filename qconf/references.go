package qconf

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// references looks for the objects that others name.
type references struct {
	present  map[string]bool // by folder or file, see loader
	refused  refusals
	dangling bool // see Options
	c        *Cluster
	errs     []error
	missing  []*Error
}

// target is a sort of objects that others name.
type target struct {
	folder, what string
	exists       func(name string) bool
}

func has[V any](m map[string]*V) func(string) bool {
	return func(name string) bool { return m[name] != nil }
}

// check refuses references to objects that do not exist, and contradictions between objects.
func (l *loader) check(c *Cluster) {
	r := references{present: l.present, refused: l.refused, dangling: l.options.Dangling, c: c}
	r.check()
	l.errs = append(l.errs, r.errs...)
	c.missing = r.missing
	c.checkDepartments()
}

// WithComplexes returns the cluster with other complexes, or an error for every place that
// contradicts them: a complex in use cannot be removed.
func (c *Cluster) WithComplexes(complexes *Complexes) (*Cluster, error) {
	changed := c.clone()
	changed.complexes = complexes
	r := references{present: map[string]bool{"complexes": true}, c: changed}
	r.checkComplexes()
	if err := inOrder(Errors(errors.Join(r.errs...))); err != nil {
		return nil, err
	}
	changed.missing, changed.doubtful = c.missing, c.doubtful
	return changed, nil
}

func (r *references) check() {
	r.checkQueues()
	r.checkAccess()
	r.checkComplexes()
	r.checkShareTree()
}

// look refuses a name that no object has. It accepts the name of an object with errors.
func (r *references) look(t Text, attribute, name string, to target) {
	if to.exists(name) || r.refused.has(to.folder, name) {
		return
	}
	problem := fmt.Sprintf("%s %q does not exist", to.what, name)
	switch {
	case !r.present[to.folder]:
		r.missing = append(r.missing, t.errorAt(attribute, name, problem+": there is no "+to.folder, ErrNotFound))
		return
	case r.dangling:
		r.missing = append(r.missing, t.errorAt(attribute, name, problem, ErrNotFound))
		return
	}
	r.errs = append(r.errs, t.errorAt(attribute, name, problem, ErrNotFound))
}

func (r *references) list(t Text, attribute string, names []string, to target) {
	for _, name := range names {
		r.look(t, attribute, name, to)
	}
}

func (r *references) userSets() target { return target{"usersets", "user set", has(r.c.userSets)} }
func (r *references) projects() target { return target{"projects", "project", has(r.c.projects)} }

// lists returns the attributes of which the value is a list of names.
func (r *references) lists() map[string]target {
	return map[string]target{
		"pe_list":     {"pes", "parallel environment", has(r.c.pes)},
		"ckpt_list":   {"ckpts", "checkpointing environment", has(r.c.ckpts)},
		"calendar":    {"calendars", "calendar", has(r.c.calendars)},
		"user_lists":  r.userSets(),
		"xuser_lists": r.userSets(),
		"projects":    r.projects(),
		"xprojects":   r.projects(),
	}
}

// checkQueues checks the references of queues, including their settings for single hosts.
func (r *references) checkQueues() {
	lists := r.lists()
	// Without the folder there are no groups, and no other source could tell their hosts.
	groups := target{"hostgroups", "host group", func(name string) bool { return r.c.groups.Group(name) != nil }}
	group := func(q *Queue, attribute, who string) {
		if strings.HasPrefix(who, "@") && !r.refused.has(groups.folder, who) && !groups.exists(who) {
			r.errs = append(r.errs, q.errorAt(attribute, who, fmt.Sprintf("host group %q does not exist", who), ErrNotFound))
		}
	}
	for _, name := range sortedKeys(r.c.queues) {
		q := r.c.queues[name]
		for _, h := range q.Hosts {
			group(q, "hostlist", h)
		}
		for _, e := range q.entries {
			for i, p := range e.parts {
				if i > 0 {
					group(q, e.name, p.who)
				}
				to, isList := lists[e.name]
				switch {
				case isWord(p.text, none):
				case isList:
					r.list(q.Text, e.name, words(p.text), to)
				case e.name == "subordinate_list":
					r.subordinates(q, p.text)
				}
			}
		}
	}
}

func (r *references) subordinates(q *Queue, text string) {
	sub, err := parseSubordination(text)
	if err != nil {
		r.errs = append(r.errs, q.errorAt("subordinate_list", text, err.Error(), err))
		return
	}
	for _, s := range sub.Queues {
		switch {
		case s.Queue == q.Name:
			r.errs = append(r.errs, q.errorAt("subordinate_list", s.Queue, fmt.Sprintf("queue %q cannot be its own subordinate", s.Queue), nil))
		case r.c.queues[s.Queue] == nil && !r.refused.has("queues", s.Queue):
			r.errs = append(r.errs, q.errorAt("subordinate_list", s.Queue, fmt.Sprintf("queue %q does not exist", s.Queue), ErrNotFound))
		}
	}
}

// checkAccess looks for the access lists and projects that other objects than
// queues name.
func (r *references) checkAccess() {
	texts := []Text{r.c.global.Text, r.c.globalHost.Text}
	for _, name := range sortedKeys(r.c.hosts) {
		texts = append(texts, r.c.hosts[name].Text)
	}
	for _, name := range sortedKeys(r.c.pes) {
		texts = append(texts, r.c.pes[name].Text)
	}
	lists := r.lists()
	for _, t := range texts {
		for _, attribute := range []string{"user_lists", "xuser_lists", "projects", "xprojects"} {
			if v, ok := t.Value(attribute); ok && !isWord(v, none) {
				r.list(t, attribute, words(v), lists[attribute])
			}
		}
	}
	for _, name := range sortedKeys(r.c.projects) {
		p := r.c.projects[name]
		r.list(p.Text, "acl", p.ACL, r.userSets())
		r.list(p.Text, "xacl", p.XACL, r.userSets())
	}
	for _, name := range sortedKeys(r.c.users) {
		u := r.c.users[name]
		if u.DefaultProject != "" {
			r.look(u.Text, "default_project", u.DefaultProject, r.projects())
		}
		// The share tree could not tell them apart.
		if p := r.c.projects[name]; p != nil {
			r.errs = append(r.errs, u.errorAt("name", name, fmt.Sprintf("there is a project %q, too, in %q", name, p.file), nil))
		}
	}
}

// checkShareTree looks for the users and projects that the share tree names. A group may have any
// name.
func (r *references) checkShareTree() {
	r.c.shareTree = r.c.shareTree.resolved(r.c)
	tree := r.c.shareTree
	tree.Walk(func(n, _ *ShareNode) {
		to := target{"users", "user", has(r.c.users)}
		if n.Project {
			to = r.projects()
		}
		if n.refused || n.Default() || !n.Project && len(n.Children) > 0 || to.exists(n.Name) || r.refused.has(to.folder, n.Name) {
			return
		}
		e := &Error{File: tree.file, Line: n.line, Attribute: "name", Value: n.Name, Problem: fmt.Sprintf("%s %q does not exist", to.what, n.Name), Err: ErrNotFound}
		if r.present[to.folder] {
			r.errs = append(r.errs, e)
			return
		}
		e.Problem += ": there is no " + to.folder
		r.missing = append(r.missing, e)
	})
}

// checkDepartments warns of users and groups in several departments: their department is then
// undefined (access_list(5), entries).
func (c *Cluster) checkDepartments() {
	first := map[string]*UserSet{}
	for _, name := range sortedKeys(c.userSets) {
		s := c.userSets[name]
		if !s.Department {
			continue
		}
		members := append([]string(nil), s.Users...)
		for _, g := range s.UserGroups {
			members = append(members, "@"+g)
		}
		for _, m := range members {
			if other := first[m]; other != nil {
				c.doubtful = append(c.doubtful, s.errorAt("entries", m, fmt.Sprintf("%q is in the department %s already, expected to be in one only", m, other.Name), nil))
				continue
			}
			first[m] = s
		}
	}
}

// checkComplexes looks for the complexes that are named, and checks whether
// they have such values.
func (r *references) checkComplexes() {
	for _, name := range sortedKeys(r.c.queues) {
		q := r.c.queues[name]
		for _, e := range q.entries {
			if e.name != "load_thresholds" && e.name != "suspend_thresholds" && e.name != "complex_values" {
				continue
			}
			for _, p := range e.parts {
				var list []Setting
				if _, err := settings(func(l *[]Setting) *[]Setting { return l }).read(&list, p.text); err == nil {
					r.settings(q.Text, e.name, list, false)
				}
			}
		}
	}
	hosts := []*ExecHost{r.c.globalHost}
	for _, name := range sortedKeys(r.c.hosts) {
		hosts = append(hosts, r.c.hosts[name])
	}
	for _, h := range hosts {
		r.settings(h.Text, "complex_values", h.ComplexValues, true)
		for _, w := range h.LoadScaling {
			r.complexNamed(h.Text, "load_scaling", w.Name)
		}
		for _, v := range h.ReportVariables {
			r.complexNamed(h.Text, "report_variables", v)
		}
	}
	s := r.c.scheduler
	for _, a := range s.JobLoadAdjustments {
		r.complexNamed(s.Text, "job_load_adjustments", a.Name)
	}
	r.formula(s.Text, "load_formula", s.LoadFormula)
	for _, q := range r.c.quotas {
		r.quotas(q)
	}
}

// complexNamed looks for a complex.
func (r *references) complexNamed(t Text, attribute, name string) (x Complex, ok bool) {
	x, ok = r.c.complexes.Find(name)
	r.look(t, attribute, name, target{"complexes", "complex", func(string) bool { return ok }})
	return x, ok
}

// settings checks a list of name=value of a host or a queue: capacities, or
// thresholds.
func (r *references) settings(t Text, attribute string, list []Setting, ofHost bool) {
	refuse := func(value, problem string) { r.errs = append(r.errs, t.errorAt(attribute, value, problem, nil)) }
	seen := map[string]string{}
	for _, s := range list {
		x, ok := r.complexNamed(t, attribute, s.Name)
		if !ok {
			continue
		}
		if first, again := seen[x.Name]; again {
			refuse(s.Name, fmt.Sprintf("%q and %q are the same complex", first, s.Name))
		}
		seen[x.Name] = s.Name
		check := x.Check
		if attribute == "complex_values" {
			check = x.CheckCapacity
		}
		switch err := check(s.Value); {
		case x.Type == ComplexRSMap && !ofHost:
			refuse(s.Name, fmt.Sprintf("%q has the type RSMAP, which only hosts have, in complex_values", s.Name))
		case err != nil:
			refuse(s.Value, s.Name+": "+err.Error())
		}
	}
}

// formula checks the names in a load formula or a dynamic limit.
func (r *references) formula(t Text, attribute, text string) {
	for _, term := range formulaTerms(text) {
		for _, factor := range term {
			if _, err := complexNumber(factor); err == nil {
				continue
			}
			name := strings.TrimPrefix(factor, "$")
			if x, ok := r.complexNamed(t, attribute, name); ok && !x.Type.Numeric() {
				r.errs = append(r.errs, t.errorAt(attribute, name, fmt.Sprintf("%q has the type %s, expected a number in a formula", name, x.Type), nil))
			}
		}
	}
}

// quotas checks the limits of a resource quota set. It does not check the names in filters:
// administrators write rules for users and projects that do not exist yet.
func (r *references) quotas(q *ResourceQuotaSet) {
	for _, rule := range q.Rules {
		t := Text{file: q.file, entries: []entry{{name: "limit", line: rule.line}}}
		for _, l := range rule.Limits {
			x, ok := r.complexNamed(t, "limit", l.Name)
			if !ok {
				continue
			}
			var err error
			switch {
			case l.Dynamic:
				r.formula(t, "limit", l.Value)
				if !x.Type.Numeric() {
					err = fmt.Errorf("%q has the type %s, expected a number for a dynamic limit", l.Name, x.Type)
				}
			case x.Type == ComplexRSMap:
				_, err = parseNumber(l.Value, 0, math.MaxInt32)
			default:
				err = x.CheckCapacity(l.Value)
			}
			if err != nil {
				r.errs = append(r.errs, t.errorAt("limit", l.Value, l.Name+": "+err.Error(), err))
			}
		}
	}
}
