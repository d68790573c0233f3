package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

const manDir = "../../../../docs/man"

// TestManualNamesEveryOption compares execd-run(1) with the tables of options.
func TestManualNamesEveryOption(t *testing.T) {
	text, err := os.ReadFile(manDir + "/execd-run.1")
	if err != nil {
		t.Fatal(err)
	}
	explained, named := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		flags := false
		for word := range strings.FieldsSeq(line) {
			switch {
			case word == "," || word == "." || word == ":" || word == ";":
			case word == "Fl" || word == ".Fl":
				flags = true
			case flags && !slices.Contains([]string{"Ar", "Cm", "Ns", "Oo", "Op", "Xc"}, word):
				named["-"+word] = true
				explained["-"+word] = explained["-"+word] || strings.HasPrefix(line, ".It ")
				flags = strings.HasPrefix(line, ".Fl ") // a list of options
			default:
				flags = false
			}
		}
	}
	known := map[string]bool{}
	for _, o := range own {
		known[o.name] = true
		if !explained[o.name] {
			t.Errorf("%s is not explained", o.name)
		}
	}
	for _, row := range submit.Options() {
		o, ok := submit.Lookup(row.Name)
		if !ok { // of a command that is not in sge_submit(1)
			continue
		}
		known[o.Name] = true
		switch {
		case o.Name == "-help":
		case o.Treatment == submit.Executed && !explained[o.Name]:
			t.Errorf("%s is not explained", o.Name)
		case !named[o.Name]:
			t.Errorf("%s is not named", o.Name)
		}
	}
	for name := range named {
		if !known[name] && name != "--name" {
			t.Errorf("%s is no option", name)
		}
	}
}

// TestManualsAreWellFormed checks the manual pages with groff.
func TestManualsAreWellFormed(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("needs groff: ", err)
	}
	pages, err := filepath.Glob(manDir + "/*.[1-8]")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in %s: %v", manDir, err)
	}
	commands, err := filepath.Glob(manDir + "/commands/*.1")
	if err != nil || len(commands) == 0 {
		t.Fatalf("no pages of commands in %s: %v", manDir, err)
	}
	for _, page := range slices.Concat(pages, commands) {
		if out, err := exec.Command(groff, "-mandoc", "-ww", "-Tascii", "-z", page).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", page, err, out)
		}
	}
}
