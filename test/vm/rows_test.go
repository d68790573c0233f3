package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryPackageThatNeedsAGuestHasOne checks that each package that needs a guest has a step: a test
// that skips everywhere tests nothing.
func TestEveryPackageThatNeedsAGuestHasOne(t *testing.T) {
	var pkgs []string // of the table
	for name, m := range machines {
		for _, s := range m.steps {
			if !isDir(filepath.Join(moduleRoot, s.pkg)) {
				t.Errorf("%s: there is no package %s", name, s.pkg)
			}
			pkgs = append(pkgs, s.pkg)
		}
	}
	needs := regexp.MustCompile(`testenv\.(Guest|Systemd)\b`)
	err := filepath.WalkDir(moduleRoot, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(moduleRoot, filepath.Dir(path))
		if err != nil {
			return err
		}
		if pkg != "test/vm" && needs.Match(text) && !slices.Contains(pkgs, pkg) {
			t.Errorf("%s needs a guest, but the table of machines has no step for %s", path, pkg)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPatternsSayWhatTheyMean checks that go test can read the patterns: it would report an invalid
// one only after the boot.
func TestPatternsSayWhatTheyMean(t *testing.T) {
	for name, m := range machines {
		for _, s := range m.steps {
			for _, pattern := range []string{s.run, s.skip} {
				for part := range strings.SplitSeq(pattern, "/") {
					if strings.Count(part, "(") != strings.Count(part, ")") {
						t.Errorf("%s: %s: %q", name, s.pkg, pattern)
					}
				}
			}
		}
	}
}
