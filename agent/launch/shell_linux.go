package launch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/submit"
)

// scriptShell returns the shell_start_mode that SCRIPT_SHELL of execd_params gives a script. The script
// runs with the shell of -S; if there is none, by its #! line; without that line, with the shell of the
// queue.
func scriptShell(c job.Command, script []byte) job.ShellStartMode {
	switch {
	case c.Binary || c.StartMode == job.ScriptFromStdin:
		return c.StartMode
	case !c.OwnShell && interpreter(script) != "":
		return job.UnixBehavior
	default:
		return job.PosixCompliant
	}
}

// interpreter returns the program in the #! line of a script (execve(2)); empty without one.
func interpreter(script []byte) string {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	line, found := bytes.CutPrefix(line, []byte("#!"))
	line = bytes.Trim(line, " \t")
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		line = line[:i]
	}
	if !found {
		return ""
	}
	return string(line)
}

// unfound explains which file was not found when the program of a job could not be executed, and
// names the remedy: the supervisor only names the file. The text is empty if there is nothing to add.
func unfound(d *job.Description) string {
	c := d.Command
	if !strings.Contains(c.Shell, "/") && (c.Binary && !c.NoShell || !c.Binary && c.StartMode != job.UnixBehavior) {
		return fmt.Sprintf("the PATH of the job has no %s, the shell of -S: name it with its directory, or pass your PATH with -v PATH", c.Shell)
	}
	if c.Binary || c.StartMode != job.UnixBehavior {
		return ""
	}
	name := interpreter(firstBytes(c.File))
	switch {
	case name == "":
		return ""
	case strings.HasSuffix(name, "\r"):
		return fmt.Sprintf("the script has lines that end with CR LF, as on Windows, so that its interpreter is %q: run dos2unix on the script", name)
	}
	if missing(d, name) {
		return fmt.Sprintf("its interpreter %s does not exist", name)
	}
	return ""
}

// misread describes a fault in the script of a failed job that its interpreter does not understand; it is
// empty if there is none. Python and others understand CR LF, but the kernel does not understand it in a
// #! line, and shells do not understand it anywhere.
func misread(d *job.Description) string {
	c := d.Command
	if c.Binary || c.StartMode != job.UnixBehavior && !strings.HasSuffix(c.Shell, "sh") {
		return ""
	}
	return submit.OddScript(firstBytes(c.File))
}

// firstBytes returns the beginning of a spooled script, as much as the kernel looks at.
func firstBytes(script string) []byte {
	f, err := os.OpenFile(script, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	const most = 256 // BINPRM_BUF_SIZE
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return b
}
