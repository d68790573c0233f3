package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/execd-project/execd/cell"
)

// TestEveryEventHasAText checks that every kind of event that package cell declares has a text.
func TestEveryEventHasAText(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../event.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for spec := range specs(file) {
		kind, ok := spec.Type.(*ast.Ident)
		if !ok || kind.Name != "EventKind" {
			continue
		}
		for i, name := range spec.Names {
			value, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds++
			if eventTexts[cell.EventKind(value)] == nil {
				t.Errorf("there is no text for cell.%s", name.Name)
			}
		}
	}
	// Two kinds with the same value would count twice here and once in the table.
	if kinds != len(eventTexts) {
		t.Errorf("package cell declares %d kinds, and there are %d texts", kinds, len(eventTexts))
	}
}

// specs yields the declarations of constants of a file.
func specs(file *ast.File) func(yield func(*ast.ValueSpec) bool) {
	return func(yield func(*ast.ValueSpec) bool) {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.CONST {
				for _, s := range d.Specs {
					if !yield(s.(*ast.ValueSpec)) {
						return
					}
				}
			}
		}
	}
}
