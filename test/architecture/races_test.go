package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRaceless checks that the packages that make race leaves out start no goroutines, and so do their
// tests.
func TestRaceless(t *testing.T) {
	root := moduleRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^RACELESS := (\S+)$`).FindSubmatch(text)
	if match == nil {
		t.Fatal("the Makefile has no RACELESS")
	}
	files := 0
	for dir := range strings.SplitSeq(string(match[1]), "|") {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if startsGoroutine(n) {
					t.Errorf("%s starts a goroutine: take %s out of RACELESS in the Makefile", set.Position(n.Pos()), dir)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files == 0 {
		t.Error("no files were found")
	}
}

// startsGoroutine reports whether a node is a go statement, a call of a method like that of
// sync.WaitGroup, or of one that runs tests at the same time.
func startsGoroutine(n ast.Node) bool {
	if _, ok := n.(*ast.GoStmt); ok {
		return true
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	ofTest := ok && (of.Name == "t" || of.Name == "b")
	return s.Sel.Name == "Go" || ofTest && (s.Sel.Name == "Parallel" || s.Sel.Name == "RunParallel")
}
