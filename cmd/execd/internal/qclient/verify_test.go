package qclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/verifier"
)

func TestVerifierPatience(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": verifier.Patience, "60": time.Minute, "0": verifier.Patience, "-5": verifier.Patience, "1.5": verifier.Patience, "999999999999": verifier.Patience,
	} {
		t.Setenv("SGE_JSV_TIMEOUT", value)
		if got := verifierPatience(); got != want {
			t.Errorf("SGE_JSV_TIMEOUT=%s: %v, want %v", value, got, want)
		}
	}
}

// TestVerifierOfRoot checks a script of a user that root submits or verifies. The verifier that the
// script names runs as root, so only root may be able to change it.
func TestVerifierOfRoot(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for name, change := range map[string]func(dir, path string) error{
		"":                         func(string, string) error { return nil },
		"belongs to 12345":         func(_, path string) error { return os.Chown(path, 12345, 0) },
		"may write":                func(_, path string) error { return os.Chmod(path, 0o757) },
		"in a directory of others": func(dir, _ string) error { return os.Chown(dir, 12345, 0) },
	} {
		dir := t.TempDir()
		path, ran := filepath.Join(dir, "jsv"), filepath.Join(t.TempDir(), "ran")
		script := "#!/bin/sh\n: > " + ran + "\nread start\necho STARTED\nread begin\necho RESULT STATE ACCEPT\nread quit\n"
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := change(dir, path); err != nil {
			t.Fatal(err)
		}
		c := &Command{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}}
		_, err := c.verify(t.Context(), &api.Verify{Programs: api.Texts([]string{path})})
		_, gone := os.Stat(ran)
		switch {
		case name == "" && gone != nil:
			t.Errorf("root's own verifier does not run: %v", err)
		case name != "" && (gone == nil || err == nil || !strings.Contains(err.Error(), "is not run as root: ")):
			t.Errorf("%s: it ran: %v; %v", name, gone == nil, err)
		}
	}
}
