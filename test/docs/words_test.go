package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unwanted matches words from the list in docs/STYLE.md that are never right in pages and manual pages.
var unwanted = regexp.MustCompile(`(?i)\b(whoever|anew|former|passed over|how it fares|mistakes? of (?:ours|the daemon's|the agent's)|no such numbers|(?:is|are|was) known of|(?:is|are|was) told)\b`)

// unwantedInCode matches the words that are never right in Go files either. It is shorter than unwanted
// because Go files also contain texts of Grid Engine and names of variables.
var unwantedInCode = regexp.MustCompile(`(?i)\b(passed over|how it fares|mistakes? of (?:ours|the daemon's|the agent's)|there are no such numbers)\b`)

// unwantedInComments matches words that are never right in comments of Go files.
var unwantedInComments = regexp.MustCompile(`(?i)//.*\b(whoever|anew|former|(?:is|are|was) (?:known of|told))\b`)

// riddles matches comments that describe a value only by a clause, such as "x is what y needs" and "f returns
// those that z has", and the passive "mu is held".
var riddles = regexp.MustCompile(`^\s*// (?:\w+ (?:is|are) (?:what|who)|\w+ returns (?:what|those|who|whom))\b|\b(?:mu|writing|commits) is held\b`)

// testFunc matches the first line of a test.
var testFunc = regexp.MustCompile(`^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)

// TestWords reports words that docs/STYLE.md tells writers to avoid, in pages, manual pages and Go files.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"The former agent.":      "former",
		"It is made anew.":       "anew",
		"Reformers renew plans.": "",
		"Who is told of it?":     "is told",
	} {
		if got := unwanted.FindString(text); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"// Answer is what a command prints.":      "// Answer is what",
		"\t// names returns those of variables.":   "\t// names returns those",
		"// look reads the table. mu is held.":     "mu is held",
		"// Answer is the output of a command.":    "",
		"// It says what the answer is.":           "",
		"// ids returns the IDs of those records.": "",
	} {
		if got := riddles.FindString(text); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"\tx := 1 // the former value":     true,
		"// Who is told of it?":            true,
		"\tformer := 1":                    false,
		"// The agent tells the observer.": false,
	} {
		if got := unwantedInComments.MatchString(text); got != want {
			t.Errorf("%q: found %v, want %v", text, got, want)
		}
	}
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && (file == ".git" || file == "bin") {
			return filepath.SkipDir
		}
		var words *regexp.Regexp
		switch {
		case !entry.Type().IsRegular(), file == "docs/STYLE.md", file == "test/docs/words_test.go": // the two name the words
			return nil
		case strings.HasSuffix(file, ".go"):
			words = unwantedInCode
		case strings.HasSuffix(file, ".md"), strings.HasPrefix(file, "docs/man/"):
			words = unwanted
		default:
			return nil
		}
		code := strings.HasSuffix(file, ".go")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		var comment string // the first line of the comment that ends before this line
		for i, line := range strings.Split(string(text), "\n") {
			if test := testFunc.FindStringSubmatch(line); test != nil && comment != "" && !strings.HasPrefix(comment, "// "+test[1]+" ") {
				t.Errorf("%s:%d: the comment of %s does not begin with its name and a verb: %s", file, i+1, test[1], comment)
			}
			if !strings.HasPrefix(line, "//") || strings.HasPrefix(line, "//go:") {
				comment = ""
			} else if comment == "" {
				comment = line
			}
			if found := words.FindString(line); found != "" {
				t.Errorf("%s:%d: %q, see the list of words in docs/STYLE.md", file, i+1, found)
			}
			if code && unwantedInComments.MatchString(line) {
				t.Errorf("%s:%d: a word of the list in docs/STYLE.md: %s", file, i+1, strings.TrimSpace(line))
			}
			if code && riddles.MatchString(line) {
				t.Errorf("%s:%d: the comment does not name the value itself (docs/STYLE.md, doc comments): %s", file, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 500 {
		t.Errorf("only %d files were read: the walk misses most of the tree", seen)
	}
}
