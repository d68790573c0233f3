package run

import (
	"fmt"
	"os"

	"github.com/execd-project/execd/internal/outfile"
)

// jsonFile is the destination of --json. The complete file appears when everything has finished, so
// that a program that waits for it never reads a part. Whether it can be written is checked before
// the job runs.
type jsonFile struct {
	stdout *os.File // for the name -
	file   *outfile.File
}

// createJSON prepares the file; for an empty name it returns nil.
func createJSON(name string, stdout *os.File) (*jsonFile, error) {
	switch name {
	case "":
		return nil, nil //nolint:nilnil // its methods take it
	case "-":
		return &jsonFile{stdout: stdout}, nil
	}
	f, err := outfile.Begin(name)
	if err != nil {
		return nil, fmt.Errorf("--json %s: cannot write there: %w", name, err)
	}
	return &jsonFile{file: f}, nil
}

// write writes the outcomes of a job.
func (j *jsonFile) write(records []record, array bool) error {
	if j == nil {
		return nil
	}
	b, err := formatJSON(records, array)
	if err == nil {
		if j.stdout != nil {
			_, err = j.stdout.Write(b)
		} else {
			err = j.file.Commit(b, 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write the outcome: %w", err)
	}
	return nil
}

// discard removes a file that was not completed.
func (j *jsonFile) discard() {
	if j != nil {
		j.file.Discard()
	}
}
