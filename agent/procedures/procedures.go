// Package procedures reads execd-procedures(5): which programs of its master a host runs as other
// users than the owner of a job.
//
// The master of a cell names programs with a user, as root@/path, and every host runs them. A host
// with this file runs only those that the file permits. The file is root's, so the administrator
// of the host decides, and not the administrator of the cell.
//
// All functions may be called from several goroutines.
package procedures

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/job"
)

// List is what the file permits. A nil *List permits everything: the host has no such file.
type List struct {
	file  string
	lines []line
}

// line permits a user a command.
type line struct {
	user  string
	words []string // patterns of path.Match; the first is that of the program
	more  bool     // further words may follow
}

// Read reads the file by its absolute path. It returns nil if there is none. The error says that
// the file is not valid, or that others than root and the user of this process can change it
// (*trust.Error).
func Read(file string) (*List, error) {
	users := trust.Own()
	if err := users.Check(file); errors.Is(err, fs.ErrNotExist) {
		// Nobody else can make or hide the file if all directories are trusted.
		return nil, users.CheckDirectory(path.Dir(file))
	}
	fd, err := users.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the permitted procedures: %w", err)
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	text, err := textfile.ReadAll(f, textfile.MaxConfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the permitted procedures %s: %w", file, err)
	}
	return Parse(file, string(text))
}

// Parse reads the text of the file. The error names the file and the line.
func Parse(file, text string) (*List, error) {
	l := &List{file: file}
	number := 0
	for s := range strings.Lines(text) {
		number++
		words := strings.Fields(s)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		fail := func(problem string) error {
			return fmt.Errorf("%s:%d: %s", file, number, problem)
		}
		user, words := words[0], words[1:]
		switch {
		case strings.ContainsAny(user, "@/*?[\\"):
			return nil, fail(fmt.Sprintf("%q is no name of a user, expected a line USER PATH [ARGUMENT]...", user))
		case len(words) == 0:
			return nil, fail(fmt.Sprintf("user %s has no program, expected a line USER PATH [ARGUMENT]...", user))
		case !path.IsAbs(words[0]):
			return nil, fail(fmt.Sprintf("%q is no absolute path of a program", words[0]))
		}
		for _, w := range words {
			if _, err := path.Match(w, ""); err != nil {
				return nil, fail(fmt.Sprintf("%q is no pattern: %v", w, err))
			}
		}
		more := len(words) > 1 && words[len(words)-1] == "*"
		if more {
			words = words[:len(words)-1]
		}
		l.lines = append(l.lines, line{user, words, more})
	}
	return l, nil
}

// RefusedError is a program that the file does not permit.
type RefusedError struct {
	File, User, Command string
}

// Error names the program, the user and the file.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("this host does not run %q as user %s: no line of %s permits it (execd-procedures(5))", e.Command, e.User, e.File)
}

// Permit returns a *RefusedError if the list has no line for a command, in the notation of
// sge_conf(5), as a user. The user that the command itself names does not count. Pseudo variables
// are compared as they are written.
func (l *List) Permit(user, command string) error {
	if l == nil {
		return nil
	}
	_, words := job.Procedure(command)
	for _, p := range l.lines {
		if p.user == user && p.permits(words) {
			return nil
		}
	}
	return &RefusedError{l.file, user, strings.Join(words, " ")}
}

func (p *line) permits(words []string) bool {
	if len(words) < len(p.words) || len(words) > len(p.words) && !p.more {
		return false
	}
	for i, pattern := range p.words {
		if ok, err := path.Match(pattern, words[i]); err != nil || !ok {
			return false
		}
	}
	// A pattern for a name matches ".." as well, which leads elsewhere, and so may the value of a
	// pseudo variable.
	program := words[0]
	return path.Clean(program) == program && (!strings.Contains(program, "$") || program == p.words[0])
}
