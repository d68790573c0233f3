package qconf

import "strings"

// Style selects the layout that Format uses for long values.
type Style int

// The styles of Format.
const (
	// Wrapped continues lines of more than 80 bytes on the next, as qconf does.
	Wrapped Style = iota
	// SingleLine keeps every value on one line, as qconf does when
	// SGE_SINGLE_LINE is in its environment (qconf(1)).
	SingleLine
)

// width is the longest line that qconf prints.
const width = 80

// layout holds the differences between the printed forms of objects.
type layout struct {
	column int  // where values begin; 0 for one blank after the name
	framed bool // "#name:" before and an empty line after, like qconf -sconf
}

// breaks says where a long value may be continued on the next line.
type breaks int

const (
	// betweenWords breaks at single blanks. It is for commands and paths, in which a comma has no
	// special meaning. Grid Engine also breaks these at commas, and then reads back a different
	// command.
	betweenWords breaks = iota
	// betweenItems breaks at blanks and commas: for lists.
	betweenItems
	// betweenSettings breaks like betweenWords, and before [host=value].
	betweenSettings
)

// Format prints the object as qconf -sq, -sconf, -sp, -sckpt and -shgrp do.
// Reading the result gives an equal object.
func (t Text) Format(style Style) string {
	var b strings.Builder
	if t.layout.framed {
		b.WriteString("#" + t.title + ":\n")
	}
	for _, e := range t.entries {
		l := e.name + " "
		for len(l) < t.layout.column {
			l += " "
		}
		indent := len(l)
		l += e.text()
		br := e.breaks
		if br == betweenWords && len(e.parts) > 1 {
			br = betweenSettings
		}
		if style == Wrapped {
			wrap(&b, l, indent, br)
		} else {
			b.WriteString(l)
		}
		b.WriteByte('\n')
	}
	if t.layout.framed {
		b.WriteByte('\n')
	}
	return b.String()
}

// wrap writes a line and breaks it as Grid Engine does: at the last possible place that leaves room
// for " \", or if there is none, at the next possible place. Continuation lines are indented to the
// column of the value.
func wrap(b *strings.Builder, rest string, indent int, br breaks) {
	room, from := width, indent+1 // of the first line: no break before the value
	for len(rest) > room {
		at := -1
		for i := room - 2; i >= from && at < 0; i-- {
			if rest[i] == ' ' && br.at(rest, i) || i < room-2 && rest[i] == ',' && br.at(rest, i) {
				at = i
			}
		}
		for i := room - 2; i < len(rest) && at < 0; i++ {
			if br.at(rest, i) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		end := at
		if rest[at] == ',' {
			end++
		}
		b.WriteString(rest[:end] + " \\\n" + strings.Repeat(" ", indent))
		rest, room, from = rest[at+1:], width-indent, 1
		if len(rest) > room {
			rest = strings.TrimLeft(rest, " ")
		}
	}
	b.WriteString(rest)
}

// at reports whether s may be broken at the blank, or after the comma, at i. It may not be broken
// at an end or next to a second blank, because that would read back differently. After the comma of
// a command it may not either, because a reader could not tell whether a blank was there, see
// line.gap.
func (br breaks) at(s string, i int) bool {
	if i == 0 || i == len(s)-1 {
		return false
	}
	blank := func(i int) bool { return s[i] == ' ' || s[i] == '\t' }
	switch s[i] {
	case ' ':
		return !blank(i-1) && !blank(i+1) && (br == betweenItems || s[i-1] != ',')
	case ',':
		return br == betweenItems || br == betweenSettings && s[i+1] == '['
	}
	return false
}
