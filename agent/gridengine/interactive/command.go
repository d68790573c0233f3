package interactive

import (
	"errors"
	"os"
	"strings"
)

// Word is the command of execd that runs as an interactive job. It is not for people.
const Word = "interactive-job"

// Command returns the command line that runs an interactive job. execd is the path of that
// executable.
func Command(execd, host, shell string, pty, login bool) []string {
	mode := "pipe"
	switch {
	case login:
		mode = "login"
	case pty:
		mode = "pty"
	}
	return []string{execd, Word, host, shell, mode}
}

// Main runs the words after Word of such a command line.
func Main(args []string) (int, error) {
	const words = 3
	if len(args) != words || strings.HasPrefix(args[0], "-") {
		return ExitStatus, errors.New("execd " + Word + " is internal: only the agent starts it, for jobs of qrsh")
	}
	return Run(Options{Host: args[0], Shell: args[1], PTY: args[2] != "pipe", Login: args[2] == "login", Env: os.Environ()})
}
