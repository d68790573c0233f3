package qconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
)

// ResourceQuotaSet is a set of rules of sge_resource_quota(5). The first rule
// that matches a job and a place holds for it; all sets hold together.
type ResourceQuotaSet struct {
	Name        string
	Enabled     bool
	Description string // as it is written, with its quotes; empty for NONE
	Rules       []QuotaRule

	file     string
	line     int // of name
	warnings []*Error
}

// QuotaRule is a rule of a resource quota set.
type QuotaRule struct {
	Name                                string // may be empty
	Users, Projects, PEs, Queues, Hosts QuotaFilter
	Limits                              []QuotaLimit // none for "to NONE", which limits nothing
	line                                int
}

// QuotaFilter selects the users, projects, parallel environments, queues or hosts of a rule. The
// zero value selects all.
type QuotaFilter struct {
	// Expanded filters are written in braces: the limit is for each that
	// matches. Otherwise all that match share it.
	Expanded bool
	// Scope are the selected names, XScope (with ! in the file) the excluded ones: "*", names,
	// patterns and @lists.
	Scope, XScope []string
}

// Set reports whether the rule has the filter.
func (f QuotaFilter) Set() bool { return len(f.Scope)+len(f.XScope) > 0 }

// QuotaLimit is one limit of a rule.
type QuotaLimit struct {
	Name  string // of a complex, or its shortcut
	Value string // a value, or a formula
	// Dynamic limits are formulas with complexes of the host, which are written with a $, such as
	// $num_proc*2.
	Dynamic bool
}

// Line returns the line of the file that has the rule, from 1.
func (r QuotaRule) Line() int { return r.line }

// File returns the name of the file that the set was read from.
func (q *ResourceQuotaSet) File() string { return q.file }

// Warnings returns the places that can be read but are probably not meant.
func (q *ResourceQuotaSet) Warnings() []*Error { return q.warnings }

// quotaFilters are the filters in the order in which qconf prints them.
var quotaFilters = []struct {
	word string
	of   func(*QuotaRule) *QuotaFilter
}{
	{"users", func(r *QuotaRule) *QuotaFilter { return &r.Users }},
	{"projects", func(r *QuotaRule) *QuotaFilter { return &r.Projects }},
	{"pes", func(r *QuotaRule) *QuotaFilter { return &r.PEs }},
	{"queues", func(r *QuotaRule) *QuotaFilter { return &r.Queues }},
	{"hosts", func(r *QuotaRule) *QuotaFilter { return &r.Hosts }},
}

// ParseResourceQuotas reads the format of qconf -srqs: any number of sets, each enclosed in braces
// on separate lines. file is only used in errors, which are all *Error, joined.
func ParseResourceQuotas(file string, data []byte) ([]*ResourceQuotaSet, error) {
	sets, err := readQuotas(file, data)
	if err != nil {
		return nil, err
	}
	return sets, nil
}

// readQuotas returns the valid resource quota sets together with the errors in the others.
func readQuotas(file string, data []byte) ([]*ResourceQuotaSet, error) {
	lines, errs := readLines(file, string(data))
	r := quotaReader{file: file, errs: errs}
	var many bool
	for _, l := range lines {
		if r.errs, many = enough(r.errs, l); many {
			break
		}
		r.line(l)
	}
	if r.set != nil {
		r.refuse(lines[len(lines)-1], "", "", "the file ends in a set, expected a line with }")
		r.close()
	}
	return r.sets, errJoin(r.errs)
}

// quotaReader reads sets and collects their errors.
type quotaReader struct {
	file string
	sets []*ResourceQuotaSet
	set  *ResourceQuotaSet // the one that is open
	seen map[string]int    // its attributes, by the line that they are in
	// rules are the numbers of its rules, from 1, by their names; of several the first.
	rules map[string]int
	open  int // the line of its brace
	errs  []error
}

func (r *quotaReader) refuse(l line, attribute, value, problem string) {
	r.errs = append(r.errs, &Error{File: r.file, Line: l.number, Attribute: attribute, Value: value, Problem: problem})
}

func (r *quotaReader) line(l line) {
	switch {
	case l.name == "{" && l.value == "":
		if r.set != nil {
			r.refuse(l, "", "{", fmt.Sprintf("a set in the set that begins in line %d, expected }", r.open))
			return
		}
		r.set, r.seen, r.open = &ResourceQuotaSet{file: r.file, line: l.number}, map[string]int{}, l.number
		r.rules = map[string]int{}
	case r.set == nil:
		r.refuse(l, "", l.name, fmt.Sprintf("%q is outside of a set, expected { on a line of its own", l.name))
	case l.name == "}" && l.value == "":
		r.close()
	default:
		r.attribute(l)
	}
}

