package qconf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/nearest"
)

// table describes one sort of object: the attributes in the order in which
// qconf prints them, with the fields of T that they fill.
type table[T any] struct {
	object string // "queue", for messages
	manual string // "queue_conf(5)", the page with its attributes
	layout layout
	rows   []attribute[T]
}

// attribute is one row of a table.
type attribute[T any] struct {
	name string
	def  string // the template's default; an optional attribute that is missing does not get it
	kind[T]
	perHost  bool // takes [host=value] and [@group=value] (queue_conf(5))
	optional bool // may be missing; if so, it is not printed and gets no default
	local    bool // allowed in the configuration of a host (sge_conf(5))
	required bool // has no default
	// since is the release of Open Cluster Scheduler that introduced an attribute without an effect
	// here; empty for other attributes.
	since string
}

// kind is a notation: how a value is read, and how its text may be broken.
type kind[T any] struct {
	breaks breaks
	// keeps says that read stores and returns the valid part of a value together with the joined
	// errors of the other parts.
	keeps bool
	// read stores the whole value in dst and returns its normal text, which reads back to the same
	// value and the same text.
	read func(dst *T, text string) (normal string, err error)
}

// row returns an attribute that has a default.
func row[T any](name, def string, k kind[T]) attribute[T] {
	return attribute[T]{name: name, def: def, kind: k}
}

// entry is the text of one attribute of an object.
type entry struct {
	name   string
	parts  []part // the default setting first, then the settings of hosts and groups
	line   int    // 0 for a default
	breaks breaks
}

// text returns the printed value, on one line.
func (e entry) text() string {
	var b strings.Builder
	for i, p := range e.parts {
		if i == 0 {
			b.WriteString(p.text)
		} else {
			b.WriteString(",[" + p.who + "=" + p.text + "]")
		}
	}
	return b.String()
}

// parse reads a whole file. Missing attributes get their defaults. On an error it returns the valid
// part of the text and of the object, with defaults for the other attributes, so that the caller
// can look for further errors.
func (t *table[T]) parse(file string, data []byte) (Text, T, error) {
	lines, errs := readLines(file, string(data))
	lines, more := t.match(lines)
	text, obj, err := t.build(file, lines)
	return text, obj, errJoin(append(errs, more...), err)
}

// match refuses lines that are not attributes of the object, and repeated ones. It returns the
// others.
func (t *table[T]) match(lines []line) (known []line, errs []error) {
	first := map[string]int{}
	var many bool
	for _, l := range lines {
		var problem string
		switch n, again := first[l.name]; {
		case t.index(l.name) < 0:
			problem = t.unknown(l.name)
		case again:
			problem = fmt.Sprintf("%s comes twice, first in line %d", l.name, n)
		default:
			first[l.name] = l.number
			known = append(known, l)
			continue
		}
		errs = append(errs, &Error{File: l.file, Line: l.number, Value: l.value, Problem: problem})
		if errs, many = enough(errs, l); many {
			break
		}
	}
	return known, errs
}

// maxErrors is the maximum number of reported invalid lines of a file. A file with more probably is
// of another kind.
const maxErrors = 100

// enough reports whether to stop reading a file after a line, because it has too many errors. If so, it
// adds that to the errors.
func enough(errs []error, l line) ([]error, bool) {
	if len(errs) < maxErrors {
		return errs, false
	}
	return append(errs, &Error{File: l.file, Line: l.number, Problem: manyErrors}), true
}

// addError appends an error about an item of a value, unless there are too many already.
func addError(errs []error, err error) []error {
	switch {
	case len(errs) < maxErrors:
		return append(errs, err)
	case len(errs) == maxErrors:
		return append(errs, errors.New("there are "+strconv.Itoa(maxErrors)+" errors, further ones are not shown"))
	}
	return errs
}

var manyErrors = "there are " + strconv.Itoa(maxErrors) + " errors, what follows has not been read"

// unknown returns the message for an unknown attribute, with a similar name if there is one.
func (t *table[T]) unknown(name string) string {
	names := make([]string, len(t.rows))
	for i, r := range t.rows {
		names[i] = r.name
	}
	problem := fmt.Sprintf("unknown attribute %q of a %s, expected one of %s", name, t.object, t.manual)
	if near, ok := nearest.Word(name, names); ok {
		problem += ", perhaps " + near
	}
	return problem
}

