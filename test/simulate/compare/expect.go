package compare

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// An Expectation describes differences that are meant. Each field is a regular
// expression that must match as a whole; an empty one matches everything, but for
// Why, which is for the reader and must be there.
type Expectation struct {
	Case, Step, File, Job, Field string
	Want, Got                    string
	Why                          string
}

// A Judge tells differences that are meant from others. It may be used from several
// goroutines.
type Judge struct {
	mu           sync.Mutex
	expectations []Expectation
	patterns     [][7]*regexp.Regexp
	met          []bool
}

// NewJudge checks the expectations.
func NewJudge(expectations []Expectation) (*Judge, error) {
	j := &Judge{expectations: expectations, met: make([]bool, len(expectations))}
	for i, e := range expectations {
		if e.Why == "" {
			return nil, fmt.Errorf("expected difference %d has no reason", i)
		}
		var row [7]*regexp.Regexp
		for k, text := range []string{e.Case, e.Step, e.File, e.Job, e.Field, e.Want, e.Got} {
			if text == "" {
				text = "(?s).*"
			}
			re, err := regexp.Compile(`^(?:` + text + `)$`)
			if err != nil {
				return nil, fmt.Errorf("expected difference %d: %w", i, err)
			}
			row[k] = re
		}
		j.patterns = append(j.patterns, row)
	}
	return j, nil
}

// Unexpected returns the differences that no expectation describes.
func (j *Judge) Unexpected(diffs []Difference) []Difference {
	j.mu.Lock()
	defer j.mu.Unlock()
	var rest []Difference
	for _, d := range diffs {
		meant := false
		for i, row := range j.patterns {
			if matches(row, d) {
				j.met[i], meant = true, true
			}
		}
		if !meant {
			rest = append(rest, d)
		}
	}
	return rest
}

func matches(row [7]*regexp.Regexp, d Difference) bool {
	for i, value := range []string{d.Case, d.Step, d.File, d.Job, d.Field, d.Want, d.Got} {
		if !row[i].MatchString(value) {
			return false
		}
	}
	return true
}

// Unmet returns the expectations that no difference has met: they are out of date.
func (j *Judge) Unmet() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var texts []string
	for i, met := range j.met {
		if !met {
			e := j.expectations[i]
			texts = append(texts, fmt.Sprintf("case %q, step %q, file %q, job %q, field %q: %s", e.Case, e.Step, e.File, e.Job, e.Field, e.Why))
		}
	}
	return texts
}

// Text lists differences, one in a line, at most n of them.
func Text(diffs []Difference, n int) string {
	var b strings.Builder
	for i, d := range diffs {
		if i == n {
			fmt.Fprintf(&b, "and %d more\n", len(diffs)-n)
			break
		}
		b.WriteString(d.String() + "\n")
	}
	return b.String()
}
