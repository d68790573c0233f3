package qstat

import (
	"strconv"
	"time"
)

const blanks = "                                                                                                    "

// appendBlanks appends n blanks.
func appendBlanks(dst []byte, n int) []byte {
	for n > len(blanks) {
		dst, n = append(dst, blanks...), n-len(blanks)
	}
	return append(dst, blanks[:max(n, 0)]...)
}

func appendRepeated(dst []byte, c byte, n int) []byte {
	for range n {
		dst = append(dst, c)
	}
	return dst
}

// appendLeft is C's %-*s.
func appendLeft(dst []byte, s string, width int) []byte {
	return appendBlanks(append(dst, s...), width-len(s))
}

// appendClipped is C's %-*.*s: what is longer is cut, in bytes.
func appendClipped(dst []byte, s string, width int) []byte {
	return appendLeft(dst, s[:min(len(s), width)], width)
}

// appendRight is C's %*s.
func appendRight(dst []byte, s string, width int) []byte {
	return append(appendBlanks(dst, width-len(s)), s...)
}

// appendInt is C's %*d.
func appendInt(dst []byte, v, width int) []byte {
	var buf [20]byte
	digits := strconv.AppendInt(buf[:0], int64(v), 10)
	return append(appendBlanks(dst, width-len(digits)), digits...)
}

// appendFixed is C's %*.*f.
func appendFixed(dst []byte, v float64, width, decimals int) []byte {
	var buf [64]byte
	digits := strconv.AppendFloat(buf[:0], v, 'f', decimals, 64)
	return append(appendBlanks(dst, width-len(digits)), digits...)
}

// appendShort is C's %*.*g.
func appendShort(dst []byte, v float64, width, digits int) []byte {
	var buf [64]byte
	text := strconv.AppendFloat(buf[:0], v, 'g', digits, 64)
	return append(appendBlanks(dst, width-len(text)), text...)
}

// timeWidth is the width of what appendTime appends.
const timeWidth = len("01/02/2006 15:04:05")

func appendTime(dst []byte, at int64, zone *time.Location) []byte {
	return time.Unix(at, 0).In(zone).AppendFormat(dst, "01/02/2006 15:04:05")
}

// appendRanges prints numbers of tasks or slots as Grid Engine does: 1,2,5-9:2. The
// step is left out where it is not wanted, and of ranges of up to two numbers.
func appendRanges(dst []byte, ranges []Range, step bool) []byte {
	for i, r := range ranges {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(r.First), 10)
		if r.Last == r.First {
			continue
		}
		if r.Last == r.First+r.Step {
			dst = strconv.AppendInt(append(dst, ','), int64(r.Last), 10)
			continue
		}
		dst = strconv.AppendInt(append(dst, '-'), int64(r.Last), 10)
		if step {
			dst = strconv.AppendInt(append(dst, ':'), int64(r.Step), 10)
		}
	}
	return dst
}

// appendList appends items with a separator in between.
func appendList(dst []byte, items []string, separator string) []byte {
	for i, item := range items {
		if i > 0 {
			dst = append(dst, separator...)
		}
		dst = append(dst, item...)
	}
	return dst
}

func appendNumbers(dst []byte, items []int, separator string) []byte {
	for i, item := range items {
		if i > 0 {
			dst = append(dst, separator...)
		}
		dst = strconv.AppendInt(dst, int64(item), 10)
	}
	return dst
}
