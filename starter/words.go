package starter

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
)

// addition separates the two parts of a reason. It begins with the words of the original,
// unchanged, because scripts and administrators search for them. execd's own words follow.
const addition = "; "

// attempt describes the program that a child was to execute, as far as the original names it in the
// reason of a failure.
type attempt struct {
	program string
	argv    []string
	// shown is how many words of argv other users may read. The user may pass passwords in the
	// others.
	shown int
	// kind is the original's name for the file that it checks first, e.g. "shell" or "prolog file";
	// empty if it does not check.
	kind string
}

// jobAttempt returns the attempt to start the job.
func jobAttempt(c job.Command, inv invocation) attempt {
	a := attempt{program: inv.program, argv: inv.argv, shown: len(inv.argv) - len(c.Args)}
	if c.Binary && (len(c.Args) > 0 || indexBlank(c.File) >= 0) {
		a.shown = 1
		if len(inv.argv) > 1 && inv.argv[1] == "-c" {
			a.shown++
		}
	}
	if inv.program != c.File {
		a.kind = shellFile
	}
	return a
}

// shellFile is the kind of a program that runs a script or a command.
const shellFile = "shell"

// procedureAttempt returns the attempt to start one of the site's procedures. The original checks
// its file only if the job is a script.
func procedureAttempt(name string, argv []string, c job.Command) attempt {
	a := attempt{program: argv[0], argv: argv, shown: len(argv)}
	if !c.Binary {
		a.kind = name + " file"
	}
	return a
}

// look makes the child check the program first, if the original does so.
func (a attempt) look(p *spawn.Program) {
	if a.kind != "" && strings.Contains(a.program, "/") {
		p.Look(spawn.StageExec, a.program, false)
	}
}

// wordsOf returns the original's words for a child that could not execute its program; empty if the
// original has no such failure.
func (s *Shepherd) wordsOf(f *spawn.StartError, a attempt) string {
	reason := capitalised(f.Errno)
	switch f.Stage {
	case spawn.StageStdin, spawn.StageStdout, spawn.StageStderr:
		name := [...]string{"stdin_path", "stdout_path", "stderr_path"}[f.Stage-spawn.StageStdin]
		switch {
		case f.Errno == syscall.ETIMEDOUT:
			return ""
		case f.Look:
			return `can't stat() "` + f.What + `" as ` + name + ": " + reason + s.identityWords(a)
		case f.Stage != spawn.StageStdin:
			return `error: can't open output file "` + f.What + `": ` + reason
		case f.Errno == syscall.EISDIR:
			return `"` + f.What + `" is a directory not a file`
		}
		return "error: can't open " + f.What + " as dummy input file"
	case spawn.StageChdir:
		return "error: can't chdir to " + f.What + ": " + reason
	case spawn.StageExec:
		missing := f.Look || f.Errno == syscall.ENOENT && !strings.Contains(a.program, "/")
		switch {
		case a.kind == shellFile && missing:
			return `unable to find shell "` + f.What + `"`
		case a.kind != "" && a.kind != shellFile && missing:
			return "unable to find " + a.kind + ` "` + a.program + `"`
		case a.kind != "" && a.kind != shellFile && f.Errno == syscall.EACCES:
			return a.kind + ` "` + a.program + `" is not executable`
		}
		return a.words() + " failed: " + reason
	}
	return ""
}

// words returns the call with which the original executes a program.
func (a attempt) words() string {
	const withheld = " ..."
	if i := indexBlank(a.program); i >= 0 { // a command line that was meant for a shell, see explain
		return "execvlp(" + a.program[:i] + withheld + `, "` + a.program[:i] + withheld + `")`
	}
	text := []byte("execvlp(" + a.program + ",")
	for i, word := range a.argv {
		if i >= a.shown {
			text = append(text, withheld...)
			break
		}
		text = append(append(append(text, ` "`...), word...), '"')
	}
	return string(text) + ")"
}

// identityWords returns the original's words for a process that cannot access a file. The list of
// groups ends with a blank, as in the original.
func (s *Shepherd) identityWords(a attempt) string {
	text := []byte(" KRB5CCNAME=" + orWord(s.jobEnv.get("KRB5CCNAME"), "none") +
		" uid=" + itoa(int(s.owner.UID)) + " gid=" + itoa(int(s.owner.GID)) + " ")
	for _, group := range s.owner.groups {
		text = append(append(text, itoa(int(group))...), ' ')
	}
	if a.kind == "" || a.kind == shellFile { // the job, not a procedure
		if group := s.additionalGroup(); group != 0 {
			text = append(append(text, itoa(group)...), ' ')
		}
	}
	return string(text)
}

// capitalised returns the text of an error with a capital letter, like strerror(3).
func capitalised(errno syscall.Errno) string {
	b := []byte(errno.Error())
	if 'a' <= b[0] && b[0] <= 'z' {
		b[0] -= 'a' - 'A'
	}
	return string(b)
}

// explained returns the reason of a failure: the words of the original, if there are any, and
// execd's.
func explained(words, ours string) string {
	switch {
	case words == "":
		return ours
	case ours == "":
		return words
	}
	return words + addition + ours
}

// failStart records that a child of a step could not execute its program as user as. As in the
// original, the record has the child's process ID and user ID.
func (s *Shepherd) failStart(code job.Failed, step string, f *spawn.StartError, a attempt, as account) {
	euid, pid := unix.Geteuid(), unix.Getpid()
	if f.PID != 0 {
		pid = f.PID
		if s.privileged {
			euid = int(s.owner.UID)
			if f.Stage == spawn.StageExec {
				euid = int(as.UID)
			}
		}
	}
	s.failBy(euid, pid, code, explained(s.wordsOf(f, a), step+": "+explain(f)+s.hidden(f)))
}

// exitWords returns the original's words for a step that exited with a status, and for what follows
// from it.
func exitWords(step string, status int, what string) string {
	return explained("exit_status of "+step+" = "+itoa(status), what)
}
