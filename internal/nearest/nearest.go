// Package nearest finds the word that is most similar to a mistyped one. It is pure.
package nearest

import (
	"unicode/utf8"
)

// Word returns the word of a list that is most similar to a mistyped one: it needs the fewest
// insertions, deletions, changes and exchanges of neighbouring letters. Of equally similar words,
// Word returns the first. ok is false if none is similar: at most a third of the letters may be
// wrong.
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

// Hint returns a question to append to an error about an unknown word: did the user mean the most
// similar word of a list? It is empty if none is similar. prefix precedes the words.
func Hint(prefix, typed string, words []string) string {
	if w, ok := Word(typed, words); ok {
		return " (did you mean " + prefix + w + "?)"
	}
	return ""
}

// distance returns the number of single mistakes between two words (optimal string
// alignment: no part is mistaken twice).
func distance(a, b []rune) int {
	// The last but one, the last and the current row of the table.
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
