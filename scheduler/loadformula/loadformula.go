// Package loadformula holds formulas over the attributes of a host: the load_formula
// of sched_conf(5), by which hosts are sorted, and the dynamic limits of
// sge_resource_quota(5).
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It does not use the complex configuration: the caller checks the Attributes of a formula, and
// passes their values to Eval.
//
// It is pure. Formulas are immutable and may be used from any goroutine.
package loadformula

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Missing is the value of a formula if one of its attributes has no value: a host that does not
// report its load comes after hosts that do.
const Missing = 9999

// Formula is a sum of weighted attributes and numbers. The zero Formula is 0.
type Formula struct {
	text       string
	terms      []term
	attributes []string
}

// term is an attribute times a weight, or a number.
type term struct {
	attribute int // in attributes; -1 for none
	weight    float64
	minus     bool
}

// Parse reads a formula: terms joined by + and -, where the first one may have a sign. A term is a
// number, or an attribute with an optional weight after it (load*2). A $ before an attribute has no
// meaning. Blanks are ignored.
//
// The manual allows only positive integers as weights and no blanks; Grid Engine behaves as
// described here. Grid Engine also accepts terms without an operand (load++2, load*), and takes a
// sign before a weight for the beginning of the next term (load*-2); Parse refuses these.
func Parse(text string) (Formula, error) {
	f := Formula{text: strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, text)}
	switch {
	case f.text == "":
		return Formula{}, refuse(text, errors.New("it is empty, expected attributes like np_load_avg*2+slots"))
	case strings.EqualFold(f.text, "none"):
		return Formula{}, refuse(text, errors.New("there is always a formula, expected attributes like np_load_avg*2+slots"))
	}
	rest := f.text
	minus := false
	if rest[0] == '+' || rest[0] == '-' {
		minus, rest = rest[0] == '-', rest[1:]
	}
	for {
		end := strings.IndexAny(rest, "+-")
		item := rest
		if end >= 0 {
			item = rest[:end]
		}
		t, err := f.term(item)
		if err != nil {
			return Formula{}, refuse(text, err)
		}
		t.minus = minus
		f.terms = append(f.terms, t)
		if end < 0 {
			return f, nil
		}
		minus, rest = rest[end] == '-', rest[end+1:]
	}
}

func refuse(text string, err error) error {
	return fmt.Errorf("cannot read the formula %q: %w", text, err)
}

func (f *Formula) term(item string) (term, error) {
	factor, weight, weighted := strings.Cut(item, "*")
	if factor == "" {
		return term{}, errors.New("an operand is missing, expected an attribute or a number")
	}
	t := term{attribute: -1, weight: 1}
	if weighted {
		var ok bool
		if t.weight, ok = number(weight); !ok {
			return term{}, fmt.Errorf("%q is not a weight, expected one number after %q", weight, factor+"*")
		}
	}
	if v, ok := number(factor); ok {
		t.weight *= v
		return t, nil
	}
	name := strings.TrimPrefix(factor, "$")
	if name == "" || '0' <= name[0] && name[0] <= '9' || strings.ContainsAny(name, `/:'\[]{}|()@%,"&^$=`) {
		return term{}, fmt.Errorf("%q is neither an attribute nor a number", factor)
	}
	t.attribute = slices.Index(f.attributes, name)
	if t.attribute < 0 {
		t.attribute = len(f.attributes)
		f.attributes = append(f.attributes, name)
	}
	return t, nil
}

// number reads a decimal number with fraction and exponent, or a hexadecimal one.
// There is no sign: it would be the operator of the next term.
func number(s string) (float64, bool) {
	if digits, hex := strings.CutPrefix(strings.ToLower(s), "0x"); hex {
		v, err := strconv.ParseUint(digits, 16, 64)
		return float64(v), err == nil
	}
	if s == "" || strings.Trim(s, "0123456789.eE") != "" || strings.ContainsAny(s[:1], "eE") {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// Attributes returns the names of the attributes in the formula, each once, in the order of their
// first occurrence. Do not change the slice. For each, a complex with this name or shortcut must
// exist, with a numeric type.
func (f Formula) Attributes() []string { return f.attributes }

// Eval computes the formula from left to right. It calls value with the index of an attribute in
// Attributes, so that names are looked up only once. If any attribute has no value, or if the
// result is not a number, Eval returns Missing.
func (f Formula) Eval(value func(attribute int) (v float64, ok bool)) float64 {
	sum := 0.0
	for _, t := range f.terms {
		v := t.weight
		if t.attribute >= 0 {
			a, ok := value(t.attribute)
			if !ok {
				return Missing
			}
			v *= a
		}
		if t.minus {
			v = -v
		}
		sum += v
	}
	if math.IsNaN(sum) {
		return Missing
	}
	return sum
}

// String returns the formula as qconf -ssconf prints it: as it was written, without
// blanks.
func (f Formula) String() string { return f.text }
