package records

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
)

// OpenClassic opens an accounting file of a daemon like Open, but prefers the file with classic lines, which is
// several times as fast to read.
func OpenClassic(name string) (*File, error) {
	if name == "" {
		return nil, os.ErrNotExist
	}
	if f, err := userfile.Open(name, 0); err == nil {
		return opened(f, nil)
	}
	return Open(name)
}

// blockSize is how much of a file a worker of EachParallel takes at a time.
const blockSize = 1 << 20

// block is a part of a file that consists of whole lines.
type block struct {
	text  []byte
	first int // number of its first line, from 1
	long  int // number of a line that was too long, before the block; 0 for none
}

// EachParallel reads all records of a file, as Each does for all jobs, with several workers. It
// calls yield with the number of the worker, from 0. Workers call yield at the same time, and the
// order of the records is lost. It calls bad from one goroutine at a time.
func EachParallel(file io.Reader, workers int, yield func(worker int, r *accounting.Record), bad func(line int, err error)) error {
	blocks := make(chan block)
	free := make(chan []byte, workers+1)
	var running sync.WaitGroup
	var mu sync.Mutex
	report := func(line int, err error) {
		mu.Lock()
		defer mu.Unlock()
		bad(line, err)
	}
	for w := range workers {
		running.Go(func() {
			for b := range blocks {
				if b.long > 0 {
					report(b.long, &textfile.SizeError{Line: b.long, Limit: MaxLine})
				}
				number := b.first
				for line := range bytes.Lines(b.text) {
					r, err := parseLine(line)
					switch {
					case err == nil:
						yield(w, r)
					case line[len(line)-1] == '\n' && !errors.Is(err, accounting.ErrNoRecord):
						report(number, nil)
					}
					number++
				}
				select {
				case free <- b.text[:0]:
				default:
				}
			}
		})
	}
	err := split(file, blocks, free)
	close(blocks)
	running.Wait()
	return err
}

// split sends a file in blocks. It takes their memory from free, if there is any.
func split(file io.Reader, blocks chan<- block, free <-chan []byte) error {
	next := block{first: 1}
	line := 1       // number of the line at the end of rest
	var rest []byte // the beginning of a line
	skipping := false
	for {
		var text []byte
		select {
		case text = <-free:
		default:
		}
		text = append(text[:0], rest...)
		if n := len(rest) + blockSize; cap(text) < n {
			text = append(make([]byte, 0, n), text...)
		}
		n, err := io.ReadFull(file, text[len(text):len(rest)+blockSize])
		text = text[:len(rest)+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if skipping {
			i := bytes.IndexByte(text, '\n')
			if i < 0 {
				if last {
					i = len(text) - 1
				} else {
					continue
				}
			}
			// The block begins behind the line that is too long.
			text, skipping = text[i+1:], false
			line++
			next.first = line
		}
		end := bytes.LastIndexByte(text, '\n') + 1
		if last {
			end = len(text)
		}
		rest = bytes.Clone(text[end:])
		next.text = text[:end]
		line += bytes.Count(next.text, []byte{'\n'})
		if len(rest) > MaxLine {
			rest, skipping = nil, true
		}
		if len(next.text) > 0 || next.long > 0 {
			blocks <- next
		}
		next = block{first: line}
		if skipping {
			next.long = line
		}
		if last {
			if next.long > 0 {
				blocks <- next
			}
			return nil
		}
	}
}
