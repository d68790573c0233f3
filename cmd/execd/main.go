// Execd is the execution-host agent: it runs jobs as Grid Engine does. See
// execd(8).
package main

import (
	"os"
	"path/filepath"

	"github.com/execd-project/execd/agent/gridengine/interactive"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/cmd/execd/internal/completion"
	"github.com/execd-project/execd/cmd/execd/internal/drmaa"
	"github.com/execd-project/execd/cmd/execd/internal/messages"
	"github.com/execd-project/execd/internal/messages/deliver"
	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
)

func main() { os.Exit(dispatch(filepath.Base(os.Args[0]), os.Args[1:])) }

// dispatch carries out a command line. The program is the name under which execd was called:
// that of a command of Grid Engine is the command itself.
func dispatch(program string, args []string) int {
	if c := find(program); c != nil && c.gridengine {
		return c.call(args)
	}
	if command.Absent[program] != "" {
		return absent(program)
	}
	if len(args) == 0 {
		printer.Fprintf(os.Stderr, "%s", printer.Trusted(overview()))
		return options.ExitUsage
	}
	name, args := args[0], args[1:]
	switch name {
	case interactive.Word: // for the agent alone
		return interactiveJob(args)
	case completion.Word: // for the scripts of execd completion
		if completions().Answer(args, os.Stdout) != nil {
			return options.ExitUsage
		}
		return 0
	case drmaa.Word: // for the DRMAA library alone
		return drmaaHelper(args)
	case deliver.Word: // for the daemon alone
		if err := messages.Help(os.Stdin, os.Stdout); err != nil {
			complain("execd "+deliver.Word+":", err)
			return 1
		}
		return 0
	case "--version", "-version":
		name = "version"
	case "--help", "-help", "-h":
		name = "help"
	}
	c := find(name)
	if c == nil {
		return unknown(name)
	}
	return c.call(args)
}

// unknown reports a command that execd does not have, and returns the exit status.
func unknown(name string) int {
	if command.Absent[name] != "" {
		return absent(name)
	}
	printer.Fprintf(os.Stderr, "execd: unknown command %q%s\n%s", name, nearest.Hint("", name, names()), printer.Trusted(overview()))
	return options.ExitUsage
}

// complain prints an error: one line for each of several joined errors, such as those of a
// configuration directory.
func complain(prefix string, err error) {
	for _, line := range printer.ErrorLines(err) {
		printer.Fprintf(os.Stderr, "%s %s\n", prefix, printer.Trusted(line))
	}
}

// drmaaHelper serves a session of the DRMAA library.
func drmaaHelper(args []string) int {
	if len(args) == 1 && args[0] == "--help" {
		printer.Fprintf(os.Stdout, "%s", printer.Trusted(drmaa.Usage))
		return 0
	}
	if err := drmaa.Run(args); err != nil {
		complain("execd drmaa-helper:", err)
		return options.ExitUsage
	}
	return 0
}

// interactiveJob returns an interactive job of Grid Engine.
func interactiveJob(args []string) int {
	status, err := interactive.Main(args)
	if err != nil {
		complain("execd:", err)
	}
	return status
}

// absent prints what to type instead of a command of Grid Engine that execd does not have, and
// returns the exit status.
func absent(name string) int {
	printer.Fprintf(os.Stderr, "%s: execd does not have this command: %s\n", name, command.Absent[name])
	return options.ExitUsage
}