func (t *table[T]) index(name string) int {
	return slices.IndexFunc(t.rows, func(r attribute[T]) bool { return r.name == name })
}

// build makes an object of known attributes, each of which occurs once.
func (t *table[T]) build(file string, lines []line) (Text, T, error) {
	var obj T
	var errs []error
	text := Text{file: file, title: t.object, layout: t.layout}
	given := make(map[string]line, len(lines))
	for _, l := range lines {
		given[l.name] = l
	}
	for _, r := range t.rows {
		l, ok := given[r.name]
		switch {
		case ok:
		case r.required:
			errs = append(errs, &Error{File: file, Attribute: r.name, Problem: "is missing, a " + t.object + " needs it"})
			continue
		case r.optional:
			continue
		default:
			l = line{name: r.name, value: r.def, file: file}
		}
		parts, refused := r.readParts(&obj, l)
		errs = append(errs, refused...)
		if len(parts) == 0 {
			continue
		}
		if l.gap && r.breaks == betweenWords {
			text.warnings = append(text.warnings, &Error{
				File: l.file, Line: l.number, Attribute: r.name, Value: l.value,
				Problem: "the line is continued after a comma, so that a blank now follows the comma in the command: qconf breaks lines there, unless SGE_SINGLE_LINE is set",
			})
		}
		text.entries = append(text.entries, entry{name: r.name, parts: parts, line: l.number, breaks: r.breaks})
	}
	if t.layout.framed {
		// The original prints configurations in the order of their file.
		order := func(e entry) int {
			if i := slices.IndexFunc(lines, func(l line) bool { return l.name == e.name }); i >= 0 {
				return i
			}
			return len(lines)
		}
		slices.SortStableFunc(text.entries, func(a, b entry) int { return order(a) - order(b) })
	}
	return text, obj, errors.Join(errs...)
}

// readParts reads the default setting of a line into dst, and checks the settings of hosts and groups.
// The returned parts lack the settings with errors. The template's default replaces an invalid default
// setting; if the template has none, readParts returns no parts.
func (r attribute[T]) readParts(dst *T, l line) (parts []part, errs []error) {
	refuse := func(value string, err error) {
		for _, e := range problems(err) {
			errs = append(errs, &Error{File: l.file, Line: l.number, Attribute: r.name, Value: value, Problem: e.Error()})
		}
	}
	split, err := []part{{text: l.value}}, checkValue(l.value)
	switch {
	case err != nil:
		split = nil
	case r.perHost:
		split, err = splitParts(l.value)
	}
	refuse(l.value, err)
	if len(split) == 0 {
		return r.fallback(dst), errs
	}
	for i, p := range split {
		into := dst
		if i > 0 {
			into = new(T)
		}
		normal, err := r.read(into, p.text)
		if i > 0 {
			err = within("["+p.who+"=...]", err)
		}
		refuse(p.text, err)
		switch {
		case err == nil || r.keeps:
			parts = append(parts, part{who: p.who, text: normal})
		case i == 0:
			parts = r.fallback(dst)
		}
	}
	return parts, errs
}

// fallback returns the template's default for a value with errors, or nil if there is no default.
func (r attribute[T]) fallback(dst *T) []part {
	if r.def == "" {
		return nil
	}
	// A default is valid: a test reads each of them.
	normal, _ := r.read(dst, r.def)
	return []part{{text: normal}}
}

// replaced replaces the line of the same attribute, or appends l.
func replaced(lines []line, l line) []line {
	i := slices.IndexFunc(lines, func(old line) bool { return old.name == l.name })
	if i < 0 {
		return append(lines, l)
	}
	lines[i] = l
	return lines
}

// with returns an object with one attribute changed, like qconf -mattr.
func (t *table[T]) with(old Text, name, value string) (Text, T, error) {
	var zero T
	i := t.index(name)
	if i < 0 {
		return Text{}, zero, &Error{File: old.file, Value: value, Problem: t.unknown(name)}
	}
	text, obj, err := t.build(old.file, replaced(old.lines(), line{name: name, value: strings.Trim(value, blanks), file: old.file}))
	if err != nil {
		return Text{}, zero, err
	}
	return text, obj, nil
}
