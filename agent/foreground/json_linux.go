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
	to   *os.File // written at the end: standard output, or a temporary file
	path string   // the name that a temporary file gets; or of a device or pipe, to be opened
}

// createJSON prepares the file; of an empty name there is none.
func createJSON(name string, stdout *os.File) (*jsonFile, error) {
	switch name {
	case "":
		return nil, nil //nolint:nilnil // its methods take it
	case "-":
		return &jsonFile{to: stdout}, nil
	}
	j := &jsonFile{path: name}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		err = errors.New("it is a directory")
	case err == nil && !info.Mode().IsRegular():
		err = unix.Access(name, unix.W_OK)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		if j.path, err = target(name); err == nil {
			j.to, err = os.CreateTemp(filepath.Dir(j.path), "."+filepath.Base(j.path)+".*")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--json %s: cannot write there: %w", name, err)
	}
	return j, nil
}

// target resolves links, so that the file they lead to is replaced.
func target(name string) (string, error) {
	path, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(name); err == nil {
			return "", errors.New("it is a link to a file that does not exist")
		}
		return name, nil
	}
	return path, err
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
	if j.to == nil {
		f, err := os.OpenFile(j.path, os.O_WRONLY|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Close())
	}
	if _, err := j.to.Write(b); err != nil || j.path == "" {
		return err
	}
	err := j.to.Chmod(0o644)
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
