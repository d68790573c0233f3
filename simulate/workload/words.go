package workload

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
)

// line is a line of a file of jobs, including its continuation lines.
type line struct {
	number int // of its first line in the file, from 1
	words  []string
	err    error // why it cannot be split into words
}

// splitter splits a text into lines and words, as a shell does.
type splitter struct {
	text   string
	at     int
	begin  int // line number of the current line, without continuation lines
	number int // line number of the current physical line

	words []string
	word  strings.Builder
	open  bool // a word has begun; it may be empty
	err   error
}

// split returns the lines of a text with their words.
func split(text string) iter.Seq[line] {
	return func(yield func(line) bool) {
		s := splitter{text: strings.ReplaceAll(text, "\r\n", "\n"), number: 1}
		for s.at < len(s.text) {
			first := s.number
			s.words, s.err, s.begin = nil, nil, s.at
			s.line()
			if s.at-s.begin > textfile.MaxLine {
				s.words, s.err = nil, errTooLong
			}
			if (len(s.words) > 0 || s.err != nil) && !yield(line{first, s.words, s.err}) {
				return
			}
		}
	}
}

var errTooLong = fmt.Errorf("the line has more than %d MiB, with those that it goes on with", textfile.MaxLine>>20)

// line splits the current line, and moves to the next one.
func (s *splitter) line() {
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch c {
		case '\n':
			s.number++
			s.end()
			return
		case ' ', '\t', '\r', '\v', '\f':
			s.end()
		case '\'', '"':
			s.quoted(c)
		case '\\':
			s.escaped()
		case '#':
			if s.open {
				s.add(c)
				continue
			}
			if n := strings.IndexByte(s.text[s.at:], '\n'); n >= 0 {
				s.at += n
			} else {
				s.at = len(s.text)
			}
		case ';', '|', '&', '<', '>', '(', ')', '`':
			s.fail("%q has a special meaning to a shell: expected it in quotes", c)
			s.add(c)
		default:
			s.add(c)
		}
	}
	s.end()
}

// quoted reads the text after an opening quote, up to the closing one.
func (s *splitter) quoted(quote byte) {
	s.open = true
	for s.at < len(s.text) {
		c := s.text[s.at]
		if c == '\n' {
			break // left for the end of the line
		}
		s.at++
		switch {
		case c == quote:
			return
		case c != '\\' || quote == '\'' || s.at == len(s.text):
			s.add(c)
		case strings.IndexByte("\"\\$`\n", s.text[s.at]) < 0:
			s.add(c)
		default:
			s.escaped()
		}
	}
	s.fail("a quote %c is not closed", quote)
}

// escaped reads the character after a backslash.
func (s *splitter) escaped() {
	if s.at == len(s.text) {
		s.fail("the file ends in a continued line")
		return
	}
	c := s.text[s.at]
	s.at++
	if c == '\n' {
		s.number++
		return
	}
	s.add(c)
}

func (s *splitter) add(c byte) {
	s.word.WriteByte(c)
	s.open = true
}

// end ends a word.
func (s *splitter) end() {
	if s.open {
		if s.at-s.begin <= textfile.MaxLine {
			s.words = append(s.words, s.word.String())
		}
		s.word.Reset()
		s.open = false
	}
}

// fail records the first error of a line.
func (s *splitter) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// Words splits a command line into words, as described in the package documentation. It omits
// comments.
func Words(command string) ([]string, error) {
	lines := slices.Collect(split(command))
	if len(lines) != 1 {
		return nil, fmt.Errorf("expected one line with a command, not %d", len(lines))
	}
	return lines[0].words, lines[0].err
}
