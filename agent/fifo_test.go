package agent

import (
	"testing"

	"golang.org/x/sys/unix"
)

// makeFifo makes a pipe that anybody may use: a job that reads from it waits until
// the test lets it go on.
func makeFifo(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
}
