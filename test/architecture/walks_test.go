package architecture

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mostSteps is the maximum number of functions in a walk: as many as a reader remembers.
const mostSteps = 10

// TestWalks checks the walks through the code in docs/architecture.md: each function is declared
// in the named file, and the previous step leads to it in the way that the page says.
func TestWalks(t *testing.T) {
	root := moduleRoot(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	walks, errs := readWalks(string(page))
	for _, w := range walks {
		errs = append(errs, w.check(root)...)
	}
	for _, err := range errs {
		t.Errorf("docs/architecture.md: %v", err)
	}
	t.Attr("walks", strconv.Itoa(len(walks)))
	if len(walks) < 3 {
		t.Errorf("docs/architecture.md has %d walks, expected at least 3", len(walks))
	}
}

// TestWalksFindErrors checks that each kind of mistake in a walk is found.
func TestWalksFindErrors(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go": "package a\n\nfunc Begin() { table[0](); other() }\n\nvar table = []func(){next}\n\nfunc next() { new(T).Last() }\n\n// other does not call Last.\nfunc other() {}\n",
		"a/b.go": "package a\n\ntype T int\n\nfunc (t *T) Last() {}\n\nfunc user() { Begin() }\n",
		"c/c.go": "package c\n\nimport \"a\"\n\nfunc Caller() { a.Begin() }\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	const (
		begin  = "1. `Begin` in [a/a.go](../a/a.go): begins.\n"
		caller = "1. `Caller` in [c/c.go](../c/c.go): calls.\n"
	)
	for _, test := range []struct{ name, list, want string }{
		{"call", begin + "2. `other` in [a/a.go](../a/a.go): is\n   called.\n", ""},
		{"call of another package", caller + "2. `Begin` in [a/a.go](../a/a.go): begins.\n", ""},
		{"through a table", begin + "2. `next` in [a/a.go](../a/a.go), through `table`: goes on.\n3. `(*T).Last` in [a/b.go](../a/b.go): ends.\n", ""},
		{"through a function", begin + "2. `(*T).Last` in [a/b.go](../a/b.go), through `next`: ends.\n", "step 2: step 1, Begin, does not name next"},
		{"from an earlier step", begin + "2. `other` in [a/a.go](../a/a.go): is called.\n3. `next` in [a/a.go](../a/a.go), from step 1 through `table`: goes on.\n", ""},
		{"a caller", begin + "2. `user` in [a/b.go](../a/b.go), which calls step 1: calls.\n", ""},
		{"no caller", begin + "2. `other` in [a/a.go](../a/a.go), which calls step 1: calls.\n", "step 2: other does not call step 1, Begin"},
		{"a later step", begin + "2. `other` in [a/a.go](../a/a.go), from step 2: calls.\n", "step 2: expected an earlier step than 2"},
		{"renamed", begin + "2. `another` in [a/a.go](../a/a.go): is called.\n", "step 2: a/a.go does not declare another"},
		{"another receiver", begin + "2. `(*U).Last` in [a/b.go](../a/b.go): is called.\n", "step 2: a/b.go does not declare (*U).Last"},
		{"in another file", begin + "2. `other` in [a/b.go](../a/b.go): is called.\n", "step 2: a/b.go does not declare other"},
		{"no file", begin + "2. `other` in [a/c.go](../a/c.go): is called.\n", "step 2: a/c.go does not declare other"},
		{"not called", begin + "2. `next` in [a/a.go](../a/a.go): is called.\n", "step 2: step 1, Begin, does not call next"},
		{"named in a comment only", "1. `other` in [a/a.go](../a/a.go): begins.\n2. `(*T).Last` in [a/b.go](../a/b.go): is called.\n", "step 2: step 1, other, does not call (*T).Last"},
		{"no table", begin + "2. `user` in [a/b.go](../a/b.go), through `table`: goes on.\n", "step 2: no declaration names both table and user"},
		{"without a text", begin + "2. `other` in [a/a.go](../a/a.go):\n", "step 2: cannot read"},
		{"another link", begin + "2. `other` in [a/a.go](../a/b.go): is called.\n", "step 2: a/a.go is a link to a/b.go"},
		{"wrong number", begin + "3. `other` in [a/a.go](../a/a.go): is called.\n", "step 2: has number 3"},
		{"one step", begin, "1 functions, expected 2 to 10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			walks, errs := readWalks("# Page\n\n" + walksHeading + "\nSome text.\n\n### Walk\n\n" + test.list + "\n## Rules\n\n1. No step.\n")
			if len(walks) != 1 {
				t.Fatalf("%d walks, expected 1", len(walks))
			}
			err := errors.Join(append(errs, walks[0].check(root)...)...)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, expected %q", err, test.want)
			}
		})
	}
}

// walksHeading is the heading of the section with the walks; each walk has its own heading.
const walksHeading = "## Walks through the code\n"

// A walk is a list of functions, in the order in which a reader follows them.
type walk struct {
	title string
	steps []step
}

// A step is one function of a walk, and how another step leads to it.
type step struct {
	receiver, name, file string
	from                 int    // number of the step that leads here
	through              string // the name in that step that stands for the function; empty for a call
	calls                bool   // this function calls that step, instead of the reverse
}

func (s step) String() string {
	if s.receiver != "" {
		return "(*" + s.receiver + ")." + s.name
	}
	return s.name
}

