package foreground

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// jsonFile is where --json goes. A file appears, complete, when all is over:
// whoever waits for it never reads half an outcome. But that it can be written
// is found out before the job runs.
type jsonFile struct {
	to   *os.File // nil for path: a device or a pipe, opened at the end
	path string   // the name that a temporary file gets; empty when to is none
	old  bool     // to has a content that is to be replaced
}

// createJSON prepares the file; of an empty name there is none.
func createJSON(name string, stdout *os.File) (*jsonFile, error) {
	switch name {
	case "":
		return nil, nil //nolint:nilnil // its methods take it
	case "-":
		return &jsonFile{to: stdout}, nil
	}
	j := &jsonFile{}
	link, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && link.Mode().IsRegular():
		j.path = name
		j.to, err = os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	case err == nil && link.IsDir():
		err = errors.New("it is a directory")
	case err == nil:
		err = j.open(name)
	}
	if err != nil {
		return nil, fmt.Errorf("--json %s: cannot write there: %w", name, err)
	}
	return j, nil
}

// open opens what is neither a file nor missing. A link is followed by the
// kernel, with its rules about links that others have planted, and at once, so
// that it cannot be exchanged while the job runs.
func (j *jsonFile) open(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		j.path = name // opening a pipe waits for its reader
		return unix.Access(name, unix.W_OK)
	}
	j.old = true
	j.to, err = os.OpenFile(name, os.O_WRONLY|unix.O_NOCTTY, 0)
	return err
}

// write writes the outcomes of a job.
func (j *jsonFile) write(records []record, array bool) error {
	if j == nil {
		return nil
	}
	b, err := formatJSON(records, array)
	if err == nil {
		err = j.put(b)
	}
	if err != nil {
		return fmt.Errorf("cannot write the outcome: %w", err)
	}
	return nil
}

func (j *jsonFile) put(b []byte) error {
	switch {
	case j.to == nil:
		f, err := os.OpenFile(j.path, os.O_WRONLY|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Close())
	case j.path == "":
		if j.old {
			if err := j.to.Truncate(0); err != nil {
				return err
			}
		}
		_, err := j.to.Write(b)
		return err
	}
	_, err := j.to.Write(b)
	if e := j.to.Chmod(0o644); err == nil {
		err = e
	}
	if e := j.to.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(j.to.Name(), j.path)
	}
	if err == nil {
		j.to = nil
	}
	return err
}

// discard removes a temporary file that was not used.
func (j *jsonFile) discard() {
	if j != nil && j.to != nil && j.path != "" {
		j.to.Close()
		_ = os.Remove(j.to.Name())
	}
}
