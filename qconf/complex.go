package qconf

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Complex is one element of complex(5): a resource that a job may request.
type Complex struct {
	Name, Shortcut string
	Type           ComplexType
	Relop          string      // relation between request and value: ==, !=, >=, >, <=, < or EXCL
	Requestable    Requestable // whether -l may name it
	Consumable     Consumable  // whether jobs use it up
	Default        string      // the amount that a job without a request uses up; it is not a limit
	Urgency        float64     // added to the urgency of a job for each requested unit
}

// ComplexType is the type of a complex: the form of its values and their order.
type ComplexType string

// The types of complex(5).
const (
	ComplexInt      ComplexType = "INT"
	ComplexDouble   ComplexType = "DOUBLE"
	ComplexTime     ComplexType = "TIME"
	ComplexMemory   ComplexType = "MEMORY"
	ComplexBool     ComplexType = "BOOL"
	ComplexString   ComplexType = "STRING"
	ComplexCString  ComplexType = "CSTRING"
	ComplexRestring ComplexType = "RESTRING"
	ComplexHost     ComplexType = "HOST"
	// ComplexRSMap is not a type of Grid Engine 8.1, but of its successors: see
	// ResourceMap.
	ComplexRSMap ComplexType = "RSMAP"
)

// Requestable reports whether jobs may request a complex.
type Requestable string

// The values of requestable in complex(5).
const (
	RequestableYes    Requestable = "YES"
	RequestableNo     Requestable = "NO"
	RequestableForced Requestable = "FORCED" // they must
)

// Consumable says whether jobs use a complex up, and whether a request is per slot, job or host.
type Consumable string

// The values of consumable in complex(5).
const (
	ConsumableNo  Consumable = "NO"
	ConsumableYes Consumable = "YES" // a request is for each slot
	ConsumableJob Consumable = "JOB" // a request is for the whole job
	// ConsumableHost is per host that a job uses, regardless of the number of its slots there. Grid
	// Engine 8.1.9 does not have it; its successors do.
	ConsumableHost Consumable = "HOST"
)

// Complexes is the complex configuration of a cluster. It always has the
// built-in elements of the template. A nil one is empty.
type Complexes struct {
	file    string
	list    []Complex
	printed [][]string     // the columns of list as they are printed
	at      map[string]int // by name and by shortcut
	lines   []int          // of the file; 0 for what the file lacks
	// refused are the names in lines with errors: they are not unknown.
	refused map[string]bool
}

// complexTable are the columns in their order.
var complexTable = []attribute[Complex]{
	column("name", name(func(c *Complex) *string { return &c.Name })),
	column("shortcut", name(func(c *Complex) *string { return &c.Shortcut })),
	column("type", keyword(func(c *Complex) *ComplexType { return &c.Type }, ComplexInt, ComplexDouble, ComplexTime,
		ComplexMemory, ComplexBool, ComplexString, ComplexCString, ComplexRestring, ComplexHost, ComplexRSMap)),
	column("relop", keyword(func(c *Complex) *string { return &c.Relop }, "==", "!=", ">=", ">", "<=", "<", relopExclusive)),
	column("requestable", abbreviated(func(c *Complex) *Requestable { return &c.Requestable },
		RequestableYes, RequestableNo, RequestableForced)),
	column("consumable", abbreviated(func(c *Complex) *Consumable { return &c.Consumable },
		ConsumableYes, ConsumableNo, ConsumableJob, ConsumableHost)),
	column("default", anyText(func(c *Complex) *string { return &c.Default })),
	column("urgency", kind[Complex]{read: readUrgency}),
}

// relopExclusive is the relation of complexes that a job can request for exclusive use.
const relopExclusive = "EXCL"

func column(name string, k kind[Complex]) attribute[Complex] {
	return attribute[Complex]{name: name, kind: k, required: true}
}

// abbreviated returns the kind that keyword returns, which also accepts the first letter of each
// word.
func abbreviated[T any, W ~string](field func(*T) *W, words ...W) kind[T] {
	whole := keyword(field, words...)
	return kind[T]{read: func(dst *T, s string) (string, error) {
		for _, w := range words {
			if strings.EqualFold(s, string(w[:1])) {
				s = string(w)
			}
		}
		return whole.read(dst, s)
	}}
}

// readUrgency reads a number in the notation of all numeric complexes; it is printed as it was
// written. It refuses INFINITY, which Grid Engine accepts, because all other urgencies would be
// negligible next to it.
func readUrgency(c *Complex, s string) (string, error) {
	v, err := complexNumber(s)
	switch {
	case err != nil:
		err = fmt.Errorf("%w, expected one like 10 or 0.5", err)
	case math.IsInf(v, 0):
		err = fmt.Errorf("%q is not possible here, expected a finite number", s)
	}
	c.Urgency = v
	return s, err
}

// ParseComplexes reads the format of qconf -sc: a line of eight columns for each element
// (complex(5), FORMAT). file is only used in errors, which are all *Error, joined.
//
// The elements of the template are built in: a file may change everything except their types. An
// element that the file does not contain is taken from the template.
func ParseComplexes(file string, data []byte) (*Complexes, error) {
	return whole(complexesOf(file, data))
}

