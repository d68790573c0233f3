// Package output finds and reads the output files of the caller's jobs, with the caller's rights.
//
// Other projects should not import this package: it may change at any time.
package output

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qstat"
)

// Finder finds output files. It asks for the home directory of each owner once, as the answer may come from
// another host. It is for one goroutine.
type Finder struct {
	// IsDir reports whether a path leads to a directory, with the rights of the user.
	IsDir func(path string) bool

	users userdb.Database
	homes map[string]string // by user
}

// NewFinder returns a Finder that looks up home directories in a database.
func NewFinder(users userdb.Database) *Finder {
	return &Finder{users: users, homes: map[string]string{}, IsDir: func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	}}
}

// Path returns the path of an output file on this host. The file of an array job is that of a task. It
// fails if the home directory in the path is unknown.
func (d *Finder) Path(f qstat.OutputFile, task int) (string, error) {
	name := f.Path
	if rest, ok := strings.CutPrefix(name, "~"); ok {
		who, below, _ := strings.Cut(rest, "/")
		home, known := d.homes[who]
		if !known {
			u, err := d.users.User(who)
			if err != nil {
				return "", fmt.Errorf("cannot find the home directory of %q: %w", who, err)
			}
			home = u.Home
			d.homes[who] = home
		}
		name = path.Join(home, below)
	}
	if f.Name != "" && d.IsDir(name) {
		name = path.Join(name, f.Name)
	}
	return strings.ReplaceAll(name, "$TASK_ID", strconv.Itoa(task)), nil
}

// Files returns the output files of a run from its accounting record: standard output and, unless both are
// one, standard error. It returns none for an interactive job, or for a record that does not name them.
func Files(r *accounting.Record) (files []qstat.OutputFile) {
	id := job.ID{Job: r.Job, Task: r.Task}
	for i, path := range []string{r.Stdout, r.Stderr} {
		if path != "" {
			files = append(files, qstat.OutputFile{Path: path, Name: id.OutputName(r.JobName, []string{"o", "e"}[i])})
		}
	}
	return files
}

// TailOf returns the last lines of an open file: at most as many bytes and lines as given. earlier reports
// whether the file has more before them.
func TailOf(f *os.File, bytesMost int64, linesMost int) (text []byte, earlier bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	return LastLines(f, info.Size(), bytesMost, linesMost)
}

// LastLines returns the last lines of a file of the given size, as TailOf does.
func LastLines(f io.ReaderAt, size, bytesMost int64, linesMost int) (text []byte, earlier bool, err error) {
	from := max(size-bytesMost, 0)
	text, err = io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return nil, false, err
	}
	if linesMost <= 0 {
		return nil, size > 0, nil
	}
	if from > 0 { // the first line is not whole, unless it is the only one
		if i := bytes.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
			text = text[i+1:]
		}
	}
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for range linesMost {
		i := bytes.LastIndexByte(text[:at], '\n')
		if i < 0 {
			return text, from > 0, nil
		}
		at = i
	}
	return text[at+1:], true, nil
}
