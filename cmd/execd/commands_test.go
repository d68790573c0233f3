package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/options"
)

// pages are the manual pages of our own commands that do not have one named after them.
var pages = map[string]string{
	"agent": "execd.8", "standalone": "execd-standalone.8", "sensor": "execd-loadsensor.7",
	"status": "execd-status.8", "jobs": "execd-status.8", "attach": "execd-status.8", "drain": "execd-status.8", "resume": "execd-status.8",
	"version": "execd.8", "help": "execd.8", "completion": "execd.8",
}

// page returns the text of the manual page of a command, and its name.
func page(t *testing.T, r row) (text, name string) {
	t.Helper()
	name = pages[r.name]
	switch {
	case name != "":
	case r.gridengine && r.name != "qacct":
		name = "commands/" + r.name + ".1"
	default:
		name = "execd-" + r.name + ".1"
	}
	b, err := os.ReadFile("../../docs/man/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), name
}

// section returns a section of a manual page.
func section(page, title string) string {
	_, text, _ := strings.Cut(page, "\n.Sh "+title+"\n")
	text, _, _ = strings.Cut(text, "\n.Sh ")
	return text
}

// TestManualPages compares the help texts of our own commands with their manual pages: the options
// in SYNOPSIS and those that the page explains are those of the help text, each with a value if the
// help text says that it has one. The pages of Grid Engine's commands are generated (package
// packaging/man).
func TestManualPages(t *testing.T) {
	described := map[string]map[string]bool{} // options by page, with " VALUE" if they have a value
	for _, r := range table() {
		text, name := page(t, r)
		if r.gridengine {
			continue
		}
		if described[name] == nil {
			described[name] = map[string]bool{}
		}
		// A page of several commands has a synopsis for each.
		synopsis := section(text, "SYNOPSIS")
		if synopsis == "" { // of a page about more than the command
			_, synopsis, _ = strings.Cut(text, "\n.Nm \"execd "+r.name+"\"\n")
			synopsis, _, _ = strings.Cut(synopsis, "\n.Ed")
		}
		if i := strings.Index(synopsis, ".Cm "+r.name); i >= 0 {
			synopsis = synopsis[i:]
			if end := strings.Index(synopsis, "\n.Nm"); end >= 0 && pages[r.name] != "" {
				synopsis = synopsis[:end]
			}
		}
		all := strings.Contains(synopsis, ".Ar options") || strings.Contains(synopsis, ".Op Ar options")
		shown := findOptions(synopsis)
		for _, o := range options.Read(r.help()) {
			if o.Name == "help" {
				continue
			}
			word := o.Name
			if o.Value != "" {
				word += " VALUE"
			}
			described[name][word] = true
			if !all && !slices.Contains(shown, word) {
				t.Errorf("%s, SYNOPSIS: --%s of execd %s is missing", name, word, r.name)
			}
			shown = slices.DeleteFunc(shown, func(s string) bool { return s == word })
		}
		for _, word := range shown {
			if word == "help" {
				continue
			}
			t.Errorf("%s, SYNOPSIS: execd %s has no option --%s", name, r.name, word)
		}
	}
	for name, words := range described {
		b, err := os.ReadFile("../../docs/man/" + name)
		if err != nil {
			t.Fatal(err)
		}
		explained := findOptions(strings.Join(regexp.MustCompile(`(?m)^\.It Fl -.*$`).FindAllString(string(b), -1), "\n"))
		elsewhere := strings.Contains(string(b), "\nThe other options are those of\n")
		for word := range words {
			if !elsewhere && !slices.Contains(explained, word) {
				t.Errorf("%s: --%s is not explained", name, word)
			}
		}
		for _, word := range explained {
			if !words[word] && word != "help" {
				t.Errorf("%s: no command has the option --%s", name, word)
			}
		}
	}
}

// findOptions returns the options in a text in mdoc(7), with " VALUE" if a value follows.
func findOptions(text string) (all []string) {
	for _, m := range regexp.MustCompile(`Fl -([a-z-]+)( Ar| Cm)?`).FindAllStringSubmatch(text, -1) {
		word := m[1]
		if m[2] != "" {
			word += " VALUE"
		}
		all = append(all, word)
	}
	return all
}

// TestOverview checks that the list of commands has each of them.
func TestOverview(t *testing.T) {
	for _, name := range names() {
		if !regexp.MustCompile(`(?m)^  (.*, )?` + name + `\b`).MatchString(overview()) {
			t.Errorf("execd help does not name %s", name)
		}
	}
}
