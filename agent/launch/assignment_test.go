package launch

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

// TestDivideCommand checks that a shell gets the command as the user wrote it, except for a blank
// at the end of a line.
func TestDivideCommand(t *testing.T) {
	for command, want := range map[string][]string{
		"make all":                 {"make all"},
		"cd x && make\nls":         {"cd x &&", "make\nls"},
		"echo 'a\nb'\necho c d\n":  {"echo", "'a\nb'\necho c d\n"},
		"ls\ncd x y":               {"ls", "\ncd x y"},
		"\nls":                     {"", "\nls"},
		"x='\ny'":                  {"x='\ny'"},
		"ls\\\n -l":                {"ls\\\n -l"},
		"for i in a b; do\ndone\n": {"for i in a b;", "do\ndone\n"},
	} {
		d := &job.Description{Command: job.Command{File: command, Args: []string{"arg"}, Binary: true}}
		divideCommand(d)
		got := append([]string{d.Command.File}, d.Command.Args...)
		if strings.Join(got, "|") != strings.Join(append(want, "arg"), "|") {
			t.Errorf("%q: %q, expected %q and the argument", command, got, want)
		}
	}
	for name, change := range map[string]func(d *job.Description){
		"a script":              func(d *job.Description) { d.Command.Binary = false },
		"no shell":              func(d *job.Description) { d.Command.NoShell = true },
		"with a starter method": func(d *job.Description) { d.StarterMethod = "/s" },
	} {
		d := &job.Description{Command: job.Command{File: "a b\nc", Binary: true}}
		change(d)
		if divideCommand(d); d.Command.File != "a b\nc" || d.Command.Args != nil {
			t.Errorf("%s: %+v", name, d.Command)
		}
	}
}
