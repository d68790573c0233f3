package wait

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/accounting"
)

// TestInterruptedWhileReading interrupts the command after the end of the job, when it reads the accounting file.
func TestInterruptedWhileReading(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accounting")
	if err := os.WriteFile(file, accounting.AppendClassic(nil, &accounting.Record{Job: 7}), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	c := Command{
		Args: []string{"7"}, Stdout: &out, Stderr: &out,
		AwaitEnd: func(context.Context, uint32) (bool, error) { return true, nil },
		File:     func() string { return file },
	}
	if status, err := c.Run(ctx); status != ExitGood || err != nil {
		t.Errorf("status %d, %v: %s", status, err, &out)
	}
	c.File = func() string { cancel(); return file }
	if status, err := c.Run(ctx); status != ExitInterrupted || err != nil {
		t.Errorf("interrupted: status %d, %v: %s", status, err, &out)
	}
}
