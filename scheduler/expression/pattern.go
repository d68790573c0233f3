package expression

import "strings"

// Pattern is a shell pattern as fnmatch(3) without flags matches it: * and ? match
// a slash and a leading dot, too, [...] is a set, negated by ! or ^, and \ makes
// the next character literal. sge_types(5) has it that ^ is literal; the original
// hands it to fnmatch. Characters are bytes.
type Pattern struct {
	text     string
	elements []element
	fold     bool
	never    bool // nothing matches: it ends in a backslash, or has a class that does not exist
	kind     patternKind
	literal  string  // of the kinds with a literal part
	states   *states // of ForMany; nil otherwise
}

// patternKind separates the most common patterns from all others.
type patternKind uint8

const (
	general patternKind = iota
	anything
	prefix // literal*
	suffix // *literal
	literal
)

// element matches one byte, or any number of them.
type element struct {
	kind elementKind
	char byte
	set  *[4]uint64 // by byte
}

type elementKind uint8

const (
	one elementKind = iota // char
	any1
	star
	set
)

// CompilePattern compiles a pattern. With fold, case does not matter: both the
// pattern and the text are compared in lower case, as the original does, so that
// [[:upper:]] matches nothing.
func CompilePattern(fold bool, text string) *Pattern {
	s := text
	if fold {
		s = lower(s)
	}
	p := &Pattern{text: text, fold: fold}
	for i := 0; i < len(s); {
		switch c := s[i]; c {
		case '*':
			if n := len(p.elements); n == 0 || p.elements[n-1].kind != star {
				p.elements = append(p.elements, element{kind: star})
			}
			i++
		case '?':
			p.elements = append(p.elements, element{kind: any1})
			i++
		case '\\':
			if i+1 == len(s) {
				p.never = true
				return p
			}
			p.elements = append(p.elements, element{kind: one, char: s[i+1]})
			i += 2
		case '[':
			bits, end, state := readSet(s, i)
			switch state {
			case setInvalid:
				p.never = true
				return p
			case setUnclosed: // then the bracket is a character like others
				p.elements = append(p.elements, element{kind: one, char: c})
				i++
			default:
				p.elements = append(p.elements, element{kind: set, set: bits})
				i = end
			}
		default:
			p.elements = append(p.elements, element{kind: one, char: c})
			i++
		}
	}
	p.classify()
	return p
}

// classify recognises the simple kinds.
func (p *Pattern) classify() {
	inner := p.elements
	leading := len(inner) > 0 && inner[0].kind == star
	if leading {
		inner = inner[1:]
	}
	trailing := len(inner) > 0 && inner[len(inner)-1].kind == star
	if trailing {
		inner = inner[:len(inner)-1]
	}
	var b strings.Builder
	for _, e := range inner {
		if e.kind != one {
			return
		}
		b.WriteByte(e.char)
	}
	p.literal = b.String()
	switch {
	case leading && p.literal == "":
		p.kind = anything
	case leading && trailing: // general
	case leading:
		p.kind = suffix
	case trailing:
		p.kind = prefix
	default:
		p.kind = literal
	}
}

// PlainPattern reports whether a pattern matches only itself, because it has no special character.
func PlainPattern(text string) bool { return !strings.ContainsAny(text, `*?[\`) }

// Match reports whether the pattern matches the whole of s.
func (p *Pattern) Match(s string) bool {
	if p.never {
		return false
	}
	switch p.kind {
	case anything:
		return true
	case literal:
		return p.same(s)
	case prefix:
		return len(s) >= len(p.literal) && p.same(s[:len(p.literal)])
	case suffix:
		return len(s) >= len(p.literal) && p.same(s[len(s)-len(p.literal):])
	}
	if p.states != nil {
		return p.states.match(s, p.fold)
	}
	// A later * can match everything that an earlier one has matched, so it suffices to remember
	// the last one.
	at, next := 0, 0 // in the elements and in s
	retryAt, retryNext := -1, 0
	for next < len(s) {
		if at < len(p.elements) {
			if p.elements[at].kind == star {
				at++
				retryAt, retryNext = at, next
				continue
			}
			if p.elements[at].match(p.char(s[next])) {
				at++
				next++
				continue
			}
		}
		if retryAt < 0 {
			return false
		}
		retryNext++
		at, next = retryAt, retryNext
	}
	return at == len(p.elements) || at == len(p.elements)-1 && p.elements[at].kind == star
}

func (p *Pattern) same(s string) bool {
	if p.fold {
		return equalFold(p.literal, s)
	}
	return p.literal == s
}

func (p *Pattern) char(c byte) byte {
	if p.fold {
		return lowerByte(c)
	}
	return c
}

func (e *element) match(c byte) bool {
	switch e.kind {
	case one:
		return e.char == c
	case any1:
		return true
	case set:
		return e.set[c>>6]&(1<<(c&63)) != 0
	}
	return false
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }
