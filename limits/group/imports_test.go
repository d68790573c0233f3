package group

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The package is part of a process that runs once per job: what it imports is
// paid for a thousand times.
func TestImports(t *testing.T) {
	allowed := []string{"errors", "strconv", "strings", "time", "golang.org/x/sys/unix"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", f.Name(), path)
			}
		}
	}
}
