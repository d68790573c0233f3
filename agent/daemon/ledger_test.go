package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// reopening reopens a ledger repeatedly while goroutines add lines. It returns how often each line
// occurs in all files of the ledger, and the number of lines added.
func reopening(t *testing.T, rotate func(path string, n int) error) (found map[string]int, added int) {
	t.Helper()
	const writers, each = 8, 60
	dir := t.TempDir()
	path := filepath.Join(dir, "accounting")
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	var adding sync.WaitGroup
	for w := range writers {
		adding.Go(func() {
			for i := range each {
				line := fmt.Sprintf("%d.%d %s\n", w, i, strings.Repeat("x", 100_000))
				if err := l.add([]byte(line)); err != nil {
					t.Errorf("cannot add: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { adding.Wait(); close(done) }()
	for n, running := 0, true; running; n++ {
		select {
		case <-done:
			running = false
		default:
		}
		if err := errors.Join(rotate(path, n), l.reopen()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	found = map[string]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			number, rest, _ := strings.Cut(line, " ")
			if len(rest) != 100_001 {
				t.Errorf("the line %s has %d bytes", number, len(rest))
			}
			found[number]++
		}
	}
	return found, writers * each
}

// TestLedgerIsReopened moves the files away, as logrotate(8) does, and reloads the configuration
// while records are written. Each record must be in exactly one file, complete, and must not be
// reported as failed.
func TestLedgerIsReopened(t *testing.T) {
	for name, rotate := range map[string]func(string, int) error{
		"moved away": func(path string, n int) error { return os.Rename(path, fmt.Sprintf("%s.%d", path, n)) },
		"as it is":   func(string, int) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			found, added := reopening(t, rotate)
			if len(found) != added {
				t.Errorf("%d lines, expected %d", len(found), added)
			}
			for line, n := range found {
				if n != 1 {
					t.Errorf("%s is there %d times", line, n)
				}
			}
		})
	}
}
