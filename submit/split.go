package submit

import "strings"

// The quoting rules here apply to #$ lines, request files and the comma lists of several options.
// sge_submit(1) does not describe them. In the original, quotes of both kinds group and are
// removed. Where the original's reader fails, this package follows the shell: a word ends at the
// next blank after a closing quote (8.1.9 drops the remaining line), a quote within quotes of the
// other kind stays, and a # within quotes does not begin a comment. A quote without a closing quote groups
// up to the end of the line (tested); in the value of an option it is an ordinary character. There is no
// escape character.

const blanks = " \t\r\n\v\f"

// closing returns the index of the quote that closes the quote at s[i]. It returns the length of s
// if there is no closing quote, and -1 if s[i] is not a quote.
func closing(s string, i int) int {
	if s[i] != '"' && s[i] != '\'' {
		return -1
	}
	n := strings.IndexByte(s[i+1:], s[i])
	if n < 0 {
		return len(s)
	}
	return i + 1 + n
}

// cutComment returns line without the comment that begins at the first unquoted #.
func cutComment(line string) string {
	for i := 0; i < len(line); i++ {
		if end := closing(line, i); end > 0 {
			i = end
		} else if line[i] == '#' {
			return line[:i]
		}
	}
	return line
}

// splitWords splits a line at blanks. Quotes group and are removed; "" is an
// empty word.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		if end := closing(line, i); end > 0 {
			word.WriteString(line[i+1 : end])
			inWord = true
			i = end
			continue
		}
		if strings.IndexByte(blanks, line[i]) < 0 {
			word.WriteByte(line[i])
			inWord = true
			continue
		}
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// splitList splits the value of an option at any of the separators. Quotes protect separators and
// stay part of the item (tested: with -v 'A="x,y"' the value contains the quotes). It omits empty
// items.
func splitList(s, separators string) []string {
	var items []string
	start := 0
	item := func(end int) {
		if end > start {
			items = append(items, s[start:end])
		}
		start = end + 1
	}
	for i := 0; i < len(s); i++ {
		if end := closing(s, i); end > 0 && end < len(s) {
			i = end
		} else if strings.IndexByte(separators, s[i]) >= 0 {
			item(i)
		}
	}
	item(len(s))
	return items
}
