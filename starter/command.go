package starter

import (
	"strings"

	"github.com/execd-project/execd/job"
)

// invocation is a command to execute: the program and where to search for it, its argument vector,
// and whether its standard input is the script.
type invocation struct {
	program         string // with a slash, or searched for in PATH
	argv            []string
	scriptFromStdin bool
	env             []string // added to the environment
}

// jobInvocation applies shell_start_mode, starter_method (queue_conf(5)) and
// -S, -b, -shell (sge_submit(1)). The table, with SH the shell, sh0 its base
// name ("-" in front for a login shell), SCR the script:
//
//	mode               script               -b y                       -b y -shell n
//	posix_compliant    SH: sh0 SCR args     SH: sh0 -c "CMD args "     CMD: CMD args
//	unix_behavior      SCR: SCR args        SH: sh0 -c "CMD args "     CMD: CMD args
//	script_from_stdin  SH: sh0 -s args      SH: sh0 -c "CMD args "     CMD: CMD args
//
// A starter method takes the place of SH, or of the script or command itself
// where there is no shell, and gets them as arguments.
func jobInvocation(d *job.Description) invocation {
	c := d.Command
	if d.Terminal != nil && d.Terminal.Login {
		return invocation{c.Shell, []string{"-" + baseName(c.Shell)}, false, nil}
	}
	sh0 := baseName(c.Shell)
	var starterEnv []string
	shell := c.Shell
	if d.StarterMethod != "" {
		shell = d.StarterMethod
		sh0 = baseName(shell)
		starterEnv = []string{
			"SGE_STARTER_SHELL_PATH=" + c.Shell,
			"SGE_STARTER_SHELL_START_MODE=" + string(c.StartMode),
			"SGE_STARTER_USE_LOGIN_SHELL=" + trueOrFalse(c.LoginShell),
		}
	}
	if c.LoginShell {
		sh0 = "-" + sh0
	}
	fromStdin := c.StartMode == job.ScriptFromStdin && !c.Binary
	switch {
	case fromStdin:
		return invocation{shell, before(c.Args, sh0, "-s"), true, starterEnv}
	case d.StarterMethod != "":
		return invocation{shell, before(c.Args, sh0, c.File), false, starterEnv}
	case c.Binary && c.NoShell:
		return invocation{c.File, before(c.Args, c.File), false, nil}
	case c.Binary:
		return invocation{shell, []string{sh0, "-c", shellCommand(c)}, false, nil}
	case c.StartMode == job.PosixCompliant:
		return invocation{shell, before(c.Args, sh0, c.File), false, nil}
	default:
		return invocation{c.File, before(c.Args, c.File), false, nil}
	}
}

// before returns args with something in front.
//
//go:noinline
func before(args []string, head ...string) []string { return append(head, args...) }

// shellCommand joins command and arguments as the original does, with one blank after each and
// without quoting, so that the shell splits and expands them again. Job scripts rely on this (-b y
// 'cmd1 && cmd2').
func shellCommand(c job.Command) string {
	var b strings.Builder
	b.WriteString(c.File)
	b.WriteByte(' ')
	for _, a := range c.Args {
		b.WriteString(a)
		b.WriteByte(' ')
	}
	return b.String()
}

// baseName returns the part after the last slash.
func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func trueOrFalse(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// defaultPath is searched for programs if there is no PATH. Unlike with an empty PATH, the working
// directory is not searched (execvp(3)).
const defaultPath = "/bin:/usr/bin"

// searchPath returns the directories that execvp(3) would search in an environment.
func searchPath(e *environment) string {
	if !e.has("PATH") {
		return defaultPath
	}
	return e.get("PATH")
}

// candidates returns the files that execvp(3) would try for a program.
func candidates(program, path string) []string {
	if program == "" || strings.Contains(program, "/") {
		return []string{program}
	}
	var list []string
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		list = append(list, dir+"/"+program)
	}
	return list
}
