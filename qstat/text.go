package qstat

import (
	"strconv"
	"time"

	"github.com/execd-project/execd/internal/printable"
)

// page builds a text for a terminal. Users choose names, paths and reasons, so page escapes each of
// them (package printable): they can neither control the terminal nor forge lines. Only constants
// are not escaped, and the compiler checks this: a variable of type string cannot be used as a
// label.
type page struct{ text []byte }

// label is constant text of this package.
type label string

// put adds constants.
func (p *page) put(words label) { p.text = append(p.text, words...) }

// value adds text of others.
func (p *page) value(s string) { p.text = printable.Append(p.text, s) }

// end ends a line.
func (p *page) end() { p.text = append(p.text, '\n') }

// space adds a blank between two columns.
func (p *page) space() { p.text = append(p.text, ' ') }

// line adds text from outside as the remainder of a line.
func (p *page) line(s string) {
	p.value(s)
	p.end()
}

// left writes s as C's %-*s does.
func (p *page) left(s string, width int) {
	begin := len(p.text)
	p.value(s)
	p.fill(begin, width)
}

// fill adds blanks until a column that began somewhere has its width.
func (p *page) fill(begin, width int) { p.blanks(width - (len(p.text) - begin)) }

// clipped works like C's %-*.*s: it cuts longer text to a number of bytes, but not within a
// character.
func (p *page) clipped(s string, width int) {
	begin := len(p.text)
	p.text = append(p.text, printable.Clip(s, width)...)
	p.fill(begin, width)
}

// right writes s as C's %*s does.
func (p *page) right(s string, width int) {
	s = printable.String(s)
	p.blanks(width - len(s))
	p.text = append(p.text, s...)
}

func (p *page) blanks(n int) { p.text = appendBlanks(p.text, n) }

// rule adds a character n times.
func (p *page) rule(c byte, n int) {
	for range n {
		p.text = append(p.text, c)
	}
}

// int writes v as C's %*d does.
func (p *page) int(v, width int) { p.text = appendInt(p.text, v, width) }

// number writes v as C's %ld does.
func (p *page) number(v int64) { p.text = strconv.AppendInt(p.text, v, 10) }

// fixed writes v as C's %*.*f does.
func (p *page) fixed(v float64, width, decimals int) {
	p.text = appendFixed(p.text, v, width, decimals)
}

// time adds a time as the columns have it.
func (p *page) time(at int64, zone *time.Location) {
	p.date(at, zone, "01/02/2006 15:04:05")
}

// date adds a time in a format of package time.
func (p *page) date(at int64, zone *time.Location, format label) {
	p.text = time.Unix(at, 0).In(zone).AppendFormat(p.text, string(format))
}

// ranges adds ranges in the form of appendRanges.
func (p *page) ranges(ranges []Range, step bool) { p.text = appendRanges(p.text, ranges, step) }

// list adds items with a separator in between.
func (p *page) list(items []string, separator label) {
	for i, item := range items {
		if i > 0 {
			p.put(separator)
		}
		p.value(item)
	}
}

// numbers adds numbers with a separator in between.
func (p *page) numbers(items []int, separator label) {
	for i, item := range items {
		if i > 0 {
			p.put(separator)
		}
		p.number(int64(item))
	}
}

const blanks = "                                                                                                    "

// appendBlanks appends n blanks.
func appendBlanks(dst []byte, n int) []byte {
	for n > len(blanks) {
		dst, n = append(dst, blanks...), n-len(blanks)
	}
	return append(dst, blanks[:max(n, 0)]...)
}

func appendInt(dst []byte, v, width int) []byte {
	var buf [20]byte
	digits := strconv.AppendInt(buf[:0], int64(v), 10)
	return append(appendBlanks(dst, width-len(digits)), digits...)
}

// appendFixed appends v as C's %*.*f writes it.
func appendFixed(dst []byte, v float64, width, decimals int) []byte {
	var buf [64]byte
	digits := strconv.AppendFloat(buf[:0], v, 'f', decimals, 64)
	return append(appendBlanks(dst, width-len(digits)), digits...)
}

// appendShort appends v as C's %*.*g writes it.
func appendShort(dst []byte, v float64, width, digits int) []byte {
	var buf [64]byte
	text := strconv.AppendFloat(buf[:0], v, 'g', digits, 64)
	return append(appendBlanks(dst, width-len(text)), text...)
}

// timeWidth is the width of page.time's text.
const timeWidth = len("01/02/2006 15:04:05")

// appendRanges prints numbers of tasks or slots as Grid Engine does: 1,2,5-9:2. The step is omitted
// if step is false, and in ranges of up to two numbers.
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
