package expression

import (
	"slices"
	"strings"
)

// ForMany returns an expression that matches the same values, for a search through many values whose
// length users choose. A match takes time in proportion to the lengths of value and expression: about
// one step for each byte of the value and each 64 characters of a pattern. Match of e itself may compare
// each byte of the value with each character of the pattern. Patterns of the result need up to 2 KiB of
// memory for each 64 characters: do not store it.
func (e *Expression) ForMany() *Expression {
	if e == nil {
		return nil
	}
	fast := *e
	fast.nodes = slices.Clone(e.nodes)
	for i := range fast.nodes {
		if p := fast.nodes[i].pattern; p != nil {
			fast.nodes[i].pattern = p.ForMany()
		}
	}
	return &fast
}

// Operands returns an upper bound of the number of names and patterns in an expression, with each of
// which Match may compare a value. It need not be a valid expression.
func Operands(text string) int { return 1 + strings.Count(text, "|") + strings.Count(text, "&") }

// ForMany returns a pattern that matches the same texts, as Expression.ForMany does.
func (p *Pattern) ForMany() *Pattern {
	if p.never || p.kind != general {
		return p
	}
	fast := *p
	fast.states = newStates(p.elements)
	return &fast
}

// states is a pattern as a machine that reads a text byte by byte. State n means that the first n
// elements without stars have matched. A set of states has one bit for each, the lowest first.
type states struct {
	last int // the state in which the whole pattern has matched
	// stay are the states before a star, which any byte keeps. next has, for each byte, the states
	// whose following element matches it.
	stay []uint64
	next [256][]uint64
}

func newStates(elements []element) *states {
	m := &states{}
	for _, e := range elements {
		if e.kind != star {
			m.last++
		}
	}
	words := m.last/64 + 1
	all := make([]uint64, 257*words)
	m.stay = all[256*words:]
	for c := range m.next {
		m.next[c] = all[c*words:][:words]
	}
	state := 0
	for i := range elements {
		e := &elements[i]
		switch bit := uint64(1) << (state & 63); e.kind {
		case star:
			m.stay[state>>6] |= bit
		case one:
			m.next[e.char][state>>6] |= bit
			state++
		default:
			for c := range m.next {
				if e.match(byte(c)) {
					m.next[c][state>>6] |= bit
				}
			}
			state++
		}
	}
	return m
}

// match reports whether the machine reads the whole of s. fold is that of the pattern.
func (m *states) match(s string, fold bool) bool {
	if len(s) < m.last {
		return false
	}
	if len(m.stay) == 1 {
		in, stay := uint64(1), m.stay[0]
		for i := 0; i < len(s) && in != 0; i++ {
			c := s[i]
			if fold {
				c = lowerByte(c)
			}
			in = (in&m.next[c][0])<<1 | in&stay
		}
		return in&(1<<m.last) != 0
	}
	in := make([]uint64, len(m.stay))
	in[0] = 1
	for i := range len(s) {
		c := s[i]
		if fold {
			c = lowerByte(c)
		}
		next, carry := m.next[c], uint64(0)
		for w, before := range in {
			moved := before & next[w]
			in[w] = moved<<1 | carry | before&m.stay[w]
			carry = moved >> 63
		}
	}
	return in[m.last>>6]&(1<<(m.last&63)) != 0
}
