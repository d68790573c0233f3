// Package architecture tests properties that no compiler checks: the packages that the supervisor
// of a job links and its size, the size of source files, that each dependency is documented, and
// that the documents are correct about packages and functions. The linter (.golangci.yml) checks
// which package may import which.
package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write imports.txt of cmd/shepherd and cmd/launcher")

// maxShepherdSize is the maximum size of the supervisor, which is read from disk and mapped once
// per job. All supervisors share its text; `make bench` measures the memory of a single one.
const maxShepherdSize = 2<<20 + 424<<10

// Longer files are split by concept.
const maxLines = 700

const importsHeader = `# Every package that is linked into the supervisor of a job, without Go's own
# internal ones. One supervisor runs per job: what is added here is paid for in
# its start time and its memory, thousands of times on a busy host. To accept a
# change: go test ./test/architecture -update
`

const launcherHeader = `# Every package that is linked into the launcher, without Go's own internal ones. The
# launcher is root and takes orders from a process that may have been captured: what is
# added here may become part of an attack. To accept a change:
# go test ./test/architecture -update
`

func TestShepherdImports(t *testing.T) { checkImports(t, "shepherd", importsHeader) }

func TestLauncherImports(t *testing.T) { checkImports(t, "launcher", launcherHeader) }

// checkImports compares the packages that a command links with the list next to the command.
func checkImports(t *testing.T, command, header string) {
	t.Helper()
	root := moduleRoot(t)
	// The list depends on the platform; it is kept for the most common one.
	cmd := goCommand(t, root, "list", "-deps", "./cmd/"+command)
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var got []string
	for pkg := range strings.Lines(output(t, cmd)) {
		if pkg = strings.TrimSpace(pkg); !goInternal(pkg) {
			got = append(got, pkg)
		}
	}
	slices.Sort(got)

	golden := filepath.Join(root, "cmd", command, "imports.txt")
	if *update {
		text := header + "\n" + strings.Join(got, "\n") + "\n"
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./test/architecture -update", err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			want = append(want, line)
		}
	}
	var diff strings.Builder
	for _, pkg := range got {
		if !slices.Contains(want, pkg) {
			fmt.Fprintf(&diff, "+ %s\n", pkg)
		}
	}
	for _, pkg := range want {
		if !slices.Contains(got, pkg) {
			fmt.Fprintf(&diff, "- %s\n", pkg)
		}
	}
	if diff.Len() > 0 {
		t.Errorf("what cmd/%s links has changed:\n%s"+
			"who imports it: go list -deps -f '{{.ImportPath}}: {{.Imports}}' ./cmd/%[1]s\n"+
			"to accept it: go test ./test/architecture -update", command, &diff)
	}
}

// shepherdRuntime is the runtime setting of the supervisor at link time: see Makefile.
const shepherdRuntime = "disablethp=1"

func TestShepherdSize(t *testing.T) {
	root := moduleRoot(t)
	bin := filepath.Join(t.TempDir(), "shepherd")
	const setting = "-X runtime.godebugDefault=" + shepherdRuntime
	cmd := goCommand(t, root, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w "+setting, "-o", bin, "./cmd/shepherd")
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	output(t, cmd)
	info, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Attr("shepherd-bytes", fmt.Sprint(info.Size()))
	if info.Size() > maxShepherdSize {
		t.Errorf("the stripped supervisor has %d bytes; at most %d are allowed", info.Size(), maxShepherdSize)
	}

	// The linker ignores a variable that does not exist.
	if b, err := os.ReadFile(bin); err != nil || !bytes.Contains(b, []byte(shepherdRuntime)) {
		t.Errorf("the supervisor does not contain %q (%v): does the runtime still have godebugDefault?", shepherdRuntime, err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "Makefile")); err != nil || !bytes.Contains(b, []byte(setting)) {
		t.Errorf("the Makefile does not contain %q (%v)", setting, err)
	}
}

func TestFileLength(t *testing.T) {
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	for path, text := range files(t, moduleRoot(t)) {
		if !strings.HasSuffix(path, ".go") || generated.Match(text) {
			continue
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines; split files of more than %d by concept", path, n, maxLines)
		}
	}
}

func TestDependenciesAreDocumented(t *testing.T) {
	root := moduleRoot(t)
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal([]byte(output(t, goCommand(t, root, "mod", "edit", "-json"))), &mod); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if r.Indirect {
			continue
		}
		// A row begins with the module's path: | `golang.org/x/sys` | ...
		row := regexp.MustCompile("(?m)^\\| *`" + regexp.QuoteMeta(r.Path) + "` *\\|.*\\|.*\\|")
		if !row.Match(doc) {
			t.Errorf("go.mod requires %s, but docs/dependencies.md has no row for it", r.Path)
		}
	}
}

func TestNothingLeftOver(t *testing.T) {
	root := moduleRoot(t)
	forbidden := map[string]*regexp.Regexp{
		"a mark of a merge":      regexp.MustCompile(`(?m)^(<{7}|>{7}) `),
		"a note to finish later": regexp.MustCompile(`\b(FIX` + `ME|DO NOT ` + `SUBMIT|DO NOT ` + `COMMIT)\b`),
	}
	// A path of the machine on which a file was written is useless on others. If the checkout is in
	// / or directly below it, its name is too common to search for.
	if strings.Count(root, "/") >= 2 {
		forbidden["the path of this checkout"] = regexp.MustCompile(regexp.QuoteMeta(root) + `\b`)
	}
	cache := strings.TrimSpace(output(t, goCommand(t, root, "env", "GOMODCACHE")))
	forbidden["the path of Go's module cache"] = regexp.MustCompile(regexp.QuoteMeta(cache) + `\b`)
	for path, text := range files(t, root) {
		for what, re := range forbidden {
			if at := re.FindIndex(text); at != nil {
				t.Errorf("%s:%d: %s: %q", path, 1+bytes.Count(text[:at[0]], []byte("\n")), what, text[at[0]:at[1]])
			}
		}
	}
}

// goInternal reports whether only Go's own library can import a package. The list of these packages
// changes with every release of Go.
func goInternal(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	if strings.Contains(first, ".") {
		return false
	}
	return first == "vendor" || slices.Contains(strings.Split(pkg, "/"), "internal")
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	mod := strings.TrimSpace(output(t, goCommand(t, ".", "env", "GOMOD")))
	if mod == "" || mod == os.DevNull {
		t.Fatal("cannot find go.mod above the test's directory")
	}
	return filepath.Dir(mod)
}

// files returns the text files of the tree, by their path relative to root.
func files(t *testing.T, root string) map[string][]byte {
	t.Helper()
	texts := make(map[string][]byte)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || path == filepath.Join(root, "bin")) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || d.Name() == ".git" { // a file in a linked worktree
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) < 0 {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			texts[rel] = text
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func goCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = cmd.Environ()
	return cmd
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("cannot run %q: %v\n%s", cmd.Args, err, stderr)
	}
	return string(out)
}
