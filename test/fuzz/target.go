package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A target is one fuzz test.
type target struct {
	pkg  string // the path of its package below the module, "./jobdir"
	name string // FuzzParseOnline
}

func (t target) String() string { return t.pkg + "." + t.name }

// targets returns the fuzz tests below a directory whose name matches the pattern,
// sorted.
func targets(root string, pattern *regexp.Regexp) ([]target, error) {
	var found []target
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		names, err := fuzzTests(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, name := range names {
			if t := (target{"./" + filepath.ToSlash(dir), name}); pattern.MatchString(t.String()) {
				found = append(found, t)
			}
		}
		return err
	})
	slices.SortFunc(found, func(a, b target) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.name, b.name))
	})
	return found, err
}

// fuzzTests returns the names of the fuzz tests in a file. go test refuses functions with such a
// name and another signature.
func fuzzTests(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// choose returns the targets of a turn: count consecutive ones, following those of the previous
// turn and continuing with the first after the last. It returns all if count is 0.
func choose(all []target, count, turn int) []target {
	if count == 0 || count >= len(all) {
		return all
	}
	chosen := make([]target, count)
	for i := range chosen {
		chosen[i] = all[(turn*count+i)%len(all)]
	}
	return chosen
}

// run fuzzes the target. It writes the output of go test to w.
func (t target) run(w io.Writer, duration time.Duration) error {
	// By default, go test spends up to a minute on making each input smaller that reaches new code: a slow target
	// would try almost no other inputs.
	args := []string{"test", "-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", duration.String(), "-fuzzminimizetime", "10x", t.pkg}
	var output bytes.Buffer
	for again := false; ; again = true {
		output.Reset()
		cmd := exec.Command("go", args...)
		cmd.Stdout = io.MultiWriter(w, &output)
		cmd.Stderr = cmd.Stdout
		err := cmd.Run()
		if err == nil || again || !outOfTime(output.Bytes()) {
			return err
		}
		fmt.Fprintln(w, "fuzz: the time was over while a worker ran; once more")
	}
}

// outOfTime reports whether go test failed only because the time was over while a worker had an
// input (go.dev/issue/48591). No input fails in this case.
func outOfTime(output []byte) bool {
	return bytes.Contains(output, []byte("context deadline exceeded")) &&
		!bytes.Contains(output, []byte("Failing input written"))
}
