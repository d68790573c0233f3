package value

import (
	"fmt"
	"math"

	"github.com/execd-project/execd/scheduler/expression"
)

// Value is a value of a host, a queue, the cluster or a request. It takes two words, so that a
// cluster's values stay in the cache: a number has its type in a pointer that all of its type
// share. The zero Value is no value; nothing matches it.
type Value struct {
	number float64
	text   *text
}

type text struct {
	typ Type
	s   string
}

var numeric = [...]text{Int: {typ: Int}, Double: {typ: Double}, Time: {typ: Time}, Memory: {typ: Memory}, Bool: {typ: Bool}}

// OfNumber makes a value of a numeric type, e.g. of a load value that was scaled. For other types,
// and for NaN, it returns no value.
func OfNumber(t Type, number float64) Value {
	if !t.IsNumeric() || math.IsNaN(number) {
		return Value{}
	}
	return Value{number: max(-Infinity, min(number, Infinity)), text: &numeric[t]}
}

// OfText makes a value of a string type. Other types give no value.
func OfText(t Type, s string) Value {
	if !t.IsText() {
		return Value{}
	}
	return Value{text: &text{typ: t, s: s}}
}

// expected describes the valid text for Parse, by type.
var expected = [...]string{
	Int:    "a number like 4, 0x10 or 2k, or INFINITY",
	Double: "a number like 0.5 or 1e3, or INFINITY",
	Time:   "seconds, hours:minutes:seconds or INFINITY",
	Memory: "a number with an optional letter of k K m M g G t T, or INFINITY",
	Bool:   "TRUE or FALSE",
}

// Parse reads a value of any type. All numeric types accept the same notations: time_specifier and
// memory_specifier of sge_types(5). The type only affects how a value is printed, and times are
// rounded to whole seconds.
func Parse(t Type, s string) (Value, error) {
	switch {
	case t.IsText():
		return OfText(t, s), nil
	case !t.IsNumeric():
		return Value{}, fmt.Errorf("cannot read the value %q: it has no type", s)
	}
	v, err := number(s)
	if err != nil {
		return Value{}, fmt.Errorf("cannot read the %s value %q: it %w, expected %s", t, s, err, expected[t])
	}
	if t == Time && v != Infinity {
		v = math.RoundToEven(v)
	}
	return Value{number: v, text: &numeric[t]}, nil
}

// IsValid reports whether there is a value.
func (v Value) IsValid() bool { return v.text != nil }

// Type returns the type of the value, 0 if there is none.
func (v Value) Type() Type {
	if v.text == nil {
		return 0
	}
	return v.text.typ
}

// Number returns the number of a numeric value: seconds, bytes, 1 or 0 for true and
// false. For names it is 0.
func (v Value) Number() float64 { return v.number }

// Same reports whether two values cannot be told apart by any request. Names must be equal letter
// by letter. (The operator == compares the addresses of names.)
func (v Value) Same(o Value) bool {
	return v.number == o.number && v.Type() == o.Type() && v.Text() == o.Text()
}

// Text returns the text of a value of string type. For numbers it is "".
func (v Value) Text() string {
	if v.text == nil {
		return ""
	}
	return v.text.s
}

// IsInfinite reports whether the value is INFINITY.
func (v Value) IsInfinite() bool { return v.number >= Infinity }

// CheckConsumable refuses values that cannot be added up and used up: INFINITY,
// less than nothing, and names (complex(5), consumable).
func (v Value) CheckConsumable() error {
	switch {
	case !v.Type().IsNumeric():
		return fmt.Errorf("cannot consume %q: only numbers can be consumed", v)
	case v.IsInfinite():
		return fmt.Errorf("cannot consume %q: a consumable is finite", v)
	case v.number < 0:
		return fmt.Errorf("cannot consume %q: a consumable is not negative", v)
	}
	return nil
}

// Request is a value that a job requests with -l, ready to be compared with offers.
// The zero Request matches nothing.
type Request struct {
	value      Value
	expression *expression.Expression // of string types
	text       string
}

// ParseRequest reads the value of a request. For a string type it is a wildcard expression
// (sge_types(5)); hosts defines the comparison of host names. "-l x" without a value requests TRUE,
// whatever the type of x.
func ParseRequest(t Type, hosts expression.HostNames, s string) (Request, error) {
	v, err := Parse(t, s)
	if err != nil {
		return Request{}, err
	}
	r := Request{value: v, text: s}
	switch {
	case t == Time && !v.IsInfinite():
		// qstat shows times in seconds, and all other values as they were typed.
		r.text = string(appendFixed(nil, v.number, 0))
	case t == Host:
		r.expression, err = expression.CompileHost(hosts, s)
	case t == CString:
		r.expression, err = expression.Compile(expression.CString, s)
	case t.IsText():
		r.expression, err = expression.Compile(expression.String, s)
	}
	if err != nil {
		return Request{}, err
	}
	return r, nil
}

// Match reports whether an offer satisfies the request: whether request relop offer holds
// (complex(5), relop). For names, relop is == or !=; the request is the pattern and the offer the
// text. An offer of another type, or no offer, does not satisfy it.
func (r *Request) Match(relop Relop, offer Value) bool {
	if r.value.text == nil || offer.text == nil {
		return false
	}
	if r.expression == nil {
		return offer.text.typ == r.value.text.typ && relop.Holds(r.value.number, offer.number)
	}
	if offer.text.typ != r.value.text.typ {
		return false
	}
	switch relop {
	case Equal:
		return r.expression.Match(offer.text.s)
	case NotEqual:
		return !r.expression.Match(offer.text.s)
	}
	return false
}

// Value returns the requested value; for a string type it is the text of the expression.
func (r *Request) Value() Value { return r.value }

// Expression returns the expression of a request of a string type, or nil for other types.
func (r *Request) Expression() *expression.Expression { return r.expression }

// String returns the request as qstat shows it: times in seconds, other values as typed.
func (r *Request) String() string { return r.text }
