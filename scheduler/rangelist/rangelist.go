// Package rangelist holds sets of numbers as lists of ranges (sge_types(5), range):
// the tasks of an array job, and the numbers of slots that a parallel job takes.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// It does not use jobs: the caller decides which tasks are pending, and which number of slots is
// tried first.
//
// It is pure. Lists are immutable and may be used by several goroutines; methods that change a list
// return a new one.
package rangelist

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Infinity is the end of an open range of slots.
const Infinity = 9999999

// maxNumber is the largest number in a list, as for array tasks in sge_submit(1).
const maxNumber = 1<<31 - 1

// Range is the numbers First, First+Step, ... up to Last, which is one of them.
type Range struct{ First, Last, Step int }

func single(n int) Range { return Range{First: n, Last: n, Step: 1} }

func (r Range) len() int { return (r.Last-r.First)/r.Step + 1 }

func (r Range) has(n int) bool {
	return r.First <= n && n <= r.Last && (n-r.First)%r.Step == 0
}

// normal normalises a range: a range of one number gets the step 1, and Last becomes the last
// number that is in the range.
func normal(first, last, step int) Range {
	last -= (last - first) % step
	if first == last {
		return single(first)
	}
	return Range{First: first, Last: last, Step: step}
}

// List is a set of numbers above 0. The zero List is empty.
type List struct {
	ranges []Range // ascending and not overlapping
}

// Of returns the list of the numbers first, first+step, ... that are not above last.
func Of(first, last, step int) (List, error) {
	if err := check(first, last, step); err != nil {
		return List{}, err
	}
	return List{ranges: []Range{normal(first, last, step)}}, nil
}

func check(first, last, step int) error {
	if first < 1 || last < first || last > maxNumber || step < 1 {
		return fmt.Errorf("cannot use the range %d-%d:%d: expected 1 <= first <= last <= %d, and a step above 0", first, last, step, maxNumber)
	}
	return nil
}

// Stretch is the numbers from First to Last.
type Stretch struct{ First, Last int }

// OfStretches returns the union of some stretches, which may overlap and come in any order. Its
// time does not grow with the square of their number.
func OfStretches(stretches []Stretch) (List, error) {
	sorted := slices.Clone(stretches)
	slices.SortFunc(sorted, func(a, b Stretch) int { return cmp.Compare(a.First, b.First) })
	var l List
	for _, s := range sorted {
		if err := check(s.First, s.Last, 1); err != nil {
			return List{}, err
		}
		if n := len(l.ranges); n > 0 && s.First <= l.ranges[n-1].Last+1 {
			last := &l.ranges[n-1]
			*last = normal(last.First, max(last.Last, s.Last), 1)
			continue
		}
		l.ranges = append(l.ranges, normal(s.First, s.Last, 1))
	}
	return l, nil
}

// ParseTasks reads a list of task ranges, n[-m[:s]] (sge_types(5), range), with commas
// or blanks between them.
func ParseTasks(text string) (List, error) {
	var ranges []Range
	for item := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		r, err := parseRange(item)
		if err != nil {
			return List{}, fmt.Errorf("cannot read the range %q: %w", item, err)
		}
		ranges = append(ranges, r)
	}
	if ranges == nil {
		return List{}, fmt.Errorf("cannot read the list of ranges %q: it is empty, expected ranges like 1-10,12", text)
	}
	var l List
	for _, r := range ranges {
		// The numbers of interleaved ranges would have to be handled one by one, and ranges written
		// by users may contain too many.
		for _, k := range l.ranges {
			if r.First <= k.Last && k.First <= r.Last && (r.Step > 1 || k.Step > 1) {
				return List{}, fmt.Errorf("cannot read the list of ranges %q: %s and %s overlap, expected that only where neither has a step",
					text, List{ranges: []Range{k}}, List{ranges: []Range{r}})
			}
		}
		l = l.union(r)
	}
	return l, nil
}

