package architecture

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/execd-project/execd/"
	importable = "Other projects may import this package: docs/compatibility.md says what may change."
	ours       = "Other projects should not import this package: it may change at any time."
)

// TestImportablePackages checks that the comment of each package says whether other projects may
// import it, and agrees with the table in docs/compatibility.md. An importable package, and each
// example, must need no packages other than importable ones and those that are out of reach of
// other modules.
func TestImportablePackages(t *testing.T) {
	root := moduleRoot(t)
	listed := importablePackages(t, root)
	found := make(map[string]bool)
	for _, pkg := range packages(t, root) {
		name := strings.TrimPrefix(pkg.ImportPath, module)
		example := strings.HasPrefix(name, "examples/")
		if outOfReach(name) && !example {
			continue
		}
		public := listed(name)
		if !example {
			want, other := ours, importable
			if public {
				found[name] = true
				want, other = importable, ours
			}
			doc := packageComment(t, pkg.Dir)
			if !strings.Contains(doc, want) || strings.Contains(doc, other) {
				t.Errorf("the comment of package %s does not contain %q, as the table of docs/compatibility.md has it", name, want)
			}
		}
		if !public && !example {
			continue
		}
		for _, dep := range pkg.Imports {
			dep, own := strings.CutPrefix(dep, module)
			if own && !listed(dep) && !strings.Contains("/"+dep+"/", "/internal/") {
				t.Errorf("package %s imports %s, which other projects should not import", name, dep)
			}
		}
	}
	t.Attr("importable-packages", fmt.Sprint(len(found)))
	if len(found) < 8 {
		t.Errorf("docs/compatibility.md names only %d packages that exist", len(found))
	}
}

// outOfReach reports whether a package is a command, a test, or cannot be imported from other
// modules.
func outOfReach(name string) bool {
	for _, part := range []string{"cmd", "examples", "packaging", "test"} {
		if strings.HasPrefix(name+"/", part+"/") {
			return true
		}
	}
	return strings.Contains("/"+name+"/", "/internal/")
}

// importablePackages returns a function that reports whether the table in docs/compatibility.md
// lists a package.
func importablePackages(t *testing.T, root string) func(name string) bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The Go API\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names, below []string
	for _, row := range regexp.MustCompile(`(?m)^\|([^|]*)\|`).FindAllStringSubmatch(section, -1) {
		for _, m := range regexp.MustCompile("`([a-z/.]+)`").FindAllStringSubmatch(row[1], -1) {
			if parent, all := strings.CutSuffix(m[1], "..."); all {
				below = append(below, parent)
			} else {
				names = append(names, m[1])
			}
		}
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("docs/compatibility.md: %v", err)
		}
	}
	return func(name string) bool {
		if slices.Contains(names, name) {
			return true
		}
		for _, b := range below {
			if strings.HasPrefix(name, b) && !strings.Contains(name, "/internal") {
				return true
			}
		}
		return false
	}
}

type listedPackage struct {
	ImportPath, Dir string
	Imports         []string
}

// packages returns all packages of the module.
func packages(t *testing.T, root string) (all []listedPackage) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(output(t, goCommand(t, root, "list", "-json=ImportPath,Dir,Imports", "./..."))))
	for d.More() {
		var p listedPackage
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// packageComment returns the comment of a package as text in one line.
func packageComment(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(?m)^// Package (?:.*\n)(?://.*\n)*package `).Find(text); m != nil {
			return regexp.MustCompile(`\s*\n//\s*`).ReplaceAllString(string(m), " ")
		}
	}
	return ""
}
