package qconf

import (
	"fmt"
	"strings"
)

// blanks are the bytes that separate the words of a line.
const blanks = " \t"

// line is one attribute as a file has it.
type line struct {
	name, value string
	file        string
	number      int // of its first physical line, from 1; 0 for a value that no file holds
	// gap is set where the line was continued after a comma. The original's
	// qconf breaks long values there although no blank was there before.
	gap bool
}

// readLines splits a file into its attributes: "name value", where a backslash before the newline
// stands for a blank, "before any interpretation" (queue_conf(5), DESCRIPTION). Blank lines and
// lines that begin with # are skipped; a comment is not continued. As in Grid Engine, but not in
// its manual, blanks and then a blank line may follow the backslash.
func readLines(file, data string) (lines []line, errs []error) {
	physical := strings.Split(data, "\n")
	for i := 0; i < len(physical); {
		cur := line{file: file, number: i + 1}
		text, more := physicalLine(physical[i])
		if strings.HasPrefix(strings.TrimLeft(text, blanks), "#") {
			i++
			continue
		}
		parts := []string{text}
		for i++; more && i < len(physical); i++ {
			var next string
			next, more = physicalLine(physical[i])
			// The blanks around the break are layout: qconf breaks at a blank and indents the next
			// line.
			last := &parts[len(parts)-1]
			*last, next = strings.TrimRight(*last, blanks), strings.TrimLeft(next, blanks)
			if strings.HasSuffix(*last, ",") && !strings.HasPrefix(next, "[") {
				cur.gap = true
			}
			if next != "" {
				parts = append(parts, next)
			}
		}
		text = strings.Trim(strings.Join(parts, " "), blanks)
		if more {
			errs = append(errs, &Error{File: file, Line: cur.number, Value: text, Problem: "the file ends in a continued line"})
			continue
		}
		if text == "" {
			continue
		}
		at := strings.IndexAny(text, blanks)
		if at < 0 {
			cur.name = text
		} else {
			cur.name, cur.value = text[:at], strings.TrimLeft(text[at:], blanks)
		}
		lines = append(lines, cur)
	}
	return lines, errs
}

// physicalLine cuts the blanks at the end of a line and the backslash that
// continues it.
func physicalLine(s string) (text string, more bool) {
	return strings.CutSuffix(strings.TrimRight(s, blanks+"\r"), `\`)
}

// checkValue refuses values that no line can hold, or that no line should.
func checkValue(s string) error {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return fmt.Errorf("%q contains the control byte 0x%02x", s, c)
		}
	}
	switch {
	case s == "":
		return fmt.Errorf("has no value")
	case strings.Trim(s, blanks) != s:
		return fmt.Errorf("%q begins or ends with a blank", s)
	case strings.HasSuffix(s, `\`):
		return fmt.Errorf("%q ends with a backslash, which would continue the line", s)
	}
	return nil
}
