package value

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Infinity is the number of INFINITY. It is finite, as in the original: it can be
// scaled and compared without special cases.
const Infinity = math.MaxFloat64

// number reads a number in the notation that all numeric types share in Grid Engine, although
// sge_types(5) describes each separately: a word (TRUE, FALSE, INFINITY), hours:minutes:seconds, or
// a number with an optional multiplier letter. So 1k is also a time (1000 seconds), and 0:1:0 also
// a size.
//
// Numbers are decimal, with fraction and exponent. A number that begins with a 0 and has no dot is
// octal, or hexadecimal after 0x.
func number(s string) (float64, error) {
	switch {
	case s == "":
		return 0, errors.New("is empty")
	case strings.EqualFold(s, "true"):
		return 1, nil
	case strings.EqualFold(s, "false"):
		return 0, nil
	case strings.EqualFold(s, "infinity"):
		return Infinity, nil
	case strings.Contains(s, ":"):
		return clock(s)
	}
	var v float64
	var rest string
	var err error
	if s[0] == '0' && !strings.Contains(s, ".") {
		v, rest, err = natural(s)
	} else {
		v, rest, err = decimal(s)
	}
	if err != nil {
		return 0, err
	}
	factor, ok := multiplier(rest)
	if !ok {
		return 0, errors.New("ends in " + strconv.Quote(rest))
	}
	v *= factor
	if math.IsInf(v, 0) {
		return 0, errTooLarge
	}
	return v, nil
}

var (
	errNoNumber = errors.New("does not begin with a number")
	errTooLarge = errors.New("is too large")
)

// multiplier returns the factor of a letter behind a number (sge_types(5), memory_specifier).
func multiplier(letter string) (factor float64, ok bool) {
	switch letter {
	case "":
		return 1, true
	case "k":
		return 1e3, true
	case "K":
		return 1 << 10, true
	case "m":
		return 1e6, true
	case "M":
		return 1 << 20, true
	case "g":
		return 1e9, true
	case "G":
		return 1 << 30, true
	case "t":
		return 1e12, true
	case "T":
		return 1 << 40, true
	}
	return 0, false
}

// clock reads hours:minutes:seconds. A part may be empty, have a sign, a fraction and an exponent,
// and be above 59. Hours and minutes are limited as in the original.
func clock(s string) (float64, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return 0, errors.New("has " + strconv.Itoa(len(parts)) + " parts, expected hours:minutes:seconds")
	}
	total := 0.0
	for i, weight := range []float64{3600, 60, 1} {
		if parts[i] == "" {
			continue
		}
		v, rest, err := decimal(parts[i])
		switch {
		case err != nil:
			return 0, err
		case rest != "":
			return 0, errors.New("has " + strconv.Quote(rest) + " behind a number")
		case i < 2 && v > math.MaxInt32:
			return 0, errTooLarge
		}
		total += v * weight
	}
	return total, nil
}

// natural reads a number of C's notation that begins with a zero.
func natural(s string) (v float64, rest string, err error) {
	base, from := 8, 0
	if len(s) > 1 && (s[1] == 'x' || s[1] == 'X') {
		base, from = 16, 2
	}
	end := from
	for end < len(s) && isDigit(s[end], base) {
		end++
	}
	if end == from {
		return 0, "", errNoNumber
	}
	n, err := strconv.ParseInt(s[from:end], base, 64)
	if err != nil {
		return 0, "", errTooLarge
	}
	return float64(n), s[end:], nil
}

// decimal reads a decimal number, with a sign, a fraction and an exponent. A hexadecimal number may
// have a sign: 0x10 is 16 and -0x10 is -16, but -010 is -10.
func decimal(s string) (v float64, rest string, err error) {
	i := 0
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	if strings.HasPrefix(s[i:], "0x") || strings.HasPrefix(s[i:], "0X") {
		v, rest, err = natural(s[i:])
		if s[0] == '-' {
			v = -v
		}
		return v, rest, err
	}
	digits := 0
	for ; i < len(s) && isDigit(s[i], 10); i++ {
		digits++
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && isDigit(s[i], 10); i++ {
			digits++
		}
	}
	if digits == 0 {
		return 0, "", errNoNumber
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		e := i + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if e < len(s) && isDigit(s[e], 10) {
			for i = e; i < len(s) && isDigit(s[i], 10); i++ {
			}
		}
	}
	v, err = strconv.ParseFloat(s[:i], 64)
	if err != nil {
		return 0, "", errTooLarge
	}
	return v, s[i:], nil
}

func isDigit(c byte, base int) bool {
	switch {
	case '0' <= c && c <= '9':
		return int(c-'0') < base
	case base == 16:
		return 'a' <= c|0x20 && c|0x20 <= 'f'
	}
	return false
}
