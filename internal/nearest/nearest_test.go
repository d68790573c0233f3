package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	words := []string{"run", "agent", "status", "jobs", "drain", "resume"}
	for name, c := range map[string]struct{ typed, want string }{
		"a letter too few":                       {"statu", "status"},
		"a letter too many":                      {"draiin", "drain"},
		"another letter":                         {"jobz", "jobs"},
		"two exchanged letters are one mistake":  {"rnu", "run"},
		"two mistakes in a long word":            {"stauts", "status"},
		"nothing in common":                      {"xyzzy", ""},
		"too many mistakes":                      {"dr", ""},
		"nothing at all":                         {"", ""},
		"the right word is the nearest":          {"resume", "resume"},
		"of several the first that is as near":   {"rum", "run"},
		"letters are characters, and not bytes":  {"rün", "run"},
		"a single letter is near to nothing new": {"x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := Word(c.typed, words); got != c.want || ok != (c.want != "") {
				t.Errorf("%q: %q, %v", c.typed, got, ok)
			}
		})
	}
}

// TestLongWord checks that a word that is much longer than all others is similar to none, and that
// the comparison takes no time.
func TestLongWord(t *testing.T) {
	words := []string{"run", "agent", strings.Repeat("hostlist", 10)}
	if allocated := testing.AllocsPerRun(1, func() {
		if w, ok := Word(strings.Repeat("x", 1<<20), words); ok {
			t.Errorf("near to %q", w)
		}
	}); allocated > 10 {
		t.Errorf("%g allocations", allocated)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"abcd", "acbd", 1}} {
		if got := distance([]rune(c.a), []rune(c.b)); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
