// Package nearest finds what somebody who has mistyped a word has probably meant. It
// is pure.
package nearest

import (
	"flag"
	"strings"
	"unicode/utf8"
)

// Word returns the word of a list that a mistyped one is nearest to: the one that the
// fewest letters inserted, left out, changed or exchanged with their neighbour make of
// it, and of several the first. ok is false where none is near: a third of its letters
// may be wrong.
func Word(typed string, words []string) (word string, ok bool) {
	least := 0
	letters := utf8.RuneCountInString(typed)
	for _, w := range words {
		n := utf8.RuneCountInString(w)
		longer := max(letters, n)
		if longer-min(letters, n) > max(1, longer/3) {
			continue // their distance is at least that
		}
		if d := distance([]rune(typed), []rune(w)); d <= max(1, longer/3) && d < longer && (!ok || d < least) {
			word, least, ok = w, d, true
		}
	}
	return word, ok
}

// Option returns the error message for an option that a FlagSet has refused; for an unknown option
// it suggests the most similar one.
func Option(flags *flag.FlagSet, err error) string {
	name, ok := strings.CutPrefix(err.Error(), unknownFlag)
	if !ok {
		return err.Error()
	}
	known := []string{"help"}
	flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	return "unknown option --" + name + Hint("--", name, known)
}

// unknownFlag is what the error of package flag begins with.
const unknownFlag = "flag provided but not defined: -"

// Hint returns the question behind an error about a word, whether the nearest one of a list was meant;
// empty if none is near. The prefix is that of all words.
func Hint(prefix, typed string, words []string) string {
	if w, ok := Word(typed, words); ok {
		return " (did you mean " + prefix + w + "?)"
	}
	return ""
}

// distance returns the number of single mistakes between two words (optimal string
// alignment: no part is mistaken twice).
func distance(a, b []rune) int {
	// The rows of the table before the last, the last, and the one that is made.
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