func parseRange(item string) (Range, error) {
	step := 1
	bounds, stepText, stepped := strings.Cut(item, ":")
	from, to, isRange := strings.Cut(bounds, "-")
	var err error
	if stepped {
		if !isRange {
			return Range{}, fmt.Errorf("%q is a step, expected one only after a range of tasks", ":"+stepText)
		}
		if step, err = number("step", stepText); err != nil {
			return Range{}, err
		}
	}
	first, err := number("first", from)
	if err != nil {
		return Range{}, err
	}
	if !isRange {
		return single(first), nil
	}
	last, err := number("last", to)
	if err != nil {
		return Range{}, err
	}
	if last < first {
		return Range{}, errors.New("it ends before it begins")
	}
	return normal(first, last, step), nil
}

func number(what, s string) (int, error) {
	v, err := strconv.ParseUint(s, 10, 31)
	if err != nil || v == 0 || int(v) > maxNumber {
		return 0, fmt.Errorf("the %s number %q is invalid, expected 1 to %d", what, s, maxNumber)
	}
	return int(v), nil
}

// find returns the index of the first range that does not end before n.
func (l List) find(n int) int {
	i, _ := slices.BinarySearchFunc(l.ranges, n, func(r Range, n int) int { return r.Last - n })
	return i
}

// Contains reports whether a number is in the list.
func (l List) Contains(n int) bool {
	i := l.find(n)
	return i < len(l.ranges) && l.ranges[i].has(n)
}

// IsEmpty reports whether the list contains no number.
func (l List) IsEmpty() bool { return len(l.ranges) == 0 }

// Len returns the number of elements.
func (l List) Len() int {
	n := 0
	for _, r := range l.ranges {
		n += r.len()
	}
	return n
}

// First returns the smallest number, 0 if there is none.
func (l List) First() int {
	if l.IsEmpty() {
		return 0
	}
	return l.ranges[0].First
}

// Last returns the largest number, 0 if there is none.
func (l List) Last() int {
	if l.IsEmpty() {
		return 0
	}
	return l.ranges[len(l.ranges)-1].Last
}

// AtMost returns the largest number that is not above n, 0 if there is none.
func (l List) AtMost(n int) int {
	i := l.find(n)
	if i < len(l.ranges) && l.ranges[i].First <= n {
		r := l.ranges[i]
		return n - (n-r.First)%r.Step
	}
	if i == 0 {
		return 0
	}
	return l.ranges[i-1].Last
}

// Ranges yields the ranges in ascending order.
func (l List) Ranges() iter.Seq[Range] { return slices.Values(l.ranges) }