func (r *quotaReader) attribute(l line) {
	if first, again := r.seen[l.name]; again && l.name != "limit" {
		r.refuse(l, l.name, l.value, fmt.Sprintf("comes twice, first in line %d", first))
		return
	}
	r.seen[l.name] = l.number
	err := checkValue(l.value)
	if err != nil {
		r.refuse(l, l.name, l.value, err.Error())
		return
	}
	switch l.name {
	case "name":
		r.set.Name, r.set.line = l.value, l.number
		err = CheckName(l.value)
	case "enabled":
		r.set.Enabled, err = parseBool(l.value)
	case "description":
		r.set.Description = describe(l.value)
	case "limit":
		var rule QuotaRule
		rule, err = parseRule(l.value)
		rule.line = l.number
		if first, again := r.rules[rule.Name]; again && len(r.set.warnings) < maxErrors {
			r.set.warnings = append(r.set.warnings, &Error{
				File: r.file, Line: l.number, Attribute: "limit", Value: rule.Name,
				Problem: fmt.Sprintf("rule %d has the name %q, too: messages do not tell them apart", first, rule.Name),
			})
		}
		r.set.Rules = append(r.set.Rules, rule)
		if rule.Name != "" && r.rules[rule.Name] == 0 {
			r.rules[rule.Name] = len(r.set.Rules)
		}
	default:
		r.refuse(l, "", l.name, fmt.Sprintf("unknown attribute %q of a resource quota set, expected name, enabled, description or limit", l.name))
	}
	for _, e := range problems(err) {
		r.refuse(l, l.name, l.value, e.Error())
	}
}

// describe reads a description. It reduces blanks between words to one, as qconf does.
func describe(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if isWord(s, none) {
		return ""
	}
	return s
}

func (r *quotaReader) close() {
	for _, name := range []string{"name", "limit"} {
		if r.seen[name] == 0 {
			r.refuse(line{number: r.open}, name, "", "is missing, a resource quota set needs it")
		}
	}
	r.sets = append(r.sets, r.set)
	r.set = nil
}

// parseRule reads a rule: [name NAME] {users|projects|pes|queues|hosts FILTER} to LIMITS, the
// filters in any order. It returns the valid part of the rule together with all errors, joined.
func parseRule(s string) (QuotaRule, error) {
	var rule QuotaRule
	var errs []error
	tokens := quotaTokens(s)
	seen := map[string]bool{}
	for len(tokens) > 0 {
		word := tokens[0]
		tokens = tokens[1:]
		if seen[word] {
			errs = addError(errs, fmt.Errorf("%q comes twice in a rule", word))
		}
		seen[word] = true
		if word == "to" {
			limits, err := parseQuotaLimits(strings.Join(tokens, " "), rule.Hosts.Expanded)
			rule.Limits = limits
			return rule, errJoin(errs, err)
		}
		if len(tokens) == 0 {
			return rule, errJoin(errs, fmt.Errorf("nothing follows %q at the end of the rule", word))
		}
		value := tokens[0]
		tokens = tokens[1:]
		if word == "name" {
			rule.Name = value
			errs = append(errs, CheckName(value))
			continue
		}
		i := slices.IndexFunc(quotaFilters, func(f struct {
			word string
			of   func(*QuotaRule) *QuotaFilter
		},
		) bool {
			return f.word == word
		})
		if i < 0 {
			errs = addError(errs, fmt.Errorf("%q is unknown in a rule, expected name, users, projects, pes, queues, hosts or to", word))
			// The lines that belong to it are skipped, too.
			tokens = append([]string{value}, tokens...)
			for len(tokens) > 0 && !ruleWord(tokens[0]) {
				tokens = tokens[1:]
			}
			continue
		}
		filter, err := parseQuotaFilter(value)
		errs = append(errs, within(word, err))
		*quotaFilters[i].of(&rule) = filter
	}
	// Without "to" the original limits nothing.
	return rule, errJoin(errs)
}

// ruleWord reports whether a word begins a part of a rule.
func ruleWord(s string) bool {
	for _, f := range quotaFilters {
		if f.word == s {
			return true
		}
	}
	return s == "name" || s == "to"
}

// quotaTokens returns the words of a rule. A blank after a comma or within braces
// ends no word: the manual writes {a, b}, and qconf breaks lines after commas.
func quotaTokens(s string) []string {
	var tokens []string
	joined := false
	depth := 0
	for f := range strings.FieldsSeq(s) {
		if n := len(tokens); n > 0 && (joined || strings.HasPrefix(f, ",") || depth > 0) {
			tokens[n-1] += f
		} else {
			tokens = append(tokens, f)
		}
		depth += strings.Count(f, "{") - strings.Count(f, "}")
		joined = strings.HasSuffix(f, ",")
	}
	return tokens
}

