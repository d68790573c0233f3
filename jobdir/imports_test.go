package jobdir

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
	allowed := []string{
		"bytes", "errors", "io", "io/fs", "math", "os", "runtime", "slices", "strconv", "strings", "syscall", "time",
		"golang.org/x/sys/unix", "github.com/execd-project/execd/job", "github.com/execd-project/execd/specifier",
	}
	files, err := os.ReadDir(".")
	must(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		must(t, err)
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			must(t, err)
			if !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", f.Name(), path)
			}
		}
	}
}
