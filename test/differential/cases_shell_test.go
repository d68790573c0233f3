package differential

import (
	"fmt"
	"strings"
)

// shellModes are the values of shell_start_mode that qconf accepts.
var shellModes = []string{"posix_compliant", "unix_behavior", "script_from_stdin"}

// shellCases start jobs in every possible way.
func shellCases() []jobCase {
	var cases []jobCase
	for _, mode := range shellModes {
		add := func(c jobCase, queue ...string) {
			c.name += " in mode " + mode
			c.queue = attrs(append(queue, "shell_start_mode", mode)...)
			cases = append(cases, c)
		}
		add(jobCase{name: "a script with arguments", script: probeScript, cmd: []string{"one", "two words"}})
		add(jobCase{name: "a script without an interpreter line", script: "PROBE job \"$@\"\n", cmd: []string{"x"}})
		add(jobCase{name: "a script with -S bash", opts: []string{"-S", "/bin/bash"}, script: "#!/bin/bash\nPROBE job \"$BASH_VERSION\" \"$@\"\n"})
		add(jobCase{name: "a script with -S to a shell that is not a login shell", opts: []string{"-S", "/bin/dash"}, script: probeScript})
		add(jobCase{name: "a csh script with -S csh", opts: []string{"-S", "/bin/csh"}, script: "#!/bin/csh\nPROBE job $argv:q\nexit 4\n", cmd: []string{"c d"}})
		add(jobCase{name: "a script in a queue whose shell is csh", script: "PROBE job\n"}, "shell", "/bin/csh")
		add(jobCase{name: "a script whose interpreter is missing", script: "#!/no/such/interpreter\nPROBE job\n"})
		add(jobCase{name: "a script with -S to a missing shell", opts: []string{"-S", "/no/such/shell"}, script: probeScript})
		add(jobCase{name: "a script with -shell n, which means nothing", opts: []string{"-shell", "n"}, script: probeScript})
		add(jobCase{name: "a command", opts: []string{"-b", "y"}, cmd: []string{"PROBE", "job", "a", "b c", "$HOME", "/bin/tru?"}})
		add(jobCase{name: "a command without a shell", opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"PROBE", "job", "a", "b c", "$HOME", "/bin/tru?"}})
		add(jobCase{name: "a command with -S csh", opts: []string{"-b", "y", "-S", "/bin/csh"}, cmd: []string{"PROBE", "job", "a", "b c"}})
		add(jobCase{name: "a command that does not exist", opts: []string{"-b", "y"}, cmd: []string{"/no/such/command", "x"}})
		add(jobCase{name: "a command without a shell that does not exist", opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"/no/such/command"}})
		add(jobCase{name: "a command by name, found in PATH", opts: []string{"-b", "y"}, cmd: []string{"echo", "$0", "found"}})
		add(jobCase{name: "a command by name without a shell", opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"echo", "$0", "found"}})
	}
	return append(cases,
		jobCase{name: "a script with a #$ line", script: "#!/bin/sh\n#$ -N embedded\n#$ -v FROM_SCRIPT=yes\nPROBE job\n"},
		jobCase{name: "a script longer than a pipe holds", script: probeScript + longComment(100_000) + "echo end\n"},
		jobCase{name: "the signals a directly started job ignores and blocks", opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"/bin/grep", "^Sig[PBIC]", "/proc/self/status"}},
		jobCase{name: "the limits a directly started job has", opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"/bin/cat", "/proc/self/limits"}},
		jobCase{name: "the descriptors a directly started job has", opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"/bin/ls", "/proc/self/fd"}},
		jobCase{name: "a job reads from /dev/null by default", script: "#!/bin/sh\ncat; echo $?\n", queue: attrs("shell_start_mode", "unix_behavior")},
	)
}

// argumentCases contain text that an unsafe file format or shell would change.
func argumentCases() []jobCase {
	odd := []string{"two  blanks", " leading", "trailing ", `quo"te`, "apo'strophe", `back\slash`, `\n`, "*", "?", "$HOME", "`id`", ";", "#x", "a=b", "=", "tab\there", "grün €", "-l", "~"}
	cases := []jobCase{
		{name: "a script gets odd arguments as they are", script: probeScript, cmd: odd},
		{name: "a command without a shell gets odd arguments as they are", opts: []string{"-b", "y", "-shell", "n"}, cmd: append([]string{"PROBE", "job"}, odd...)},
		{name: "a script from stdin gets odd arguments as they are", queue: attrs("shell_start_mode", "script_from_stdin"), script: probeScript, cmd: odd},
		{name: "an empty argument", script: probeScript, cmd: []string{"", "after"}},
		{name: "an argument of 5000 bytes", script: probeScript, cmd: []string{strings.TrimSpace(longComment(5000)[2:]), "after"}},
		{name: "an argument of two lines, the second of which looks like a setting", script: probeScript, cmd: []string{"first\njob_owner=bob", "after"}},
	}
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprintf("arg%d", i)
	}
	return append(cases, jobCase{name: "150 arguments", script: probeScript, cmd: many})
}

// longComment returns a shell comment of n bytes.
func longComment(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	copy(b, "# ")
	b[n-1] = '\n'
	return string(b)
}