// complexesOf returns the valid complexes together with the errors in the others.
func complexesOf(file string, data []byte) (*Complexes, error) {
	c, errs := readComplexes(file, string(data))
	builtin, _ := readComplexes("", complexTemplate)
	for i, b := range builtin.list {
		if at, ok := c.at[b.Name]; ok && c.list[at].Name == b.Name {
			continue
		}
		clash := false
		for _, name := range []string{b.Name, b.Shortcut} {
			if at, taken := c.at[name]; taken {
				clash = true
				x := c.list[at]
				errs = append(errs, &Error{
					File: file, Line: c.lines[at], Attribute: x.Name, Value: name,
					Problem: fmt.Sprintf("%q means the built-in complex %s, expected another name", name, b.Name),
				})
				break
			}
		}
		if !clash && !c.refused[b.Name] {
			c.append(b, builtin.printed[i], 0)
		}
	}
	return c, errJoin(errs)
}

// DefaultComplexes returns the complex configuration of a new cluster, the template.
func DefaultComplexes() *Complexes { return static(ParseComplexes("", nil)) }

// readComplexes reads the elements of a file, without the built-in ones.
func readComplexes(file, data string) (*Complexes, []error) {
	lines, errs := readLines(file, data)
	c := &Complexes{file: file, at: map[string]int{}, refused: map[string]bool{}}
	var many bool
	for _, l := range lines {
		if errs, many = enough(errs, l); many {
			break
		}
		x, printed, problems := readComplex(l)
		if clash := c.clash(l, x); clash != nil && len(printed) == len(complexTable) {
			problems = append(problems, clash)
		}
		if problems == nil {
			c.append(x, printed, l.number)
			continue
		}
		errs = append(errs, problems...)
		c.refused[l.name] = true
		if x.Shortcut != "" {
			c.refused[x.Shortcut] = true
		}
	}
	return c, errs
}

// readComplex reads a line with an element. errs are all that is wrong with it;
// printed has a column for each, unless their number is wrong.
func readComplex(l line) (x Complex, printed []string, errs []error) {
	refuse := func(value, problem string) {
		errs = append(errs, &Error{File: l.file, Line: l.number, Attribute: l.name, Value: value, Problem: problem})
	}
	fields := append([]string{l.name}, strings.Fields(l.value)...)
	if len(fields) != len(complexTable) {
		refuse(l.value, fmt.Sprintf("has %d columns, expected %d: name, shortcut, type, relop, requestable, consumable, default, urgency",
			len(fields), len(complexTable)))
		return x, nil, errs
	}
	bad := map[string]bool{}
	for i, column := range complexTable {
		err := checkValue(fields[i])
		if err == nil {
			fields[i], err = column.read(&x, fields[i])
		}
		if err != nil {
			bad[column.name] = true
			refuse(fields[i], column.name+": "+err.Error())
		}
	}
	broken := map[string]bool{} // a second rule about a column says nothing new
	for _, rule := range complexRules {
		if slices.ContainsFunc(rule.columns, func(name string) bool { return bad[name] || broken[name] }) {
			continue
		}
		if problem, value := rule.check(x); problem != "" {
			broken[rule.columns[0]] = true
			refuse(value, problem)
		}
	}
	return x, fields, errs
}

// complexRule checks a combination of columns whose values are valid alone. It returns the problem,
// or "", and the value at fault.
type complexRule struct {
	columns []string // the columns that it checks; the error names the first
	check   func(Complex) (problem, value string)
}

