package qconf

import (
	"fmt"
	"math"
	"strconv"
)

// unsigned returns a number of at most 32 bits, at least lo.
func unsigned[T any](lo int, field func(*T) *int) kind[T] { return number(lo, math.MaxUint32, field) }

// float returns a finite number, which is printed with six decimals.
func float[T any](field func(*T) *float64) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		v, err := decimal(s)
		if err != nil {
			return s, fmt.Errorf("%q is not a number, expected one like 0.25", s)
		}
		*field(dst) = v
		return formatReal(v), nil
	}}
}

// formatReal prints a number as qconf does.
func formatReal(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

// Weight is an element of a list of name=factor, such as load_scaling.
type Weight struct {
	Name   string
	Factor float64
}

// weights returns a list of name=factor, or NONE. It is printed with six decimals.
func weights[T any](check func(string) error, field func(*T) *[]Weight) kind[T] {
	return kind[T]{breaks: betweenItems, keeps: true, read: func(dst *T, s string) (string, error) {
		*field(dst) = nil
		var list []Setting
		_, err := settings(func(l *[]Setting) *[]Setting { return l }).read(&list, s)
		errs := problems(err)
		var kept []Weight
		var texts []string
		for _, item := range list {
			v, err := decimal(item.Value)
			if err != nil {
				err = fmt.Errorf("%q is not a number in %s=%s, expected one like 0.25", item.Value, item.Name, item.Value)
			}
			// The reader of settings has already checked the name.
			if unfit := check(item.Name); unfit != nil {
				err = errJoin(problems(err), unfit)
			}
			if err != nil {
				errs = addError(errs, err)
				continue
			}
			kept = append(kept, Weight{Name: item.Name, Factor: v})
			texts = append(texts, item.Name+"="+formatReal(v))
		}
		*field(dst) = kept
		return joined(texts, ","), errJoin(errs)
	}}
}

// usageName refuses names that are not a kind of usage (host_conf(5), usage_scaling).
func usageName(s string) error {
	if s != "cpu" && s != "mem" && s != "io" {
		return fmt.Errorf("%q is not a kind of usage, expected cpu, mem or io", s)
	}
	return nil
}
