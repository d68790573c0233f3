// Package quantity reads and prints the value notations that all of Grid Engine's formats share:
// the time_specifier and memory_specifier of sge_types(5), and INFINITY.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// The package does no I/O and imports no other package of this project. It does not depend on the
// attribute that a value belongs to. All functions may be called from any goroutine.
package quantity

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Infinity is the value of INFINITY, "no limit" (queue_conf(5), RESOURCE LIMITS).
const Infinity uint64 = math.MaxUint64

// maxSpecified is the largest finite value that a specifier may have. It keeps
// products with a number of slots within 64 bits.
const maxSpecified = uint64(1) << 62

// IsInfinity reports whether s is the word INFINITY, in any case.
func IsInfinity(s string) bool { return strings.EqualFold(s, "infinity") }

// Time reads a time_specifier of sge_types(5) and returns whole seconds: a
// decimal, octal (leading 0) or hexadecimal (0x) number of seconds, or
// hours:minutes:seconds with any part left empty, or INFINITY.
func Time(s string) (uint64, error) {
	if IsInfinity(s) {
		return Infinity, nil
	}
	if s == "" {
		return 0, errors.New("empty, expected seconds or hours:minutes:seconds")
	}
	parts := strings.Split(s, ":")
	if len(parts) == 1 {
		v, err := strconv.ParseUint(octal(s), 0, 62)
		if err != nil {
			return 0, timeError(s, err)
		}
		return v, nil
	}
	if len(parts) > 3 {
		return 0, errors.New(strconv.Quote(s) + " has " + strconv.Itoa(len(parts)) + " parts, expected hours:minutes:seconds")
	}
	if len(parts) == 2 {
		return 0, errors.New(strconv.Quote(s) + " has 2 parts, expected hours:minutes:seconds (" + s + ":0 or 0:" + s + ")")
	}
	var total uint64
	for i, weight := range []uint64{3600, 60, 1} {
		if parts[i] == "" {
			continue
		}
		v, err := strconv.ParseUint(parts[i], 10, 40)
		if err != nil {
			return 0, timeError(s, err)
		}
		total += v * weight
	}
	return total, nil
}

// octal returns s, or an invalid number if s is in a notation that Go has and C lacks: 0b, 0o or
// underscores. ParseUint with base 0 accepts these. Like C it reads a leading zero as octal.
func octal(s string) string {
	if strings.ContainsAny(s, "_bBoO") && !strings.HasPrefix(s, "0x") && !strings.HasPrefix(s, "0X") {
		return "?" // never a number in C's notation
	}
	return s
}

func timeError(s string, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return errors.New(strconv.Quote(s) + " is too large, expected a time below 2^62 seconds or INFINITY")
	}
	return errors.New(strconv.Quote(s) + " is not a time, expected seconds, hours:minutes:seconds or INFINITY")
}

// multipliers are the letters of a memory_specifier: small letters are powers
// of 1000, capitals powers of 1024.
var multipliers = map[byte]uint64{
	'k': 1e3, 'K': 1 << 10,
	'm': 1e6, 'M': 1 << 20,
	'g': 1e9, 'G': 1 << 30,
	't': 1e12, 'T': 1 << 40,
}

// Memory reads a memory_specifier of sge_types(5) and returns bytes: a number with an optional
// multiplier letter k K m M g G t T, or INFINITY. Like the original it also accepts decimal
// fractions (1.5G), and rounds down.
func Memory(s string) (uint64, error) {
	if IsInfinity(s) {
		return Infinity, nil
	}
	num, mult := s, uint64(1)
	if n := len(s); n > 0 {
		if m, ok := multipliers[s[n-1]]; ok {
			num, mult = s[:n-1], m
		}
	}
	if v, err := strconv.ParseUint(octal(num), 0, 64); err == nil {
		if v > maxSpecified/mult {
			return 0, errors.New(strconv.Quote(s) + " is too large, expected a size below 2^62 bytes or INFINITY")
		}
		return v * mult, nil
	}
	whole, frac, dotted := strings.Cut(num, ".")
	if !dotted || !digits(whole+frac) {
		return 0, errors.New(strconv.Quote(s) + " is not a size, expected a number with an optional letter of k K m M g G t T, or INFINITY")
	}
	f, err := strconv.ParseFloat(num, 64)
	if err != nil || f*float64(mult) >= float64(maxSpecified) {
		return 0, errors.New(strconv.Quote(s) + " is too large, expected a size below 2^62 bytes or INFINITY")
	}
	return uint64(f * float64(mult)), nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// FormatTime prints seconds as hours:minutes:seconds with at least two digits each, or INFINITY, as
// qconf -sq does.
func FormatTime(seconds uint64) string {
	if seconds == Infinity {
		return "INFINITY"
	}
	return pad(seconds/3600) + ":" + pad(seconds/60%60) + ":" + pad(seconds%60)
}

func pad(v uint64) string {
	s := strconv.FormatUint(v, 10)
	if len(s) < 2 {
		return "0" + s
	}
	return s
}

// FormatMemory prints bytes with the largest capital multiplier that keeps the exact value, or
// INFINITY. Memory reads the result back as the same value.
func FormatMemory(bytes uint64) string {
	if bytes == Infinity {
		return "INFINITY"
	}
	letter := ""
	for _, l := range []string{"K", "M", "G", "T"} {
		if bytes == 0 || bytes%1024 != 0 {
			break
		}
		bytes, letter = bytes/1024, l
	}
	return strconv.FormatUint(bytes, 10) + letter
}

// RoundMemory rounds bytes up to a value that is easy to type: a multiple of 16M below 1G, of 256M
// below 16G, of 1G above.
func RoundMemory(bytes uint64) uint64 {
	const mega = 1 << 20
	step := uint64(1024 * mega)
	switch {
	case bytes < 1024*mega:
		step = 16 * mega
	case bytes < 16*1024*mega:
		step = 256 * mega
	}
	return max((bytes+step-1)/step, 1) * step
}
