package qconf

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/execd-project/execd/specifier"
)

// Complex is one element of complex(5): a resource that a job may request.
type Complex struct {
	Name, Shortcut string
	Type           ComplexType
	Relop          string      // relation between request and value: ==, !=, >=, >, <=, < or EXCL
	Requestable    Requestable // whether -l may name it
	Consumable     Consumable  // whether jobs use it up
	Default        string      // what a job uses up that does not request it; it is no limit
	Urgency        float64     // what a request adds to the job's urgency
}

// ComplexType is how values of a complex are noted and compared.
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
)

// Requestable says whether jobs may request a complex.
type Requestable string

// The values of requestable in complex(5).
const (
	RequestableYes    Requestable = "YES"
	RequestableNo     Requestable = "NO"
	RequestableForced Requestable = "FORCED" // they must
)

// Consumable says whether jobs use a complex up, and what a request is for.
type Consumable string

// The values of consumable in complex(5).
const (
	ConsumableNo  Consumable = "NO"
	ConsumableYes Consumable = "YES" // a request is for each slot
	ConsumableJob Consumable = "JOB" // a request is for the whole job
)

// Complexes is the complex configuration of a cluster. A nil one is empty.
type Complexes struct {
	file string
	list []Complex
	at   map[string]int // by name and by shortcut
}

// complexTable are the columns in their order, with the width that qconf gives
// them.
var complexTable = []struct {
	attribute[Complex]
	width int
}{
	{column("name", name(func(c *Complex) *string { return &c.Name })), 19},
	{column("shortcut", name(func(c *Complex) *string { return &c.Shortcut })), 10},
	{column("type", keyword(func(c *Complex) *ComplexType { return &c.Type }, ComplexInt, ComplexDouble, ComplexTime,
		ComplexMemory, ComplexBool, ComplexString, ComplexCString, ComplexRestring, ComplexHost)), 9},
	{column("relop", keyword(func(c *Complex) *string { return &c.Relop }, "==", "!=", ">=", ">", "<=", "<", "EXCL")), 5},
	{column("requestable", abbreviated(func(c *Complex) *Requestable { return &c.Requestable },
		RequestableYes, RequestableNo, RequestableForced)), 11},
	{column("consumable", abbreviated(func(c *Complex) *Consumable { return &c.Consumable },
		ConsumableYes, ConsumableNo, ConsumableJob)), 10},
	{column("default", anyText(func(c *Complex) *string { return &c.Default })), 8},
	{column("urgency", kind[Complex]{read: readUrgency}), 0},
}

func column(name string, k kind[Complex]) attribute[Complex] {
	return attribute[Complex]{name: name, kind: k, required: true}
}

// abbreviated is keyword for words of which the first letter suffices.
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

func readUrgency(c *Complex, s string) (string, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return s, fmt.Errorf("%q is no number", s)
	}
	c.Urgency = v
	return strconv.FormatFloat(v, 'f', -1, 64), nil
}

// ParseComplexes reads what qconf -sc prints: a line of eight columns for each
// element (complex(5), FORMAT). file is only used in errors, which are all
// *Error, joined.
func ParseComplexes(file string, data []byte) (*Complexes, error) {
	lines, errs := readLines(file, string(data))
	c := &Complexes{file: file, at: map[string]int{}}
	for _, l := range lines {
		x, problem := readComplex(l)
		if problem == nil {
			problem = c.add(l, x)
		}
		if problem != nil {
			errs = append(errs, problem)
		}
	}
	if err := errJoin(errs); err != nil {
		return nil, err
	}
	return c, nil
}

func readComplex(l line) (x Complex, problem error) {
	refuse := func(attribute, value, problem string) (Complex, error) {
		return x, &Error{File: l.file, Line: l.number, Attribute: attribute, Value: value, Problem: problem}
	}
	fields := append([]string{l.name}, strings.Fields(l.value)...)
	if len(fields) != len(complexTable) {
		return refuse(l.name, l.value, fmt.Sprintf("has %d columns, expected %d: name, shortcut, type, relop, requestable, consumable, default, urgency",
			len(fields), len(complexTable)))
	}
	for i, column := range complexTable {
		err := checkValue(fields[i])
		if err == nil {
			_, err = column.read(&x, fields[i])
		}
		if err != nil {
			return refuse(l.name, fields[i], column.name+": "+err.Error())
		}
	}
	numeric := x.Type == ComplexInt || x.Type == ComplexDouble || x.Type == ComplexTime || x.Type == ComplexMemory ||
		x.Type == ComplexBool && x.Relop == "EXCL"
	if x.Consumable != ConsumableNo && !numeric {
		return refuse(l.name, string(x.Consumable), fmt.Sprintf("consumable: %s is not possible for the type %s", x.Consumable, x.Type))
	}
	if err := x.check(x.Default); err != nil {
		return refuse(l.name, x.Default, "default: "+err.Error())
	}
	return x, nil
}

// check refuses values that the type does not have.
func (x Complex) check(value string) (err error) {
	switch x.Type {
	case ComplexTime:
		_, err = specifier.Time(value)
	case ComplexMemory:
		_, err = specifier.Memory(value)
	case ComplexInt, ComplexDouble:
		if _, err = strconv.ParseFloat(value, 64); err != nil {
			err = fmt.Errorf("%q is no number", value)
		}
	case ComplexBool:
		_, err = parseBool(value)
	}
	return err
}

// add refuses names that mean another element already.
func (c *Complexes) add(l line, x Complex) error {
	for _, name := range []string{x.Name, x.Shortcut} {
		if i, taken := c.at[name]; taken {
			return &Error{File: l.file, Line: l.number, Attribute: x.Name, Value: name, Problem: fmt.Sprintf("%q means %s already", name, c.list[i].Name)}
		}
	}
	c.at[x.Name], c.at[x.Shortcut] = len(c.list), len(c.list)
	c.list = append(c.list, x)
	return nil
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

// Format prints the elements as qconf -sc does. Reading the result gives the same.
func (c *Complexes) Format() string {
	var b strings.Builder
	row := func(fields ...string) {
		for i, f := range fields {
			b.WriteString(f)
			if i < len(fields)-1 {
				b.WriteString(strings.Repeat(" ", max(complexTable[i].width-len(f), 0)) + " ")
			}
		}
		b.WriteByte('\n')
	}
	var names []string
	for _, column := range complexTable {
		names = append(names, column.name)
	}
	names[0] = "#" + names[0]
	row(append(names, "")...)
	b.WriteString("#" + strings.Repeat("-", b.Len()-2) + "\n")
	if c != nil {
		for _, x := range c.list {
			row(x.Name, x.Shortcut, string(x.Type), x.Relop, string(x.Requestable), string(x.Consumable), x.Default,
				strconv.FormatFloat(x.Urgency, 'f', -1, 64))
		}
	}
	b.WriteString("# >#< starts a comment but comments are not saved across edits --------\n")
	return b.String()
}
