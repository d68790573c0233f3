// Package docs reads the pages of the documentation for tests: the commands that they show, and how
// each command is tested. `make docs-check` runs these tests.
//
// TestGuides in test/standalone runs each fenced block of the language sh, unless an HTML comment
// on the line above says otherwise:
//
//	<!-- tested by: TestReadme in test/master -->
//	<!-- example: needs systemd -->
//
// If a test of its own runs the console blocks of a page (commands with their output), the page
// says so once:
//
//	<!-- console blocks are tested by: TestDocumentation in agent/api/serve -->
//
// Blocks of output and configuration have another language: text, json, go.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Guides are the pages whose commands TestGuides in test/standalone runs, from the root of the
// repository.
var Guides = []string{
	"README.md",
	"docs/guides/get-started.md",
	"docs/guides/load-sensor.md",
	"docs/guides/move-a-cell.md",
	"docs/guides/operate.md",
	"docs/guides/policies.md",
	"docs/guides/prolog-epilog.md",
	"examples/README.md",
}

// Block is a fenced block of a page.
type Block struct {
	Page     string
	Line     int    // of the opening fence, from 1
	Language string // sh, text, ...; empty for none
	Test     string // the test that runs it, with its directory, from "tested by"
	Example  string // why no test runs it, from "example"
	Text     string // without the fences
}

// Place returns the page and the line of a block.
func (b *Block) Place() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Typed reports whether TestGuides runs the block.
func (b *Block) Typed() bool { return b.Language == "sh" && b.Test == "" && b.Example == "" }

// Commands returns the command lines of a block. A line that begins a here-document, or ends with a
// backslash, includes the lines that belong to it.
func (b *Block) Commands() []string {
	var list []string
	end := "" // of a here-document
	open := false
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSuffix(line, "\n")
		if open {
			list[len(list)-1] += "\n" + line
		} else if strings.TrimSpace(line) != "" {
			list = append(list, line)
			if m := hereDocument.FindStringSubmatch(line); m != nil {
				end = m[1]
			}
		}
		switch {
		case end != "" && line == end:
			end, open = "", false
		default:
			open = end != "" || strings.HasSuffix(line, `\`)
		}
	}
	return list
}

var (
	hereDocument  = regexp.MustCompile(`<<'(\w+)'`)
	consoleMarker = regexp.MustCompile(`(?m)^<!-- console blocks are tested by: (.*) -->$`)
	marker        = regexp.MustCompile(`^<!-- (tested by|example): (.*) -->$`)
	testName      = regexp.MustCompile(`^(Test\w+) in (\S+)$`)
)

// Blocks returns the fenced blocks of a page, a path from the root of the repository.
func Blocks(root, page string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	var list []Block
	var open *Block
	consoleTest := ""
	if m := consoleMarker.FindSubmatch(text); m != nil {
		consoleTest = string(m[1])
	}
	previous := ""
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case open == nil && isFence:
			open = &Block{Page: page, Line: n, Language: fence}
			m := marker.FindStringSubmatch(strings.TrimSpace(previous))
			switch {
			case m == nil && fence == "console":
				open.Test = consoleTest
			case m == nil:
			case m[1] == "example":
				open.Example = m[2]
			default:
				open.Test = m[2]
			}
		case open != nil && isFence:
			list = append(list, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		}
		previous = line
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block has no end", open.Place())
	}
	return list, nil
}

// Pages returns all pages of the repository, from its root.
func Pages(root string) ([]string, error) {
	var list []string
	for _, pattern := range []string{"*.md", ".github/*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			page, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			list = append(list, page)
		}
	}
	slices.Sort(list)
	return list, nil
}
