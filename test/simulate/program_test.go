package simulate

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// programEnv names the environment variable that replaces ./cmd/execd by another
// program.
const programEnv = "EXECD_SIMULATE_PROGRAM"

// buildExecd builds the program under test.
func buildExecd(t *testing.T) string {
	t.Helper()
	if program := os.Getenv(programEnv); program != "" {
		return program
	}
	path := filepath.Join(t.TempDir(), "execd")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../../cmd/execd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build execd: %v\n%s", err, out)
	}
	return path
}

// simulate runs execd simulate for the case in dir.
func simulate(ctx context.Context, execd, dir, out string) error {
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, execd, "simulate", "--case", dir, "--out", out)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return nil
}
