package qconf

import (
	"fmt"
	"strings"
)

// Range is a range of numbers, both ends included.
type Range struct {
	First, Last int
}

// parseRange reads "n" or "m-n" with lo <= m <= n <= hi.
func parseRange(s string, lo, hi int) (Range, error) {
	first, last, dash := strings.Cut(s, "-")
	m, err := parseNumber(first, lo, hi)
	n := m
	if err == nil && dash {
		n, err = parseNumber(last, lo, hi)
	}
	switch {
	case err != nil:
		return Range{}, fmt.Errorf("%q is not a range: %w", s, err)
	case n < m:
		return Range{}, fmt.Errorf("%q is not a range: it ends before it begins", s)
	}
	return Range{First: m, Last: n}, nil
}

// ranges returns a list of ranges from lo to hi, or NONE.
func ranges[T any](lo, hi int, field func(*T) *[]Range) kind[T] {
	return kind[T]{breaks: betweenItems, keeps: true, read: func(dst *T, s string) (string, error) {
		*field(dst) = nil
		items := words(s)
		if len(items) == 1 && isWord(items[0], none) {
			return s, nil
		}
		if len(items) == 0 {
			return none, fmt.Errorf("%q is an empty list, expected NONE or ranges like 20000-20100", s)
		}
		var kept []Range
		var texts []string
		var errs []error
		for _, item := range items {
			r, err := parseRange(item, lo, hi)
			for _, k := range kept {
				if err == nil && r.First <= k.Last && k.First <= r.Last {
					err = fmt.Errorf("%q overlaps %d-%d", item, k.First, k.Last)
				}
			}
			if err != nil {
				errs = addError(errs, err)
				continue
			}
			kept, texts = append(kept, r), append(texts, item)
		}
		*field(dst) = kept
		return joined(texts, ","), errJoin(errs)
	}}
}
