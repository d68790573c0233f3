// Package nearest finds what somebody who has mistyped a word has probably meant. It
// is pure.
package nearest

import "unicode/utf8"

// Word returns the word of a list that a mistyped one is nearest to: the one that the
// fewest letters inserted, left out, changed or exchanged with their neighbour make of
// it, and of several the first. ok is false where none is near: a third of its letters
// may be wrong.
func Word(typed string, words []string) (word string, ok bool) {
	least := 0
	for _, w := range words {
		longer := max(utf8.RuneCountInString(typed), utf8.RuneCountInString(w))
		if d := distance([]rune(typed), []rune(w)); d <= max(1, longer/3) && d < longer && (!ok || d < least) {
			word, least, ok = w, d, true
		}
	}
	return word, ok
}

// distance is the number of single mistakes between two words (optimal string
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
