package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/api"
)

// TestLedgerHasEachEndOnce writes ends again, also after a restart and behind a line that
// was cut.
func TestLedgerHasEachEndOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	write := func(keys ...string) {
		t.Helper()
		l, err := openLedger(name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		for _, key := range keys {
			if err := l.write("n1", &api.Job{Key: key}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("a", "b", "a")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)-4], 0o600); err != nil {
		t.Fatal(err)
	}
	write("b", "c", "a")
	write("c")
	text, err = os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if n := strings.Count(string(text), `"key":"`+key+`"`); n != 1 {
			t.Errorf("%s is there %d times:\n%s", key, n, text)
		}
	}
	if n := strings.Count(string(text), "\n"); n != 3 {
		t.Errorf("%d lines:\n%s", n, text)
	}
}
