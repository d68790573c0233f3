package expression

import "strings"

type setState uint8

const (
	setRead setState = iota
	setUnclosed
	setInvalid
)

// readSet reads the bracket expression that begins at s[begin]. end is the index after it.
func readSet(s string, begin int) (bits *[4]uint64, end int, state setState) {
	bits = new([4]uint64)
	i := begin + 1
	negate := i < len(s) && (s[i] == '!' || s[i] == '^')
	if negate {
		i++
	}
	for first := true; ; first = false {
		if i >= len(s) {
			return nil, 0, setUnclosed
		}
		if s[i] == ']' && !first {
			break
		}
		if class, after, ok := readClass(s, i); ok {
			if !addClass(bits, class) {
				return nil, 0, setInvalid
			}
			i = after
			continue
		}
		low, after, state := readMember(s, i)
		if state != setRead {
			return nil, 0, state
		}
		high := low
		i = after
		if i+1 < len(s) && s[i] == '-' && s[i+1] != ']' {
			if high, i, state = readMember(s, i+1); state != setRead {
				return nil, 0, state
			}
		}
		for c := int(low); c <= int(high); c++ {
			bits[c>>6] |= 1 << (c & 63)
		}
	}
	if negate {
		for w := range bits {
			bits[w] = ^bits[w]
		}
	}
	return bits, i + 1, setRead
}

// readMember reads one end of a range: a character, an escaped one, [.c.] or [=c=].
func readMember(s string, i int) (c byte, end int, state setState) {
	switch {
	case s[i] == '\\':
		if i+1 == len(s) {
			return 0, 0, setUnclosed
		}
		return s[i+1], i + 2, setRead
	case s[i] == '[' && i+1 < len(s) && (s[i+1] == '.' || s[i+1] == '='):
		name, _, closed := strings.Cut(s[i+2:], s[i+1:i+2]+"]")
		if !closed {
			return s[i], i + 1, setRead
		}
		if len(name) != 1 {
			return 0, 0, setInvalid
		}
		return name[0], i + 2 + len(name) + 2, setRead
	}
	return s[i], i + 1, setRead
}

// readClass reads [:class:].
func readClass(s string, i int) (class string, end int, ok bool) {
	if !strings.HasPrefix(s[i:], "[:") {
		return "", 0, false
	}
	class, _, ok = strings.Cut(s[i+2:], ":]")
	for _, c := range []byte(class) {
		ok = ok && 'a' <= c && c <= 'z'
	}
	return class, i + 2 + len(class) + 2, ok
}

// classes are the character classes of the C locale, in which the daemons run.
var classes = map[string]func(c byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= lowerByte(c) && lowerByte(c) <= 'f' },
}

func isAlpha(c byte) bool { return 'a' <= lowerByte(c) && lowerByte(c) <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func addClass(bits *[4]uint64, class string) bool {
	in, ok := classes[class]
	if !ok {
		return false
	}
	for c := range 256 {
		if in(byte(c)) {
			bits[c>>6] |= 1 << (c & 63)
		}
	}
	return true
}
