package qacct

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/textfile"
)

// maxLine is the longest line that is a record: a million bytes of job name do not fit into
// a submission. What is longer is skipped as unreadable, so that no file needs more memory.
const maxLine = 1 << 22

// entry is a record, with the seconds that it ran as the original counts them: whole ones.
type entry struct {
	*accounting.Record
	wallclock int64
}

// records calls yield for each record of a file, and bad with the number of each line that
// is none, and an error if that is because of its length. wanted, if there is one, is the only
// number of a job of which records are needed.
func records(file io.Reader, wanted int, yield func(entry) error, bad func(line int, err error)) error {
	lines := textfile.NewLines(file, maxLine)
	for {
		line, err := lines.Next()
		switch _, tooLong := errors.AsType[*textfile.SizeError](err); {
		case errors.Is(err, io.EOF):
			return nil
		case tooLong:
			bad(lines.Number(), err)
			continue
		case err != nil:
			return fmt.Errorf("line %d: %w", lines.Number(), err)
		}
		if !relevant(line, wanted) {
			continue
		}
		e, problem := parseLine(line)
		switch {
		case problem == nil:
			if err := yield(e); err != nil {
				return err
			}
		case line[len(line)-1] == '\n' && !errors.Is(problem, accounting.ErrNoRecord):
			bad(lines.Number(), nil) // a last line without its end is one that is being written
		}
	}
}

func parseLine(line []byte) (entry, error) {
	if line[0] == '{' {
		r, err := accounting.ParseJSON(line)
		if err != nil {
			return entry{}, err
		}
		return entry{r, int64(r.Wallclock())}, nil
	}
	r, err := accounting.ParseClassic(string(line))
	if err != nil {
		return entry{}, err
	}
	return entry{r, int64(r.Usage.Wallclock)}, nil
}

// jobField is the number of the field job_number of a classic line, and fewestColons are
// those of a line that can be one.
const (
	jobField     = 5
	fewestColons = 41
)

// relevant reports whether a line may be a record of a job, or is none at all, which has to
// be found out. It is far cheaper than reading all fields.
func relevant(line []byte, wanted int) bool {
	if wanted == 0 {
		return true
	}
	if line[0] == '{' {
		return bytes.Contains(line, strconv.AppendInt([]byte(`"job_number":`), int64(wanted), 10)) ||
			bytes.Contains(line, []byte(`"job_number": `)) || !bytes.HasSuffix(line, []byte("}\n"))
	}
	if bytes.Count(line, []byte{':'}) < fewestColons {
		return true
	}
	for range jobField {
		_, line, _ = bytes.Cut(line, []byte{':'})
	}
	number, _, _ := bytes.Cut(line, []byte{':'})
	n, err := strconv.Atoi(string(number))
	return err != nil || n == wanted
}
