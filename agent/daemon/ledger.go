package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/execd-project/execd/internal/outfile"
)

// ledger is a file to which lines are added. A line counts as added when it is on the disk.
// Concurrent lines share one wait for the disk.
type ledger struct {
	path string
	// others are the suffixes of files next to it that are not rotated versions of it.
	others []string

	// files is held while the file is written, read, repaired, closed or replaced.
	files sync.Mutex
	file  *os.File

	mu      sync.Mutex
	pending []byte
	waiting []chan error
	writing bool
}

// openLedger opens a file for lines, and creates it if it is missing. It removes an incomplete last
// line: its writer was never told that it had been added.
func openLedger(path string, others ...string) (*ledger, error) {
	l := &ledger{path: path, others: others}
	return l, l.reopen()
}

// reopen opens the file again after it has been moved away (logrotate(8)).
func (l *ledger) reopen() error {
	l.files.Lock()
	defer l.files.Unlock()
	f, err := outfile.Open(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if err := repair(f); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", l.path, err), f.Close())
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.file = f
	return err
}

// tailSize is the number of bytes at the end of the file that are searched: more than the lines
// that may have been added but not marked as such.
const tailSize = 1 << 20

// tail returns the end of a file.
func tail(f *os.File) (text []byte, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text = make([]byte, min(info.Size(), tailSize))
	_, err = f.ReadAt(text, info.Size()-int64(len(text)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text, info.Size(), err
}

func repair(f *os.File) error {
	text, size, err := tail(f)
	if err != nil {
		return err
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	if end == len(text) {
		return nil
	}
	return f.Truncate(size - int64(len(text)-end))
}

// has reports whether a line is among the last lines of the file, or of the file that was moved away
// last: that may have happened while no agent was running.
func (l *ledger) has(line []byte) (bool, error) {
	l.files.Lock()
	defer l.files.Unlock()
	if there, err := ends(l.file, line); there || err != nil {
		return there, err
	}
	f, err := outfile.OpenRotated(l.path, l.others...)
	if f == nil || err != nil {
		return false, err
	}
	defer f.Close()
	return ends(f, line)
}

// ends reports whether a line is at the end of a file.
func ends(f *os.File, line []byte) (bool, error) {
	text, _, err := tail(f)
	if err != nil {
		return false, err
	}
	at := bytes.Index(text, line)
	return at == 0 || at > 0 && bytes.Contains(text, append([]byte{'\n'}, line...)), nil
}

// add adds a line, which ends with a newline, and returns when it is on the disk.
func (l *ledger) add(line []byte) error {
	done := make(chan error, 1)
	l.mu.Lock()
	l.pending = append(l.pending, line...)
	l.waiting = append(l.waiting, done)
	lead := !l.writing
	l.writing = true
	l.mu.Unlock()
	if lead {
		l.write()
	}
	return <-done
}

// write writes pending lines until there are none.
func (l *ledger) write() {
	for {
		l.mu.Lock()
		text, waiting := l.pending, l.waiting
		l.pending, l.waiting = nil, nil
		if len(waiting) == 0 {
			l.writing = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		err := l.append(text)
		for _, w := range waiting {
			w <- err
		}
	}
}

func (l *ledger) append(text []byte) error {
	l.files.Lock()
	defer l.files.Unlock()
	f := l.file
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err != nil {
		// Half of it would be taken for all of it.
		return errors.Join(fmt.Errorf("%s: %w", l.path, err), f.Truncate(info.Size()))
	}
	return nil
}

func (l *ledger) close() error {
	if l == nil {
		return nil
	}
	l.files.Lock()
	defer l.files.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