// All yields the numbers in ascending order.
func (l List) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range l.ranges {
			for n := r.First; n <= r.Last; n += r.Step {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// Remove returns the list without a number.
func (l List) Remove(n int) List {
	i := l.find(n)
	if i == len(l.ranges) || !l.ranges[i].has(n) {
		return l
	}
	r := l.ranges[i]
	var left []Range
	if n > r.First {
		left = append(left, normal(r.First, n-r.Step, r.Step))
	}
	if n < r.Last {
		left = append(left, normal(n+r.Step, r.Last, r.Step))
	}
	return List{ranges: slices.Concat(l.ranges[:i], left, l.ranges[i+1:])}
}

// Add returns the list with a number above 0; any other is not added.
func (l List) Add(n int) List {
	if n < 1 || n > maxNumber || l.Contains(n) {
		return l
	}
	i := l.find(n)
	pieces := []Range{single(n)}
	rest := l.ranges[i:]
	if i < len(l.ranges) && l.ranges[i].First < n { // between two numbers of a range
		r := l.ranges[i]
		before := n - (n-r.First)%r.Step
		pieces = []Range{normal(r.First, before, r.Step), single(n), normal(before+r.Step, r.Last, r.Step)}
		rest = rest[1:]
	}
	return List{ranges: join(slices.Concat(l.ranges[:i], pieces, rest))}
}

// AddAll returns the list with several numbers, in any order, as Add does for one. The time does not grow
// with the square of their number.
func (l List) AddAll(numbers []int) List {
	if !slices.IsSorted(numbers) {
		numbers = slices.Sorted(slices.Values(numbers))
	}
	all := make([]Range, 0, len(l.ranges)+len(numbers))
	last := 0
	next := func(below int) (n int, ok bool) {
		for len(numbers) > 0 && (numbers[0] <= last || l.Contains(numbers[0])) {
			numbers = numbers[1:]
		}
		if len(numbers) == 0 || numbers[0] >= below || numbers[0] > maxNumber {
			return 0, false
		}
		last = numbers[0]
		return last, true
	}
	for _, r := range l.ranges {
		first := r.First
		for n, ok := next(r.Last); ok; n, ok = next(r.Last) {
			if n > first { // between two numbers of the range
				before := n - (n-first)%r.Step
				all = append(all, normal(first, before, r.Step))
				first = before + r.Step
			}
			all = append(all, single(n))
		}
		all = append(all, normal(first, r.Last, r.Step))
	}
	for n, ok := next(maxNumber + 1); ok; n, ok = next(maxNumber + 1) {
		all = append(all, single(n))
	}
	return List{ranges: join(all)}
}

// Without returns the numbers that are not in another list. The time does not grow with the product of
// their lengths, but with the count of numbers in o.
func (l List) Without(o List) List {
	var kept []Range
	from := 0 // the first range of o that may contain numbers of r
	for _, r := range l.ranges {
		for from < len(o.ranges) && o.ranges[from].Last < r.First {
			from++
		}
		first := r.First
		for _, other := range o.ranges[from:] {
			if other.First > r.Last {
				break
			}
			for n := other.First; n <= min(other.Last, r.Last); n += other.Step {
				if !r.has(n) {
					continue
				}
				if n > first {
					kept = append(kept, normal(first, n-r.Step, r.Step))
				}
				first = n + r.Step
			}
		}
		if first <= r.Last {
			kept = append(kept, normal(first, r.Last, r.Step))
		}
	}
	return List{ranges: kept}
}

// Union returns the numbers that are in either list. It takes the numbers of ranges with steps that
// overlap others one by one.
func (l List) Union(o List) List {
	for _, r := range o.ranges {
		l = l.union(r)
	}
	return l
}

func (l List) union(r Range) List {
	i := l.find(r.First)
	if i == len(l.ranges) || l.ranges[i].First > r.Last {
		return List{ranges: join(slices.Concat(l.ranges[:i], []Range{r}, l.ranges[i:]))}
	}
	if other := l.ranges[i]; r.Step == 1 && other.Step == 1 { // both without gaps
		l = List{ranges: slices.Concat(l.ranges[:i], l.ranges[i+1:])}
		return l.union(normal(min(r.First, other.First), max(r.Last, other.Last), 1))
	}
	for n := r.First; n <= r.Last; n += r.Step {
		l = l.Add(n)
	}
	return l
}

// join makes one range of neighbours that continue each other. It may change its
// argument.
func join(ranges []Range) []Range {
	kept := ranges[:0]
	for _, r := range ranges {
		if n := len(kept); n > 0 {
			last := &kept[n-1]
			gap := r.First - last.Last
			// A single number fits any step, and two numbers the step of their distance; but only
			// neighbours become a new range.
			if (last.Step == gap || last.First == last.Last && gap == 1) && (r.Step == gap || r.First == r.Last) {
				last.Last, last.Step = r.Last, gap
				continue
			}
		}
		kept = append(kept, r)
	}
	return kept
}

// String returns the list as qstat shows it: a range of two numbers as the two, others with
// their step unless it is 1.
func (l List) String() string {
	var b []byte
	for i, r := range l.ranges {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r.First), 10)
		switch {
		case r.len() == 1:
			continue
		case r.len() == 2:
			b = append(b, ',')
		default:
			b = append(b, '-')
		}
		b = strconv.AppendInt(b, int64(r.Last), 10)
		if r.len() > 2 && r.Step > 1 {
			b = append(b, ':')
			b = strconv.AppendInt(b, int64(r.Step), 10)
		}
	}
	return string(b)
}