// complexRules are applied in this order.
var complexRules = []complexRule{
	{[]string{"relop", "type"}, func(x Complex) (problem, value string) {
		switch {
		case x.Relop == relopExclusive && x.Type != ComplexBool:
			problem = "relop: EXCL is for the type BOOL, not for " + string(x.Type)
		case !x.Type.Numeric() && x.Type != ComplexRSMap && x.Relop != "==" && x.Relop != "!=":
			problem = fmt.Sprintf("relop: %s is not possible for the type %s, expected == or !=", x.Relop, x.Type)
		case x.Type == ComplexBool && x.Relop != "==" && x.Relop != relopExclusive:
			problem = fmt.Sprintf("relop: %s is not possible for the type BOOL, expected == or EXCL", x.Relop)
		}
		return problem, x.Relop
	}},
	{[]string{"consumable", "relop", "type"}, func(x Complex) (problem, value string) {
		consumable := x.Consumable != ConsumableNo
		switch {
		case consumable && !x.Type.Numeric() && x.Type != ComplexRSMap:
			problem = fmt.Sprintf("consumable: %s is not possible for the type %s", x.Consumable, x.Type)
		case consumable && x.Type == ComplexBool && x.Relop != relopExclusive:
			problem = fmt.Sprintf("consumable: %s is possible for the type BOOL only with the relop EXCL", x.Consumable)
		case !consumable && x.Relop == relopExclusive:
			problem = "consumable: NO is not possible with the relop EXCL, expected YES"
		case !consumable && x.Type == ComplexRSMap:
			problem = "consumable: NO is not possible for the type RSMAP, expected YES or JOB"
		case consumable && x.Type != ComplexBool && x.Relop != "<=":
			problem = fmt.Sprintf("relop: %s is not possible for a consumable, expected <=", x.Relop)
		}
		return problem, string(x.Consumable)
	}},
	{[]string{"default", "type", "consumable", "requestable"}, func(x Complex) (problem, value string) {
		if x.Type == ComplexRSMap {
			// The default amount of a job is a number, not a map.
			if _, err := parseNumber(x.Default, 0, maxMapped); err != nil {
				return "default: " + err.Error(), x.Default
			}
		} else if err := x.Check(x.Default); err != nil {
			return "default: " + err.Error(), x.Default
		}
		number, _ := complexNumber(x.Default)
		switch consumable := x.Consumable != ConsumableNo; {
		case consumable && (number < 0 || math.IsInf(number, 0)):
			problem = fmt.Sprintf("default: %q is not possible for a consumable, expected a finite value that is not negative", x.Default)
		case consumable && x.Requestable == RequestableNo && x.zero(x.Default):
			problem = fmt.Sprintf("default: %q is not possible for a consumable that cannot be requested: no job would use it", x.Default)
		case consumable && x.Requestable == RequestableForced && !x.zero(x.Default):
			problem = fmt.Sprintf("default: %q is not possible for a consumable that must be requested, expected 0", x.Default)
		case !consumable && !x.zero(x.Default):
			expected := "0"
			if !x.Type.Numeric() {
				expected = none
			}
			problem = fmt.Sprintf("default: %q is for consumables only, expected %s", x.Default, expected)
		}
		return problem, x.Default
	}},
	{[]string{"requestable", "name"}, func(x Complex) (problem, value string) {
		if x.Name == "tmpdir" && x.Requestable != RequestableNo {
			problem = "requestable: tmpdir cannot be requested, expected NO"
		}
		return problem, string(x.Requestable)
	}},
	{[]string{"type", "name"}, func(x Complex) (problem, value string) {
		want, builtin := builtinType(x.Name)
		text := func(t ComplexType) bool {
			return t == ComplexString || t == ComplexCString || t == ComplexRestring
		}
		if builtin && x.Type != want && (!text(x.Type) || !text(want)) {
			problem = fmt.Sprintf("type: the built-in complex %s has the type %s", x.Name, want)
		}
		return problem, string(x.Type)
	}},
}

// clash returns an error if another element already has the name or the shortcut of x.
func (c *Complexes) clash(l line, x Complex) error {
	for _, name := range []string{x.Name, x.Shortcut} {
		if i, taken := c.at[name]; taken {
			return &Error{File: l.file, Line: l.number, Attribute: x.Name, Value: name, Problem: fmt.Sprintf("%q means %s already", name, c.list[i].Name)}
		}
	}
	return nil
}

func (c *Complexes) append(x Complex, printed []string, line int) {
	c.at[x.Name], c.at[x.Shortcut] = len(c.list), len(c.list)
	c.list, c.printed, c.lines = append(c.list, x), append(c.printed, printed), append(c.lines, line)
}

// All returns the elements, sorted by their names.
func (c *Complexes) All() []Complex {
	if c == nil {
		return nil
	}
	return slices.SortedFunc(slices.Values(c.list), func(a, b Complex) int { return strings.Compare(a.Name, b.Name) })
}

// Find returns the element that a request of -l names, by its name or shortcut.
func (c *Complexes) Find(name string) (x Complex, ok bool) {
	if c == nil {
		return x, false
	}
	i, ok := c.at[name]
	if ok {
		x = c.list[i]
	}
	return x, ok
}

// Format prints the elements as qconf -sc does, by name. Reading the result
// gives the same.
func (c *Complexes) Format() string {
	header := make([]string, len(complexTable))
	for i, column := range complexTable {
		header[i] = column.name
	}
	header[0] = "#" + header[0]
	var rows [][]string
	if c != nil {
		rows = slices.SortedFunc(slices.Values(c.printed), func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	}
	// qconf makes each column four blanks wider than its longest value, or one
	// than its name.
	widths := make([]int, len(header))
	for i, h := range header {
		widths[i] = len(h) + 1
		for _, r := range rows {
			widths[i] = max(widths[i], len(r[i])+4)
		}
	}
	var b strings.Builder
	pad := func(s string, width int) { b.WriteString(s + strings.Repeat(" ", width-len(s))) }
	for i, h := range header {
		pad(h, widths[i])
	}
	b.WriteString("\n#" + strings.Repeat("-", b.Len()-1) + "\n")
	last := len(header) - 1
	for _, r := range rows {
		for i, value := range r[:last] {
			pad(value, widths[i])
		}
		b.WriteString(r[last] + "\n")
	}
	b.WriteString("# >#< starts a comment but comments are not saved across edits --------\n")
	return b.String()
}
