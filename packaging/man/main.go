// Command man writes the options of Grid Engine's commands into their manual pages, from
// the tables that -help prints.
//
//	man DIRECTORY
//
// In each page of the directory it replaces the lines between
//
//	.\" options of NAME
//	.\" end of options
//
// and leaves everything else as it is.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/execd-project/execd/cell/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY")
		os.Exit(2)
	}
	if err := update(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// update writes the options into all pages of a directory.
func update(dir string) error {
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return err
	}
	if len(pages) == 0 {
		return fmt.Errorf("there are no manual pages in %q", dir)
	}
	var errs []error
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err == nil {
			var page []byte
			if page, err = withOptions(text); err == nil && !bytes.Equal(page, text) {
				err = os.WriteFile(path, page, 0o644)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

var marked = regexp.MustCompile(`(?s)\.\\" options of (\w+)\n.*?\.\\" end of options\n`)

// withOptions returns a page with the options of its command.
func withOptions(page []byte) ([]byte, error) {
	m := marked.FindSubmatchIndex(page)
	if m == nil {
		return nil, errors.New(`no lines '.\" options of NAME' and '.\" end of options'`)
	}
	name := string(page[m[2]:m[3]])
	options := command.Options(name)
	if options == nil {
		return nil, fmt.Errorf("%q is not a command", name)
	}
	var b bytes.Buffer
	b.Write(page[:m[0]])
	fmt.Fprintf(&b, ".\\\" options of %s\n.Bl -tag -width Ds\n", name)
	for _, o := range options {
		b.WriteString(".It Fl " + roff(strings.TrimPrefix(o.Name, "-")))
		for word := range strings.FieldsSeq(o.Args) {
			b.WriteString(" Ar " + roff(word))
		}
		b.WriteString("\n" + sentence(o.Help) + "\n")
	}
	b.WriteString(".El\n.\\\" end of options\n")
	b.Write(page[m[1]:])
	return b.Bytes(), nil
}

// sentence returns the text of an option in the form of a manual page: a capital letter in
// front, a full stop behind, one sentence a line.
func sentence(help string) string {
	text := strings.Join(strings.Fields(help), " ")
	text = strings.ToUpper(text[:1]) + text[1:]
	return roff(strings.TrimSuffix(text, ".") + ".")
}

// roff returns a text in which groff sees no requests and no escapes.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	// A word that mdoc(7) takes for a macro or a delimiter is none behind \&.
	if len(text) <= 3 || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") || strings.ContainsAny(text[:1], "[({|") {
		return `\&` + text
	}
	return text
}