var (
	stepStart = regexp.MustCompile(`^\d+\. `)
	stepForm  = regexp.MustCompile("^(\\d+)\\. `(?:\\(\\*(\\w+)\\)\\.)?(\\w+)` in \\[([\\w/.]+)\\]\\(\\.\\./([\\w/.]+)\\)" +
		"(?:, which calls step (\\d+)|,(?: from step (\\d+))?(?: through `(\\w+)`)?)?: \\S.*$")
)

// readWalks returns the walks of a page, and the errors in their form.
func readWalks(page string) (walks []walk, errs []error) {
	_, section, _ := strings.Cut(page, "\n"+walksHeading)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, part := range strings.Split(section, "\n### ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		w := walk{title: title}
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%q, step %d: %w", title, len(w.steps), fmt.Errorf(format, args...)))
		}
		for _, item := range listItems(text) {
			m := stepForm.FindStringSubmatch(item)
			if m == nil {
				w.steps = append(w.steps, step{})
				wrong("cannot read %q", item)
				continue
			}
			s := step{receiver: m[2], name: m[3], file: m[4], from: len(w.steps), through: m[8], calls: m[6] != ""}
			if number := m[6] + m[7]; number != "" {
				s.from, _ = strconv.Atoi(number)
			}
			w.steps = append(w.steps, s)
			if m[1] != strconv.Itoa(len(w.steps)) {
				wrong("has number %s", m[1])
			}
			if m[4] != m[5] {
				wrong("%s is a link to %s", m[4], m[5])
			}
		}
		if n := len(w.steps); n < 2 || n > mostSteps {
			errs = append(errs, fmt.Errorf("%q has %d functions, expected 2 to %d", title, n, mostSteps))
		}
		walks = append(walks, w)
	}
	return walks, errs
}

// listItems returns the items of a numbered list, each as one line.
func listItems(text string) (items []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch n := len(items); {
		case stepStart.MatchString(line):
			items = append(items, line)
		case n > 0 && strings.HasPrefix(line, "   "):
			items[n-1] += " " + strings.TrimSpace(line)
		}
	}
	return items
}

// check compares a walk with the code below root.
func (w *walk) check(root string) (errs []error) {
	found := make([]*ast.FuncDecl, len(w.steps))
	for i, s := range w.steps {
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%q, step %d: %w", w.title, i+1, fmt.Errorf(format, args...)))
		}
		if found[i] = s.find(root); found[i] == nil {
			wrong("%s does not declare %s", s.file, s)
			continue
		}
		if i == 0 {
			continue
		}
		if s.from < 1 || s.from > i {
			wrong("expected an earlier step than %d", s.from)
			continue
		}
		other, at := w.steps[s.from-1], found[s.from-1]
		switch {
		case at == nil: // reported above
		case s.calls:
			if !s.uses(found[i].Body, other) {
				wrong("%s does not call step %d, %s", s, s.from, other)
			}
		case s.through == "":
			if !other.uses(at.Body, s) {
				wrong("step %d, %s, does not call %s", s.from, other, s)
			}
		case !hasName(at.Body, s.through):
			wrong("step %d, %s, does not name %s", s.from, other, s.through)
		case !connects(root, other, s, s.through):
			wrong("no declaration names both %s and %s", s.through, s)
		}
	}
	return errs
}

// find returns the declaration of the function of a step in its file, nil if there is none.
func (s step) find(root string) *ast.FuncDecl {
	for _, d := range declarations(filepath.Join(root, s.file)) {
		if f, ok := d.(*ast.FuncDecl); ok && s.declaredBy(f) {
			return f
		}
	}
	return nil
}

func (s step) declaredBy(f *ast.FuncDecl) bool {
	if f.Name.Name != s.name || f.Body == nil {
		return false
	}
	if f.Recv == nil {
		return s.receiver == ""
	}
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	return ok && s.receiver != "" && hasName(star.X, s.receiver)
}

// uses reports whether code in the package of a step names the function of another step: as a
// method, or as a function of the same or another package.
func (s step) uses(code ast.Node, other step) (found bool) {
	samePackage := filepath.Dir(s.file) == filepath.Dir(other.file)
	selected := map[*ast.Ident]bool{}
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			selected[n.Sel] = true
			if n.Sel.Name != other.name {
				break
			}
			p, ok := n.X.(*ast.Ident)
			found = found || other.receiver != "" || !samePackage && ok && p.Name == filepath.Base(filepath.Dir(other.file))
		case *ast.Ident:
			found = found || other.receiver == "" && samePackage && n.Name == other.name && !selected[n]
		}
		return true
	})
	return found
}

// connects reports whether a declaration in the package of one of two steps names both the second
// step and through: a function, table, constant or field.
func connects(root string, from, to step, through string) bool {
	for _, in := range []step{from, to} {
		paths, _ := filepath.Glob(filepath.Join(root, filepath.Dir(in.file), "*.go"))
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, d := range declarations(path) {
				f, ok := d.(*ast.FuncDecl)
				is := ok && in == to && to.declaredBy(f)
				if hasName(d, through) && (is || in.uses(d, to)) {
					return true
				}
			}
		}
	}
	return false
}

func hasName(code ast.Node, name string) (found bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return true
	})
	return found
}

// declarations returns the functions of a file, and each constant, variable and type separately. It
// returns none for a file that cannot be read.
func declarations(path string) (list []ast.Node) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			list = append(list, d)
			continue
		}
		for _, s := range g.Specs {
			list = append(list, s)
		}
	}
	return list
}
