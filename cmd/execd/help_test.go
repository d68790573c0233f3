package main_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/options"
)

// TestHelp prints the help text of each command in both ways.
func TestHelp(t *testing.T) {
	build(t)
	execd := func(args ...string) string {
		out, err := exec.Command(base+"/bin/execd", args...).Output()
		if err != nil {
			t.Errorf("execd %v: %v", args, err)
		}
		return string(out)
	}
	var names []string // of the list of commands: in the first two columns
	for _, m := range regexp.MustCompile(`(?m)^  (\w+(?:, \w+)*)`).FindAllStringSubmatch(execd("help"), -1) {
		names = append(names, strings.Split(m[1], ", ")...)
	}
	if !slices.Contains(names, "version") || !slices.Contains(names, "qstat") {
		t.Fatalf("execd help has %q", names)
	}
	for _, name := range names {
		option := "--help"
		if slices.Contains(command.Names(), name) {
			option = "-help"
		}
		got := execd("help", name)
		if !strings.Contains(strings.ToLower(got), "usage: ") || got != execd(name, option) || got != execd(name, "--help") {
			t.Errorf("execd help %s prints\n%s", name, got)
		}
	}
}

// TestUnknownCommand names the nearest of all commands, and prints the list.
func TestUnknownCommand(t *testing.T) {
	build(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"one of ours":          {[]string{"staus"}, "^execd: unknown command \"staus\" \\(did you mean status\\?\\)\nUsage: execd COMMAND"},
		"one of Grid Engine's": {[]string{"qstta"}, "^execd: unknown command \"qstta\" \\(did you mean qstat\\?\\)\n"},
		"help":                 {[]string{"help", "qsbu"}, "^execd: unknown command \"qsbu\" \\(did you mean qsub\\?\\)\n"},
		"nothing near":         {[]string{"frobnicate"}, "^execd: unknown command \"frobnicate\"\nUsage: "},
		"nothing":              {nil, "^Usage: execd COMMAND"},
		"an absent one":        {[]string{"help", "qmake"}, "^qmake: execd does not have this command: run make "},
		"a wrong option":       {[]string{"version", "--hlep"}, "^execd version: unknown option --hlep \\(did you mean --help\\?\\)\nexecd version: see execd version --help\n$"},
		"two commands":         {[]string{"help", "a", "b"}, "^execd help: expected one command, and there are 2 arguments\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var errs strings.Builder
			cmd := exec.Command(base+"/bin/execd", c.args...)
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != options.ExitUsage || len(out) > 0 || !regexp.MustCompile(c.want).MatchString(errs.String()) {
				t.Errorf("%v, standard output %q, standard error:\n%s", err, out, &errs)
			}
		})
	}
}
