package topology

import "slices"

// MaxCPU is the largest number in a CPUSet. The kernel's limit (NR_CPUS) is 8192 in the largest
// configurations. The bound prevents input such as "0-4000000000" from exhausting the memory.
const MaxCPU = 1<<16 - 1

const wordBits = 64

// CPUSet is a set of the operating system's processor numbers. Memory nodes
// are numbered the same way and use the same type. The zero value is the empty
// set. A CPUSet is never changed: every operation returns a new one.
type CPUSet struct {
	words []uint64 // no trailing zero, so that equal sets have equal words
}

// Of returns the set of the given numbers. It ignores numbers below 0 and above MaxCPU, which
// cannot be processors.
func Of(cpus ...int) CPUSet {
	var s CPUSet
	for _, c := range cpus {
		s.add(c, c)
	}
	return s
}

// Range returns the set of all numbers from first to last, both included.
func Range(first, last int) CPUSet {
	var s CPUSet
	s.add(max(first, 0), min(last, MaxCPU))
	return s
}

// add changes the set, which must not have been returned to a caller yet.
func (s *CPUSet) add(first, last int) {
	if first < 0 || last > MaxCPU || first > last {
		return
	}
	for len(s.words) <= last/wordBits {
		s.words = append(s.words, 0)
	}
	for c := first; c <= last; c++ {
		s.words[c/wordBits] |= 1 << (c % wordBits)
	}
}

func (s CPUSet) trimmed() CPUSet {
	n := len(s.words)
	for n > 0 && s.words[n-1] == 0 {
		n--
	}
	if n == 0 {
		return CPUSet{}
	}
	return CPUSet{s.words[:n:n]}
}

// Contains reports whether cpu is in the set.
func (s CPUSet) Contains(cpu int) bool {
	return cpu >= 0 && cpu/wordBits < len(s.words) && s.words[cpu/wordBits]&(1<<(cpu%wordBits)) != 0
}

// IsEmpty reports whether the set is empty.
func (s CPUSet) IsEmpty() bool { return len(s.words) == 0 }

// Len returns the number of processors in the set.
func (s CPUSet) Len() int {
	n := 0
	for _, w := range s.words {
		for ; w != 0; w &= w - 1 {
			n++
		}
	}
	return n
}

// All yields the numbers in ascending order, for use with range.
func (s CPUSet) All(yield func(cpu int) bool) {
	for i, w := range s.words {
		for c := i * wordBits; w != 0; c, w = c+1, w>>1 {
			if w&1 != 0 && !yield(c) {
				return
			}
		}
	}
}

// Slice returns the numbers in ascending order.
func (s CPUSet) Slice() []int {
	cpus := make([]int, 0, s.Len())
	for c := range s.All {
		cpus = append(cpus, c)
	}
	return cpus
}

// Words returns the set in the format of sched_setaffinity(2): the number n is bit n%64 of word
// n/64.
func (s CPUSet) Words() []uint64 { return slices.Clone(s.words) }

// First returns the smallest number in the set, -1 if it is empty.
func (s CPUSet) First() int {
	for c := range s.All {
		return c
	}
	return -1
}

// Equal reports whether both sets have the same members.
func (s CPUSet) Equal(o CPUSet) bool { return slices.Equal(s.words, o.words) }

// Union returns the processors that are in s, in o, or in both.
func (s CPUSet) Union(o CPUSet) CPUSet {
	if len(s.words) < len(o.words) {
		s, o = o, s
	}
	words := slices.Clone(s.words)
	for i, w := range o.words {
		words[i] |= w
	}
	return CPUSet{words}
}

// Intersect returns the processors that are in both s and o.
func (s CPUSet) Intersect(o CPUSet) CPUSet {
	words := make([]uint64, min(len(s.words), len(o.words)))
	for i := range words {
		words[i] = s.words[i] & o.words[i]
	}
	return CPUSet{words}.trimmed()
}

// Minus returns the processors that are in s and not in o.
func (s CPUSet) Minus(o CPUSet) CPUSet {
	words := slices.Clone(s.words)
	for i := range min(len(words), len(o.words)) {
		words[i] &^= o.words[i]
	}
	return CPUSet{words}.trimmed()
}

// SubsetOf reports whether every member of s is also in o.
func (s CPUSet) SubsetOf(o CPUSet) bool { return s.Minus(o).IsEmpty() }
