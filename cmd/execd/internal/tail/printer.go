package tail

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/execd-project/execd/cmd/execd/internal/output"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/userfile"
)

// outputPrinter prints the output of tasks. It makes control characters other than line breaks and tabs, and
// invalid UTF-8, visible (package printable).
type outputPrinter struct {
	to      io.Writer
	raw     bool
	lines   int
	headers bool // a line with the number of the task precedes its output

	task    int // task of the last output
	begun   bool
	midline bool           // the last output does not end with a line break
	held    map[int][]byte // by task: incomplete output that is not printed yet
}

func newPrinter(to io.Writer, q request) *outputPrinter {
	return &outputPrinter{to: to, raw: q.raw, lines: q.lines, held: map[int][]byte{}}
}

// longestLine is the maximum size of an incomplete line that is kept, in bytes.
const longestLine = 16 << 10

// end prints the last lines of a file.
func (p *outputPrinter) end(path string, task int) error {
	f, err := userfile.Open(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	text, _, err := p.lastLines(f)
	if err != nil {
		return err
	}
	if err := p.write(task, text); err != nil {
		return err
	}
	return p.flush(task)
}

// lastLines returns the last lines of a file, and the size of the file.
func (p *outputPrinter) lastLines(f *os.File) (text []byte, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, _, err = output.LastLines(f, info.Size(), firstBytes, p.lines)
	return text, info.Size(), err
}

// write prints output of a task. An incomplete character waits for the next call; so does an incomplete line
// if the output of several tasks is mixed.
func (p *outputPrinter) write(task int, text []byte) error {
	text = append(p.held[task], text...)
	n := len(text)
	if p.headers && n < longestLine {
		n = bytes.LastIndexByte(text, '\n') + 1
	} else if !p.raw {
		n -= incomplete(text)
	}
	if delete(p.held, task); n < len(text) {
		p.held[task] = bytes.Clone(text[n:])
	}
	return p.put(task, text[:n])
}

// flush prints the output of a task that write has kept.
func (p *outputPrinter) flush(task int) error {
	text := p.held[task]
	delete(p.held, task)
	return p.put(task, text)
}

func (p *outputPrinter) put(task int, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	head := ""
	if p.headers && (!p.begun || p.task != task) {
		if p.midline {
			head = "\n"
		}
		if p.begun {
			head += "\n"
		}
		head += fmt.Sprintf("==> task %d <==\n", task)
	}
	p.begun, p.task, p.midline = true, task, text[len(text)-1] != '\n'
	if !p.raw {
		text = []byte(printable.Lines(string(text)))
	}
	_, err := p.to.Write(append([]byte(head), text...))
	return err
}

// incomplete returns the length of an incomplete character at the end of a text, in bytes.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
