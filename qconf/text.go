package qconf

import "slices"

// Text is the text of an object: its attributes in qconf's order, each with its value in normal
// form. Every object embeds one. It is empty in objects that this package has not made.
type Text struct {
	file     string
	title    string // of the frame, see layout
	layout   layout
	entries  []entry
	warnings []*Error
}

// File returns the name of the file that the object was read from, as it was given
// to the reader; empty for an object that has none.
func (t Text) File() string { return t.file }

// Attributes returns the names of the attributes that the object has, in the order
// in which they are printed.
func (t Text) Attributes() []string {
	names := make([]string, len(t.entries))
	for i, e := range t.entries {
		names[i] = e.name
	}
	return names
}

// Value returns the value of an attribute as it is printed on one line. ok is false
// for an attribute that the object does not have.
func (t Text) Value(attribute string) (value string, ok bool) {
	e, ok := t.entry(attribute)
	return e.text(), ok
}

// Line returns the line of the file that sets an attribute, from 1; 0 when the value
// is the template's default.
func (t Text) Line(attribute string) int {
	e, _ := t.entry(attribute)
	return e.line
}

// Warnings returns the places that can be read but are probably not meant.
func (t Text) Warnings() []*Error { return t.warnings }

func (t Text) entry(name string) (entry, bool) {
	i := slices.IndexFunc(t.entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		return entry{}, false
	}
	return t.entries[i], true
}

// lines returns the attributes as a file would give them.
func (t Text) lines() []line {
	lines := make([]line, len(t.entries))
	for i, e := range t.entries {
		lines[i] = line{name: e.name, value: e.text(), file: t.file, number: e.line}
	}
	return lines
}

// errorAt returns an error about the value of an attribute of the object.
func (t Text) errorAt(attribute, value, problem string, cause error) *Error {
	return &Error{File: t.file, Line: t.Line(attribute), Attribute: attribute, Value: value, Problem: problem, Err: cause}
}
