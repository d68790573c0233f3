package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/execd-project/execd/agent/api"
)

// ledger is the file with the outcomes of jobs. An agent forgets a job once its end has
// been acknowledged, so the end has to be on the disk before. A master that is killed between
// the two gets the report again, so the ledger knows which ends it has.
type ledger struct {
	file *os.File
	has  map[string]bool // keys of starts
}

// entry is a line of the ledger.
type entry struct {
	Host string  `json:"host"`
	Job  api.Job `json:"job"`
}

func openLedger(name string) (*ledger, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read the ledger %q: %w", name, err)
	}
	// A line that was cut when the machine went down has not been acknowledged either.
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	l := &ledger{file: f, has: map[string]bool{}}
	for line := range bytes.Lines(whole) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("cannot read the ledger %q: %w", name, err)
		}
		l.has[e.Job.Key] = true
	}
	return l, f.Truncate(int64(len(whole)))
}

// write writes the end of a job to the disk. When it returns nil the end may be acknowledged.
func (l *ledger) write(host string, j *api.Job) error {
	if l.has[j.Key] {
		return nil
	}
	line, err := json.Marshal(entry{host, *j})
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return err
	}
	l.has[j.Key] = true
	return l.file.Sync()
}

func (l *ledger) close() { _ = l.file.Close() } // each line has been written
