// Package records reads accounting files: each record in them, as classic lines or as JSON, and the
// file that a daemon keeps. It writes nothing.
//
// Other projects should not import this package: it may change at any time.
package records

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
)

// MaxLine is the longest line, in bytes, that can be a record: a submission has no room for a job name
// of a million bytes. Longer lines are skipped as invalid, so that no file needs more memory.
const MaxLine = 1 << 22

// jsonSuffix is the end of the name of a file with records as JSON. The name before it is that of the
// file with the same records as classic lines.
const jsonSuffix = ".jsonl"

// File is an open accounting file, or a pipe with records.
type File struct {
	io.ReadCloser
	Name string // for messages
	Size int64  // of the whole file in bytes, when it was opened; 0 for a pipe
}

// Open opens an accounting file of a daemon. If the same directory has a file with the records as JSON,
// Open opens that one: its records have more fields. The error for an empty name is os.ErrNotExist.
func Open(name string) (*File, error) { return opened(open(ordinary, name)) }

// ordinary opens a file with the rights of this process.
func ordinary(name string) (*os.File, error) { return userfile.Open(name, 0) }

func open(by func(string) (*os.File, error), name string) (*os.File, error) {
	if name == "" {
		return nil, os.ErrNotExist
	}
	if f, err := by(name + jsonSuffix); err == nil {
		return f, nil
	}
	return by(name)
}

// recent is how much of the end of a file OpenRecent reads.
const recent = 8 << 20

// OpenRecent opens an accounting file as Open does, and skips to the first line in its last 8 MiB.
func OpenRecent(name string) (*File, error) { return openEnd(ordinary, name, recent) }

// OpenEnd opens an accounting file as Open does, and skips to the first line in its last bytes.
func OpenEnd(name string, most int64) (*File, error) { return openEnd(ordinary, name, most) }

// OpenWith opens an accounting file as Open does, or as OpenRecent does if onlyRecent is true. It opens files
// with a function, such as one that has the rights of a user.
func OpenWith(by func(name string) (*os.File, error), name string, onlyRecent bool) (*File, error) {
	if onlyRecent {
		return openEnd(by, name, recent)
	}
	return opened(open(by, name))
}

func openEnd(by func(string) (*os.File, error), name string, most int64) (*File, error) {
	file, err := open(by, name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	from := max(info.Size()-most-1, 0)
	in := bufio.NewReader(io.NewSectionReader(file, from, info.Size()-from))
	for err = nil; from > 0; { // to the end of the line
		if _, err = in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, file.Close())
	}
	return &File{struct {
		io.Reader
		io.Closer
	}{in, file}, file.Name(), info.Size()}, nil
}

// OpenNamed opens the file that a user names with -f: "-" for standard input, a pipe of the shell such
// as <(zcat accounting.1.gz), or a regular file.
func OpenNamed(name string, stdin io.Reader) (*File, error) {
	switch {
	case name == "-":
		return &File{ReadCloser: io.NopCloser(stdin), Name: "the standard input"}, nil
	case inherited(name):
		return opened(os.Open(name))
	}
	return opened(userfile.Open(name, 0))
}

// CheckFormat returns an error if in, which reads the file from its beginning, is compressed. The error
// contains a command line that reads the file: reader is the command that reads records from standard
// input. CheckFormat does not consume data, and returns no error of reading: the next call returns it.
func (f *File) CheckFormat(in *bufio.Reader, reader string) error {
	const longest = 6 // bytes that textfile.Compression needs
	head, _ := in.Peek(longest)
	if format, command := textfile.Compression(head); format != "" {
		return fmt.Errorf("cannot read %s: it is compressed with %s; use %s FILE | %s", f.Name, format, command, reader)
	}
	return nil
}

// inherited reports whether a name is that of a file that the caller has opened.
func inherited(name string) bool {
	name = filepath.Clean(name)
	return name == "/dev/stdin" || filepath.Dir(name) == "/dev/fd" || filepath.Dir(name) == "/proc/self/fd"
}

func opened(f *os.File, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f, f.Name(), info.Size()}, nil
}

// Each calls yield for each record of a file. It calls bad with the line number of each line that is not
// a record, and with an error if the line is too long. If job is not 0, records of other jobs are left
// out, which is faster. An error of yield ends Each, which returns it. So does the end of ctx, also while
// there are no records: the file may have those of many years.
func Each(ctx context.Context, file io.Reader, job int, yield func(*accounting.Record) error, bad func(line int, err error)) error {
	lines := textfile.NewLines(&interruptible{ctx, file}, MaxLine)
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
		if !relevant(line, job) {
			continue
		}
		r, problem := parseLine(line)
		switch {
		case problem == nil:
			if job != 0 && r.Job != job {
				continue
			}
			if err := yield(r); err != nil {
				return err
			}
		case line[len(line)-1] == '\n' && !errors.Is(problem, accounting.ErrNoRecord):
			bad(lines.Number(), nil) // a last line without a newline is being written
		}
	}
}

// interruptible is a reader that fails once ctx has ended.
type interruptible struct {
	ctx context.Context
	in  io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}

func parseLine(line []byte) (*accounting.Record, error) {
	if line[0] == '{' {
		return accounting.ParseJSON(line)
	}
	return accounting.ParseClassic(string(line))
}

// jobField is the index of the field job_number in a classic line. A classic line has at least
// fewestColons colons.
const (
	jobField     = 5
	fewestColons = 41
)

// relevant reports whether a line can be a record of the wanted job, or is not a record, which the caller
// has to report. It is much faster than parsing all fields.
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
