package serve

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/certfile"
	"github.com/execd-project/execd/internal/testenv"
)

const page = "../../../docs/api.md"

// example is a command of docs/api.md with its output.
type example struct {
	line          int
	command, want string
}

// examples reads the blocks "console" of a page. A command begins with "$ " and continues in indented
// lines. The lines after it are its output.
func examples(t *testing.T, path string) []example {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []example
	inside, output := false, false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			list, output = append(list, example{line: i + 1, command: line[2:]}), false
		case !output && strings.HasPrefix(line, "  "):
			list[len(list)-1].command += "\n" + line
		default:
			output = true
			list[len(list)-1].want += line + "\n"
		}
	}
	return list
}

// TestDocumentation runs the examples of docs/api.md and compares the results.
func TestDocumentation(t *testing.T) {
	testenv.Require(t, testenv.Curl)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The server begins with certificates that the commands of the page then replace.
	a := newAuthority(t, "previous")
	previous := write(t, dir, a.issue(t, certificate{names: []string{"previous"}, server: true}), a)
	files := certfile.Paths{CA: filepath.Join(dir, "ca.pem"), Certificate: filepath.Join(dir, "n1.pem"), Key: filepath.Join(dir, "n1-key.pem")}
	if err := errors.Join(os.Rename(previous.Certificate, files.Certificate), os.Rename(previous.Key, files.Key)); err != nil {
		t.Fatal(err)
	}
	r := run(t, func(o *Options) {
		o.TLS = &TLS{Address: "127.0.0.1:0", Files: files, Masters: []string{"master.example"}}
		o.Loopback = &Loopback{Address: "127.0.0.1:0", TokenFile: filepath.Join(dir, "token")}
		o.Install = func(context.Context, map[string]string) error { return nil }
	})
	moment := regexp.MustCompile(`("time":")[^"]*`)
	used := map[string]bool{}
	for _, e := range examples(t, page) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", e.command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SOCKET="+r.socket, "ADDRESS="+r.Addresses()[1].String(), "LOOPBACK="+r.Addresses()[2].String(), "LC_ALL=C")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s:%d: %v\n%s", page, e.line, err, &stderr)
		}
		got := moment.ReplaceAllString(string(out), "${1}...")
		if diff := cmp.Diff(strings.SplitAfter(e.want, "\n"), strings.SplitAfter(got, "\n")); diff != "" {
			t.Errorf("%s:%d: %s\n%s", page, e.line, e.command, diff)
		}
		for name := range table() {
			if regexp.MustCompile(`Agent/` + string(name) + `\b`).MatchString(e.command) {
				used[string(name)] = true
			}
		}
	}
	for name := range table() {
		if !used[string(name)] {
			t.Errorf("%s has no example of %s", page, name)
		}
	}
}

// TestDocumentationIsComplete checks that the page names all fields and all codes.
func TestDocumentationIsComplete(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	source := ""
	for _, name := range []string{"messages.go", "report.go"} {
		b, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		source += string(b)
	}
	for _, m := range regexp.MustCompile("`json:\"([a-z0-9_]+)").FindAllStringSubmatch(source, -1) {
		if strings.HasPrefix(m[1], "ru_") {
			continue // described in accounting(5)
		}
		if !regexp.MustCompile(`[^a-z_]` + m[1] + `[^a-z_]`).Match(text) {
			t.Errorf("%s does not have the field %s", page, m[1])
		}
	}
	for _, code := range []api.Code{
		api.Canceled, api.InvalidArgument, api.DeadlineExceeded, api.NotFound, api.AlreadyExists, api.PermissionDenied, api.ResourceExhausted,
		api.FailedPrecondition, api.Unimplemented, api.Internal, api.Unavailable, api.Unauthenticated,
	} {
		row := regexp.MustCompile("(?m)^\\| `" + string(code) + "` \\| ([0-9]+) \\|").FindSubmatch(text)
		if row == nil || string(row[1]) != strconv.Itoa(code.Status()) {
			t.Errorf("%s: no row for %s with status %d", page, code, code.Status())
		}
	}
}