func parseQuotaFilter(s string) (QuotaFilter, error) {
	var f QuotaFilter
	list := s
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		f.Expanded = true
		if list, ok = strings.CutSuffix(inner, "}"); !ok {
			return f, fmt.Errorf("%q has no closing brace at its end", s)
		}
	}
	var errs []error
	short := textfile.Shorten(s)
	seen := map[string]bool{}
	for item := range strings.SplitSeq(list, ",") {
		name, not := strings.CutPrefix(item, "!")
		again := seen[item]
		seen[item] = true
		switch {
		case again: // and so is its error
		case strings.Trim(name, "@") == "" || strings.HasPrefix(name, "!"):
			errs = addError(errs, fmt.Errorf("%q in %q names nothing, expected names, patterns and @lists with commas between them", item, short))
		case strings.ContainsAny(name, `{}"'\`):
			errs = addError(errs, fmt.Errorf("%q in %q is not a name, pattern or @list", item, short))
		case not:
			f.XScope = append(f.XScope, name)
		default:
			f.Scope = append(f.Scope, name)
		}
	}
	return f, errJoin(errs)
}

func parseQuotaLimits(s string, perHost bool) ([]QuotaLimit, error) {
	if isWord(s, none) {
		return nil, nil
	}
	var limits []QuotaLimit
	var errs []error
	seen := map[string]bool{}
	items := words(s)
	for _, item := range items {
		l, err := parseQuotaLimit(item, perHost)
		if err == nil && seen[l.Name] {
			err = fmt.Errorf("%q is limited twice", l.Name)
		}
		if err != nil {
			errs = addError(errs, err)
			if !strings.Contains(item, "=") || strings.HasPrefix(item, "=") {
				break // the next lines may belong to it
			}
			continue
		}
		seen[l.Name] = true
		limits = append(limits, l)
	}
	if len(items) == 0 {
		errs = addError(errs, fmt.Errorf("nothing follows %q, expected name=value or NONE", "to"))
	}
	return limits, errJoin(errs)
}

func parseQuotaLimit(item string, perHost bool) (QuotaLimit, error) {
	name, value, ok := strings.Cut(item, "=")
	l := QuotaLimit{Name: name, Value: value, Dynamic: strings.Contains(value, "$")}
	err := CheckName(name)
	switch {
	case !ok || value == "":
		err = fmt.Errorf("%q is not a limit, expected name=value", item)
	case err != nil:
	case l.Dynamic && !perHost:
		err = fmt.Errorf("%q is a dynamic limit, which needs a filter hosts {...} in braces", item)
	case l.Dynamic:
		err = checkFormula(value)
	}
	return l, err
}

// String returns the filter in the notation of qconf, which prints excluded names last.
func (f QuotaFilter) String() string {
	items := slices.Clone(f.Scope)
	for _, x := range f.XScope {
		items = append(items, "!"+x)
	}
	list := strings.Join(items, ",")
	if f.Expanded {
		return "{" + list + "}"
	}
	return list
}

// String returns the rule in the notation of qconf.
func (r QuotaRule) String() string {
	var b strings.Builder
	if r.Name != "" {
		b.WriteString("name " + r.Name + " ")
	}
	for _, f := range quotaFilters {
		if filter := *f.of(&r); filter.Set() {
			b.WriteString(f.word + " " + filter.String() + " ")
		}
	}
	b.WriteString("to ")
	if len(r.Limits) == 0 {
		b.WriteString(none)
	}
	for i, l := range r.Limits {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Name + "=" + l.Value)
	}
	return b.String()
}

// FormatResourceQuotas prints sets as qconf -srqs does. Reading the result
// gives the same.
func FormatResourceQuotas(sets []*ResourceQuotaSet, style Style) string {
	var b strings.Builder
	const indent = 3
	attribute := func(name, value string, br breaks) {
		l := fmt.Sprintf("%*s%-13s%s", indent, "", name, value)
		if style == Wrapped {
			wrap(&b, l, indent, br)
		} else {
			b.WriteString(l)
		}
		b.WriteByte('\n')
	}
	for _, q := range sets {
		enabled, description := "FALSE", q.Description
		if q.Enabled {
			enabled = "TRUE"
		}
		if description == "" {
			description = none
		}
		b.WriteString("{\n")
		attribute("name", q.Name, betweenWords)
		attribute("description", description, betweenWords)
		attribute("enabled", enabled, betweenWords)
		for _, r := range q.Rules {
			attribute("limit", r.String(), betweenItems)
		}
		b.WriteString("}\n")
	}
	return b.String()
}
