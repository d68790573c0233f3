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
		return Range{}, fmt.Errorf("%q is no range: %w", s, err)
	case n < m:
		return Range{}, fmt.Errorf("%q is no range: it ends before it begins", s)
	}
	return Range{First: m, Last: n}, nil
}

// ranges is a list of ranges from lo to hi, or NONE.
func ranges[T any](lo, hi int, field func(*T) *[]Range) kind[T] {
	return kind[T]{breaks: betweenItems, read: func(dst *T, s string) (string, error) {
		*field(dst) = nil
		items := words(s)
		if len(items) == 1 && isWord(items[0], none) {
			return s, nil
		}
		if len(items) == 0 {
			return s, fmt.Errorf("%q is an empty list, expected NONE or ranges like 20000-20100", s)
		}
		var kept []Range
		for _, item := range items {
			r, err := parseRange(item, lo, hi)
			if err != nil {
				return s, err
			}
			for _, k := range kept {
				if r.First <= k.Last && k.First <= r.Last {
					return s, fmt.Errorf("%q overlaps %d-%d", item, k.First, k.Last)
				}
			}
			kept = append(kept, r)
		}
		*field(dst) = kept
		return strings.Join(items, ","), nil
	}}
}
