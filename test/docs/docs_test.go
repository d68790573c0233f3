package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

func pages(t *testing.T) []string {
	t.Helper()
	list, err := Pages(root)
	if err != nil || len(list) < 20 {
		t.Fatalf("%d pages, %v", len(list), err)
	}
	return list
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCommandsAreRun checks that a test runs each command line of the documentation, or that the
// page says why none does.
func TestCommandsAreRun(t *testing.T) {
	typed, examples := 0, 0
	for _, page := range pages(t) {
		blocks, err := Blocks(root, page)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, b := range blocks {
			switch {
			case b.Language == "":
				t.Errorf("%s: the block has no language, expected sh for commands, else text, json, go or console", b.Place())
			case b.Test != "":
				m := testName.FindStringSubmatch(b.Test)
				if m == nil {
					t.Errorf("%s: tested by %q, expected TestName in DIRECTORY", b.Place(), b.Test)
				} else if !hasTest(t, m[2], m[1]) {
					t.Errorf("%s: there is no %s in %s", b.Place(), m[1], m[2])
				}
			case b.Example != "":
				examples++
			case b.Language == "console":
				t.Errorf("%s: a console block needs a test, or a reason to be an example", b.Place())
			case b.Language == "sh" && !slices.Contains(Guides, page):
				t.Errorf("%s: the page is none of docs.Guides: name the test that types these commands, or say why they are an example", b.Place())
			case b.Language == "sh":
				typed += len(b.Commands())
			}
		}
	}
	t.Attr("typed", strconv.Itoa(typed))
	t.Attr("examples", strconv.Itoa(examples))
	if typed < 50 {
		t.Errorf("the guides have only %d commands that are typed", typed)
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)")
	})
}

func TestCommandsOfABlock(t *testing.T) {
	b := Block{Text: "one\n\ncat >a <<'END'\ntwo\n\nEND\nthree \\\n  four\nfive\n"}
	want := []string{"one", "cat >a <<'END'\ntwo\n\nEND", "three \\\n  four", "five"}
	if got := b.Commands(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

var (
	fences = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	spans  = regexp.MustCompile("`[^`\n]*`")
	links  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heads  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// TestLinks follows the links between pages, to files and to anchors.
func TestLinks(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		text := spans.ReplaceAllString(fences.ReplaceAllString(read(t, page), ""), "")
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			n++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t, file), anchor) {
				t.Errorf("%s: %s has no heading for the link %s", page, file, m[1])
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d links were found", n)
	}
}

// anchors returns the anchors of the headings of a page, in the form that forges generate.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var list []string
	for _, m := range heads.FindAllStringSubmatch(fences.ReplaceAllString(read(t, page), ""), -1) {
		list = append(list, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return list
}

var manual = regexp.MustCompile(`\b((?:execd|sge_shepherd-go)[a-z-]*)\(([1-8])\)|man (?:-l docs/man/)?(execd[a-z-]*)(?:\.([1-8]))?`)

// TestManualPagesExist checks that the manual pages of execd that pages name exist.
func TestManualPagesExist(t *testing.T) {
	there, err := filepath.Glob(filepath.Join(root, "docs/man/*.[1-8]"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range there {
		names = append(names, filepath.Base(path))
	}
	commands, err := filepath.Glob(filepath.Join(root, "docs/man/commands/*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		names = append(names, "execd-"+filepath.Base(path))
	}
	exists := func(name, section string) bool {
		return slices.ContainsFunc(names, func(file string) bool {
			base := strings.TrimSuffix(file, filepath.Ext(file))
			return base == name && (section == "" || strings.HasSuffix(file, "."+section))
		})
	}
	all := pages(t)
	for _, path := range there {
		page, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page)
	}
	for _, page := range all {
		text := read(t, page)
		for _, m := range manual.FindAllStringSubmatch(text, -1) {
			if name, section := m[1]+m[3], m[2]+m[4]; !exists(name, section) {
				t.Errorf("%s: there is no manual page %s %s", page, name, section)
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^\.Xr (execd\S*|sge_shepherd-go) ([1-8])`).FindAllStringSubmatch(text, -1) {
			if !exists(m[1], m[2]) {
				t.Errorf("%s: there is no manual page %s %s", page, m[1], m[2])
			}
		}
	}
}

var mention = regexp.MustCompile("`(?:sudo )?execd ([a-z_-]+)([^`\n]*)`")

// TestMentionedCommandsExist runs execd with --help for each command that a sentence names, and
// searches the output for the long options.
func TestMentionedCommandsExist(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "execd")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, "./cmd/execd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	help := make(map[string]string)
	n := 0
	for _, page := range pages(t) {
		for _, m := range mention.FindAllStringSubmatch(fences.ReplaceAllString(read(t, page), ""), -1) {
			n++
			name := m[1]
			if _, known := help[name]; !known {
				option := "--help"
				if strings.HasPrefix(name, "q") {
					option = "-help"
				}
				out, err := exec.CommandContext(t.Context(), bin, name, option).CombinedOutput()
				if err != nil && name != "version" && name != "help" {
					t.Errorf("%s: execd %s %s: %v\n%s", page, name, option, err, out)
				}
				help[name] = string(out)
			}
			for _, option := range regexp.MustCompile(`--[a-z-]+`).FindAllString(m[2], -1) {
				if option != "--help" && !strings.Contains(help[name], option) {
					t.Errorf("%s: execd %s has no option %s", page, name, option)
				}
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d commands were found", n)
	}
}
