package qconf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Forever is the value of INFINITY for times that allow it.
const Forever = time.Duration(math.MaxInt64)

// none is the form in which an empty value is written.
const none = "NONE"

// name returns an object_name of sge_types(5).
func name[T any](field func(*T) *string) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		return s, CheckName(s)
	}}
}

// optionalName returns an object_name or NONE, which is stored as "".
func optionalName[T any](field func(*T) *string) kind[T] {
	return orNone(name(field), field)
}

// orNone accepts NONE, in upper or lower case, in addition to the values of k, and stores "" for
// it.
func orNone[T any](k kind[T], field func(*T) *string) kind[T] {
	return kind[T]{breaks: k.breaks, keeps: k.keeps, read: func(dst *T, s string) (string, error) {
		if isWord(s, none) {
			*field(dst) = ""
			return none, nil
		}
		return k.read(dst, s)
	}}
}

// anyText takes everything that a line can hold.
func anyText[T any](field func(*T) *string) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		return s, nil
	}}
}

// number returns a decimal or hexadecimal integer from lo to hi.
func number[T any](lo, hi int, field func(*T) *int) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		v, err := parseNumber(s, lo, hi)
		*field(dst) = v
		return strconv.Itoa(v), err
	}}
}

func parseNumber(s string, lo, hi int) (int, error) {
	digits, base := s, 10 // a leading zero is not octal: the original reads 010 as 10
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		digits, base = s[2:], 16
	}
	v, err := strconv.ParseInt(digits, base, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is not a number, expected one from %d to %d", s, lo, hi)
	}
	if v < int64(lo) || v > int64(hi) {
		return 0, fmt.Errorf("%q is out of range, expected a number from %d to %d", s, lo, hi)
	}
	return int(v), nil
}

// boolean returns the kind of an attribute that is TRUE or FALSE, or one of the other spellings
// that the original takes.
func boolean[T any](field func(*T) *bool) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		v, err := parseBool(s)
		*field(dst) = v
		return strings.ToUpper(strconv.FormatBool(v)), err
	}}
}

func parseBool(s string) (bool, error) {
	switch {
	case isWord(s, "true", "t", "1", "yes", "y"):
		return true, nil
	case isWord(s, "false", "f", "0", "no", "n"):
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false, expected TRUE or FALSE", s)
}

// duration returns a time_specifier of sge_types(5) of at least lo.
func duration[T any](lo time.Duration, field func(*T) *time.Duration) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		v, err := parseDuration(s)
		switch {
		case err != nil:
		case v == Forever:
			err = fmt.Errorf("%q is not possible here, expected a finite time", s)
		case v < lo:
			err = fmt.Errorf("%q is too short, expected at least %s", s, quantity.FormatTime(uint64(lo/time.Second)))
		}
		*field(dst) = v
		return s, err
	}}
}

// durationOrForever returns a time_specifier or INFINITY, which is stored as Forever.
func durationOrForever[T any](field func(*T) *time.Duration) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		v, err := parseDuration(s)
		*field(dst) = v
		return s, err
	}}
}

// parseDuration reads a time_specifier; INFINITY is Forever.
func parseDuration(s string) (time.Duration, error) {
	v, err := quantity.Time(s)
	switch {
	case err != nil:
		return 0, err
	case v == quantity.Infinity:
		return Forever, nil
	case v >= uint64(Forever/time.Second):
		return 0, fmt.Errorf("%q is too long, expected less than 292 years", s)
	}
	return time.Duration(v) * time.Second, nil
}

// limit returns the soft or the hard value of a resource (queue_conf(5), RESOURCE
// LIMITS), named like its attribute.
func limit[T any](r job.Resource, hard bool, field func(*T) *job.Limits) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		v, err := r.Parse(s)
		if l := &field(dst)[r]; hard {
			l.Hard = v
		} else {
			l.Soft = v
		}
		return s, err
	}}
}

// keyword returns the kind of an attribute that is one of a few words, in any case.
func keyword[T any, W ~string](field func(*T) *W, words ...W) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		var expected []string
		for _, w := range words {
			if strings.EqualFold(s, string(w)) {
				*field(dst) = w
				return string(w), nil
			}
			expected = append(expected, string(w))
		}
		return s, fmt.Errorf("%q is unknown, expected one of %s", s, strings.Join(expected, ", "))
	}}
}

// words splits a list at blanks and commas; all lists of Grid Engine accept both.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
}

// list returns a list of items that check accepts, or NONE. It is printed with sep between the items. A
// repeated item counts once, as in Grid Engine.
func list[T any](sep string, check func(string) error, field func(*T) *[]string) kind[T] {
	return kind[T]{breaks: betweenItems, keeps: true, read: func(dst *T, s string) (string, error) {
		*field(dst) = nil
		items := words(s)
		if len(items) == 1 && isWord(items[0], none) {
			return none, nil
		}
		if len(items) == 0 {
			return none, fmt.Errorf("%q is an empty list, expected NONE or a list", s)
		}
		seen := make(map[string]bool, len(items))
		var kept []string
		var errs []error
		for _, item := range items {
			if seen[item] {
				continue
			}
			seen[item] = true
			if err := check(item); err != nil {
				errs = addError(errs, err)
				continue
			}
			kept = append(kept, item)
		}
		*field(dst) = kept
		return joined(kept, sep), errJoin(errs)
	}}
}

// joined returns the printed form of a list.
func joined(items []string, sep string) string {
	if len(items) == 0 {
		return none
	}
	return strings.Join(items, sep)
}

// names returns a blank separated list of object names.
func names[T any](field func(*T) *[]string) kind[T] { return list(" ", CheckName, field) }

// hosts returns a blank separated list of host names and @groups.
func hosts[T any](field func(*T) *[]string) kind[T] { return list(" ", checkHostIdentifier, field) }

// Setting is an element of a list of complex_name=value (queue_conf(5), load_thresholds,
// complex_values). This package checks neither the name nor the value against the complexes.
type Setting struct {
	Name, Value string
}

// settings returns a list of complex_name=value, or NONE.
func settings[T any](field func(*T) *[]Setting) kind[T] {
	return kind[T]{breaks: betweenItems, keeps: true, read: func(dst *T, s string) (string, error) {
		*field(dst) = nil
		items := settingWords(s)
		if len(items) == 1 && isWord(items[0], none) {
			return none, nil
		}
		if len(items) == 0 {
			return none, fmt.Errorf("%q is an empty list, expected NONE or name=value", s)
		}
		var kept []Setting
		var texts []string
		var errs []error
		seen := make(map[string]bool, len(items))
		for _, item := range items {
			n, v, _ := strings.Cut(item, "=")
			err := CheckName(n)
			switch {
			case v == "":
				err = fmt.Errorf("%q has no value, expected name=value", item)
			case err == nil && seen[n]:
				err = fmt.Errorf("%q is set twice", n)
			}
			if err != nil {
				errs = addError(errs, err)
				continue
			}
			seen[n] = true
			kept, texts = append(kept, Setting{Name: n, Value: v}), append(texts, item)
		}
		*field(dst) = kept
		return joined(texts, ","), errJoin(errs)
	}}
}
