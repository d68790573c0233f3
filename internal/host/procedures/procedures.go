// Package procedures reads execd-procedures(5): which programs of its master a host runs as other
// users than the owner of a job.
//
// The master of a cell names programs with a user, as root@/path, and every host runs them. A host
// with this file runs only those that the file permits. The file belongs to root, so the
// administrator of the host decides, and not the administrator of the cell.
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
	"sync/atomic"

	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/job"
)

// List holds the permissions of the file. A nil *List, for a host without the file, permits
// everything.
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

// File is the file of a host, which is read for each check. If the file disappears later, for
// example for a moment when an editor replaces it, that does not permit everything.
type File struct {
	path     string
	memory   trust.Memory // of its directories: each job asks for the file
	required atomic.Bool
}

// NewFile returns the file with an absolute path. required says that the file must exist.
func NewFile(path string, required bool) *File {
	f := &File{path: path, memory: trust.Memory{Users: trust.Own()}}
	f.required.Store(required)
	return f
}

// Read calls the function Read for this file. It returns an error for a file that does not exist
// if the file is required, or if it was there before.
func (f *File) Read() (*List, error) {
	l, err := read(f.path, &f.memory)
	switch {
	case l != nil || err != nil:
		f.required.Store(true)
	case f.required.Load():
		return nil, fmt.Errorf("cannot read the permitted procedures: %q was there and is missing; write it again, or restart the agent to run without it", f.path)
	}
	return l, err
}

// Read reads the file by its absolute path. It returns nil if there is none. The error says that
// the file is not valid, or that others than root and the user of this process can change it
// (*trust.Error).
func Read(file string) (*List, error) { return read(file, &trust.Memory{Users: trust.Own()}) }

func read(file string, m *trust.Memory) (*List, error) {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		// If all directories are trusted, no other user can create or hide the file.
		return nil, errors.Join(m.CheckDirectory(path.Dir(file)), absent(file))
	}
	if err := m.Users.Check(file); errors.Is(err, fs.ErrNotExist) { // a link that leads nowhere
		return nil, errors.Join(m.CheckDirectory(path.Dir(file)), absent(file))
	}
	fd, err := m.Users.Open(file)
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

// absent returns an error if a file is missing only because a link on the way to it leads nowhere: to
// a file system that is not mounted, for example.
func absent(file string) error {
	for name := file; ; name = path.Dir(name) {
		_, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) && name != path.Dir(name) {
			continue
		}
		if err == nil {
			_, err = os.Stat(name)
			if name == file && err == nil {
				err = errors.New("it has just appeared")
			}
		}
		if err != nil {
			return fmt.Errorf("cannot read the permitted procedures %s: %w", file, err)
		}
		return nil
	}
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
			return nil, fail(fmt.Sprintf("%q is not a name of a user, expected a line USER PATH [ARGUMENT]...", user))
		case len(words) == 0:
			return nil, fail(fmt.Sprintf("user %s has no program, expected a line USER PATH [ARGUMENT]...", user))
		case !path.IsAbs(words[0]):
			return nil, fail(fmt.Sprintf("%q is not an absolute path of a program", words[0]))
		}
		for _, w := range words {
			if _, err := match(w, strings.Repeat("/", strings.Count(w, "/"))); err != nil {
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
		if ok, err := match(pattern, words[i]); err != nil || !ok {
			return false
		}
	}
	// A pattern for a name matches ".." as well, which leads elsewhere.
	program := words[0]
	return path.Clean(program) == program
}

// match reports whether a word matches a pattern as a shell compares paths: nothing but a slash
// matches a slash. A word with a pseudo variable has to be the pattern itself: users choose some of
// the values, slashes included.
func match(pattern, word string) (bool, error) {
	if strings.Contains(word, "$") {
		return word == pattern, nil
	}
	patterns, names := strings.Split(negated(pattern), "/"), strings.Split(word, "/")
	if len(patterns) != len(names) {
		return false, nil
	}
	all := true
	for i, p := range patterns {
		ok, err := path.Match(p, names[i])
		if err != nil {
			return false, err
		}
		all = all && ok
	}
	return all, nil
}

// negated writes a class [!abc] of a pattern as [^abc], the form of path.Match.
func negated(pattern string) string {
	b, class := []byte(pattern), false
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\':
			i++
		case class:
			class = b[i] != ']'
		case b[i] == '[':
			if class = true; i+1 < len(b) && b[i+1] == '!' {
				i++
				b[i] = '^'
			}
		}
	}
	return string(b)
}
