// Package textfile reads untrusted texts with limits on their size: configuration files, scripts,
// lists, traces and records come from other sites and from users, and a sparse file can be as large
// as a disk.
//
// A text that is read as a whole has a limit. A text that is read line by line may be of any
// length; its lines have a limit.
//
// The functions have no state. A Lines may be used by one goroutine.
package textfile

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Maximum sizes of texts, in bytes.
const (
	// MaxConfig is the maximum size of a configuration file: a queue with separate settings for
	// each of 50,000 hosts has 4 MiB.
	MaxConfig = 8 << 20
	// MaxScript is the maximum size of a job script, and of other texts that are read as a whole.
	MaxScript = 32 << 20
	// MaxList is the maximum size of a list of jobs, which is held in memory.
	MaxList = 256 << 20
	// MaxLine is the maximum size of a line of a file that is read line by line.
	MaxLine = 1 << 20
	// MaxSkipped is how much of a line that is too long is skipped to get to the next one: a
	// device such as /dev/zero has no next one.
	MaxSkipped = 256 << 20
)

// SizeError means that a text, or a line of it, is larger than its limit.
type SizeError struct {
	Name  string // of the text; empty if the caller names it
	Line  int    // from 1; 0 for the text as a whole
	Limit int64  // in bytes
}

// Error names the text, the line and the limit.
func (e *SizeError) Error() string {
	what, where := "it", e.Name
	if e.Line > 0 {
		what = "the line"
		where += ":" + strconv.Itoa(e.Line)
	}
	if e.Name != "" {
		where += ": "
	} else {
		where = ""
	}
	return where + what + " has more than " + size(e.Limit) + ", which is the limit"
}

// size formats a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.FormatInt(n>>20, 10) + " MiB"
	case n >= 1<<10 && n%(1<<10) == 0:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// ReadAll reads a text to its end. The error is a *SizeError, without a name, if that takes more
// than limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, &SizeError{Limit: limit}
	}
	return text, err
}

// ReadLines reads like ReadAll, with an additional limit for each line; the *SizeError of a line
// has its number. Of a text that is one endless line, ReadLines stores at most maxLine bytes.
func ReadLines(r io.Reader, limit int64, maxLine int) ([]byte, error) {
	lines := NewLines(r, maxLine)
	var text []byte
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		case int64(len(text)+len(line)) > limit:
			return nil, &SizeError{Limit: limit}
		}
		text = append(text, line...)
	}
}

// ErrKind means that the file is not a regular file.
var ErrKind = errors.New("it is not a regular file")

// ReadFS reads a regular file of a file system. The error is a *SizeError, or a *fs.PathError,
// which may hold ErrKind.
func ReadFS(fsys fs.FS, name string, limit int64) ([]byte, error) {
	// To open a pipe would wait for its writer.
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrKind}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := ReadAll(f, limit)
	if e, ok := errors.AsType[*SizeError](err); ok {
		e.Name = name
	}
	return text, err
}

// ErrEndless means that a line has more than MaxSkipped bytes; Lines then stops.
var ErrEndless = errors.New("the line has more than " + size(MaxSkipped) + ": what follows it is not read")

// Compression returns the name of the format in which a text is compressed that begins with
// head, and the command that prints it; both are empty for any other text. It needs 6 bytes.
func Compression(head []byte) (format, command string) {
	for _, c := range [...]struct{ magic, format, command string }{
		{"\x1f\x8b", "gzip", "zcat"}, {"\xfd7zXZ\x00", "xz", "xzcat"}, {"BZh", "bzip2", "bzcat"}, {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"},
	} {
		if strings.HasPrefix(string(head), c.magic) {
			return c.format, c.command
		}
	}
	return "", ""
}

// Lines reads a text line by line.
type Lines struct {
	in      *bufio.Reader
	limit   int
	number  int
	long    []byte // a line that is longer than the buffer
	within  bool   // the remainder of a line that is too long comes next
	skipped int64  // of that line
}

// NewLines returns a reader of lines of at most limit bytes each.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{in: bufio.NewReaderSize(r, 1<<16), limit: limit}
}

// Next returns the next line with its newline, which the last line may lack. The line is valid
// until the next call. If a line is too long, the error is a *SizeError with its number; the next
// call continues after it, or returns ErrEndless. At the end the error is io.EOF.
func (l *Lines) Next() ([]byte, error) {
	if err := l.skip(); err != nil {
		return nil, err
	}
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = l.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) && len(l.long)+len(line) <= l.limit {
			l.long = append(l.long, line...)
			line, err = l.in.ReadSlice('\n')
		}
		if len(l.long)+len(line) <= l.limit {
			l.long = append(l.long, line...)
		} else {
			l.within, l.skipped = errors.Is(err, bufio.ErrBufferFull), 0
			return nil, l.tooLong()
		}
		line = l.long
	}
	switch {
	case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
		return nil, err
	case len(line) > l.limit:
		return nil, l.tooLong()
	}
	l.number++
	return line, nil
}

func (l *Lines) tooLong() error {
	l.number++
	return &SizeError{Line: l.number, Limit: int64(l.limit)}
}

// skip skips the remainder of a line that is too long.
func (l *Lines) skip() error {
	for l.within {
		if l.skipped > MaxSkipped {
			return ErrEndless
		}
		part, err := l.in.ReadSlice('\n')
		l.skipped += int64(len(part))
		if l.within = errors.Is(err, bufio.ErrBufferFull); !l.within && err != nil {
			return err
		}
	}
	return nil
}

// Number returns the number of the line that was returned or refused last, from 1.
func (l *Lines) Number() int { return l.number }

// Reader fails with a *SizeError after limit bytes of another reader.
type Reader struct {
	r           io.Reader
	left, limit int64
}

// NewReader returns a reader of at most limit bytes of r.
func NewReader(r io.Reader, limit int64) *Reader { return &Reader{r, limit, limit} }

// Read reads on.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		// It may be the end.
		if n, err := r.r.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, &SizeError{Limit: r.limit}
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// Shorten returns a text for people, such as an error about a value: of a long one the beginning,
// the number of bytes that are left out, and the end.
func Shorten(text string) string {
	const most, ends = 1000, 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:ends], "") + "[... " + strconv.Itoa(len(text)-2*ends) + " bytes ...]" + strings.ToValidUTF8(text[len(text)-ends:], "")
}
