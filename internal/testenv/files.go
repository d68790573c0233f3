package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds execd, its launcher, and its supervisor as sge_shepherd-go, to a directory, with build
// tags.
func Build(dir, tags string) error {
	for name, pkg := range map[string]string{"execd": "cmd/execd", "execd-launcher": "cmd/launcher", "sge_shepherd-go": "cmd/shepherd"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", tags, "-o", filepath.Join(dir, name), //nolint:noctx // it ends on its own
			"github.com/execd-project/execd/"+pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// WriteFile writes a text to a file, and makes the directories to it.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Open makes a directory in which all users may write, like /tmp, and returns its path.
func Open(t testing.TB, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, os.ModeSticky|0o777); err != nil { //nolint:forbidigo // of the test alone
		t.Fatal(err)
	}
	return path
}

// LetIn gives other users access to a directory below the one for temporary files.
func LetIn(t testing.TB, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:forbidigo // the directories are of the test alone
			t.Fatal(err)
		}
	}
}
